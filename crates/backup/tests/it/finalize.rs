//! Backups whose actions have begun operations.

use crate::ground::{Ground, NAME, Scripted, key, texts};
use lifeboat_action::{ActionError, BackupItemOutput, OperationProgress};
use lifeboat_api::{Backup, BackupPhase};
use lifeboat_archive::gzip;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_archive::sidecar::ResourceList;
use lifeboat_backup::{Env, FinalizeError, finalize, look_after_operations, run};
use lifeboat_bucket::faults::Deadly;
use lifeboat_object::Results;
use lifeboat_store::Store;
use serde_json::{Value, json};
use std::sync::Arc;

/// Objects of a namespace that has nothing: itself, and what every namespace gets.
const OTHERS: i64 = 3;

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn done() -> OperationProgress {
    OperationProgress { completed: true, ..OperationProgress::default() }
}

/// Begins an operation for each ConfigMap whose name begins with `job`, after which `result` and `late` are saved again. The
/// operation runs when it is asked for the first time, and is done the second time.
fn jobs() -> Arc<Scripted> {
    Scripted::new(
        |item| {
            let is_job = name(&item).starts_with("job");
            let operation_id = if is_job { format!("of-{}", name(&item)) } else { String::new() };
            let post_operation_items = if is_job { vec![key("result"), key("late")] } else { Vec::new() };
            Ok(BackupItemOutput { operation_id, post_operation_items, ..BackupItemOutput::unchanged(item) })
        },
        |_, before| Ok(if before == 0 { OperationProgress::default() } else { done() }),
    )
}

async fn record(store: &Store) -> Backup {
    store.backup(NAME).await.unwrap()
}

async fn look_after(env: &Env) -> Option<BackupPhase> {
    look_after_operations(record(&env.store).await, false, env).await.unwrap().status.phase
}

async fn results(store: &Store) -> (Vec<String>, Vec<String>) {
    let results: Results = store.backup_file(NAME, BackupFile::Results).await.unwrap().unwrap();
    let texts = |messages: &mut dyn Iterator<Item = &str>| messages.map(str::to_owned).collect::<Vec<_>>();
    (texts(&mut results.errors.messages()), texts(&mut results.warnings.messages()))
}

/// The error of a ConfigMap, as it stands in the results.
fn of(name: &str, message: &str) -> String {
    format!(" resource: /configmaps name: /{name} message: /{message}")
}

#[tokio::test]
async fn a_backup_ends_when_its_operations_have_and_saves_again_what_they_name() {
    let ground = Ground::start(&["job", "plain", "result"], vec![jobs()]).await;
    let env = ground.env(ground.store());
    let outcome = run(&Ground::request(), &env).await.unwrap();
    assert!(outcome.is_pending());
    assert_eq!(record(&env.store).await, outcome.backup);
    ground.verify("it waits").await;

    // The journal of each step is its own.
    assert_eq!(look_after(&ground.env(ground.store())).await, Some(BackupPhase::WaitingForPluginOperations));
    let operations: Vec<BackupOperation> =
        env.store.backup_file(NAME, BackupFile::ItemOperations).await.unwrap().unwrap();
    assert!(!operations[0].status.has_ended());
    assert_eq!(look_after(&ground.env(ground.store())).await, Some(BackupPhase::Finalizing));
    ground.verify("its operation has ended").await;

    ground.set("result", "after").await;
    ground.set("late", "made meanwhile").await;
    *ground.now.lock().unwrap() = 60;
    let env = ground.env(ground.store());
    let ended = finalize(record(&env.store).await, false, &env).await.unwrap();
    let status = &ended.status;
    assert_eq!(
        (status.phase, status.errors, status.warnings, status.completion_timestamp.map(|time| time.to_string())),
        (Some(BackupPhase::Completed), 0, 0, Some("1970-01-01T00:01:00Z".to_owned()))
    );
    let counts = (
        status.backup_item_operations_attempted,
        status.backup_item_operations_completed,
        status.backup_item_operations_failed,
        status.progress.as_ref().map(|progress| progress.items_backed_up),
    );
    assert_eq!(counts, (1, 1, 0, Some(4 + OTHERS)));
    assert_eq!(record(&env.store).await, ended);
    let expected = [("job", "before"), ("late", "made meanwhile"), ("plain", "before"), ("result", "after")];
    assert_eq!(ground.saved().await, texts(&expected));
    ground.verify("it has ended").await;
    let resources: ResourceList = env.store.backup_file(NAME, BackupFile::ResourceList).await.unwrap().unwrap();
    assert_eq!(resources.len(), 4 + usize::try_from(OTHERS).unwrap());
    let log = env.store.backup_file_bytes(NAME, BackupFile::Logs).await.unwrap().unwrap();
    let log = String::from_utf8(gzip::unpack(&log, 1 << 20).unwrap()).unwrap();
    let steps = ["Beginning backup", "Finalizing the backup", "Saved objects again"];
    assert!(steps.iter().all(|step| log.contains(step)), "{log}");
    assert_eq!(finalize(ended.clone(), false, &env).await.unwrap(), ended, "it ends once");
}

/// Lines that a log of so many megabytes has, compressed.
fn noise(megabytes: u64, env: &Env) -> Vec<String> {
    let words = |line: u64| (0..128).map(move |n| (line * 128 + n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let line = |n| format!("{n}-{}", words(n).map(|word| format!("{word:016x}")).collect::<String>());
    let lines: Vec<String> = (0..megabytes << 10).map(line).collect();
    lines.iter().for_each(|line| env.operation.journal.info(line, &[]));
    lines
}

/// More than memory holds of it.
#[tokio::test]
async fn the_log_of_a_backup_is_stored_whole_however_long_it_is() {
    let ground = Ground::start(&["job", "result"], vec![jobs()]).await;
    let env = ground.env(ground.store());
    let mut expected = noise(6, &env);
    run(&Ground::request(), &env).await.unwrap();
    ground.verify("it waits").await;
    look_after(&env).await;
    look_after(&env).await;
    let env = ground.env(ground.store());
    expected.extend(noise(3, &env));
    finalize(record(&env.store).await, false, &env).await.unwrap();
    ground.verify("it has ended").await;
    let log = env.store.backup_file_bytes(NAME, BackupFile::Logs).await.unwrap().unwrap();
    assert!(log.len() > 9 << 20, "{} bytes", log.len());
    let log = String::from_utf8(gzip::unpack(&log, 64 << 20).unwrap()).unwrap();
    let messages = log.lines().filter_map(|line| line.split_once(" msg=")?.1.split_once(' '));
    let messages: Vec<&str> = messages.map(|(message, _)| message).filter(|message| message.len() > 1000).collect();
    assert!(messages == expected);
}

#[tokio::test]
async fn a_backup_can_be_proved_wherever_its_end_is_cut_off() {
    let mut cuts = 0;
    for takes_last in [false, true] {
        for puts in 0.. {
            let ground = Ground::start(&["job", "result"], vec![jobs()]).await;
            let env = ground.env(ground.store());
            run(&Ground::request(), &env).await.unwrap();
            look_after(&env).await;
            ground.set("result", "after").await;
            ground.set("late", "made meanwhile").await;
            let deadly = Arc::new(Deadly::new(Arc::clone(&ground.bucket), puts, takes_last));
            let step = |store: Store| {
                let env = ground.env(store);
                async move {
                    let record = look_after_operations(record(&env.store).await, false, &env).await?;
                    finalize(record, false, &env).await
                }
            };
            let is_whole = step(Store::new(deadly)).await.is_ok();
            ground.verify(&format!("cut off after {puts} puts")).await;
            let ended = step(ground.store()).await.unwrap();
            ground.verify(&format!("cut off after {puts} puts, and gone on")).await;
            assert_eq!((ended.status.phase, ended.status.errors), (Some(BackupPhase::Completed), 0));
            assert_eq!(record(&ground.store()).await, ended);
            let expected = [("job", "before"), ("late", "made meanwhile"), ("result", "after")];
            assert_eq!(ground.saved().await, texts(&expected), "cut off after {puts} puts");
            assert_eq!(results(&ground.store()).await, (vec![], vec![]));
            if is_whole {
                break;
            }
            cuts += 1;
        }
    }
    // The operations with two manifests and the record; the archive, its index, the resource list, results and log with two
    // manifests and the record; each before and after it had its effect.
    assert_eq!(cuts, 2 * (4 + 8));
}

#[tokio::test]
async fn what_cannot_be_saved_again_is_an_error_and_the_others_go_on() {
    let asked = |answer: fn(Value) -> Result<BackupItemOutput, ActionError>| {
        Scripted::new(
            move |item| match (name(&item), item["data"]["x"].as_str()) {
                ("job", _) => Ok(BackupItemOutput {
                    operation_id: "1".to_owned(),
                    post_operation_items: vec![key("gone"), key("odd"), key("result")],
                    ..BackupItemOutput::unchanged(item)
                }),
                ("odd", Some("after")) => answer(item),
                _ => Ok(BackupItemOutput::unchanged(item)),
            },
            |_, _| Ok(done()),
        )
    };
    let again = |item| Ok(BackupItemOutput { operation_id: "2".to_owned(), ..BackupItemOutput::unchanged(item) });
    let further = |item| {
        let additional_items = vec![key("friend")];
        Ok(BackupItemOutput { additional_items, ..BackupItemOutput::unchanged(item) })
    };
    let error = |why: &str| vec![of("odd", &format!("Error backing up item error: /test/scripted{why}"))];
    let all = [("friend", "before"), ("job", "before"), ("odd", "before"), ("result", "after")];
    let changed = |name: &str, content: &'static str| {
        all.map(|(one, before)| if one == name { (one, content) } else { (one, before) })
    };
    let begun =
        error(" has begun the operation 2 for an object that is saved again after one: the backup would never end");
    for (action, errors, saved) in [
        (asked(|_| Err(ActionError::item("no"))), error(": no"), all),
        (asked(|_| panic!("in the middle")), error(": it panicked: in the middle"), all),
        (asked(again), begun, all),
        (
            asked(|_| Err(ActionError::fatal("no licence"))),
            error(": no licence: no further object is saved again"),
            changed("result", "before"),
        ),
        (asked(|_| Err(ActionError::gone("killed"))), error(": killed"), all),
        (asked(further), vec![], changed("odd", "after")),
    ] {
        let ground = Ground::start(&["friend", "job", "odd", "result"], vec![action]).await;
        let env = ground.env(ground.store());
        run(&Ground::request(), &env).await.unwrap();
        for name in ["odd", "result"] {
            ground.set(name, "after").await;
        }
        assert_eq!(look_after(&env).await, Some(BackupPhase::Finalizing));
        let env = ground.env(ground.store());
        let ended = finalize(record(&env.store).await, false, &env).await.unwrap();
        let phase = if errors.is_empty() { BackupPhase::Completed } else { BackupPhase::PartiallyFailed };
        let counts = (i64::try_from(errors.len()).unwrap(), 1);
        assert_eq!((ended.status.phase, (ended.status.errors, ended.status.warnings)), (Some(phase), counts));
        let absent = of("gone", "an object that configmaps/shop/job needs was not found");
        assert_eq!(results(&env.store).await, (errors, vec![absent]));
        assert_eq!(ground.saved().await, texts(&saved));
        ground.verify("it has ended").await;
    }
}

#[tokio::test]
async fn a_failed_operation_fails_the_backup_partially_and_others_are_awaited() {
    let failing = Scripted::new(
        |item| {
            let operation_id = if name(&item).len() == 1 { name(&item) } else { "" }.to_owned();
            Ok(BackupItemOutput { operation_id, ..BackupItemOutput::unchanged(item) })
        },
        |id, before| match (id, before) {
            ("a", _) => Ok(OperationProgress { completed: true, error: "no space".to_owned(), ..Default::default() }),
            ("b", 0) => Err(ActionError::passing("busy")),
            ("b", 1) => Ok(OperationProgress::default()),
            _ => Ok(done()),
        },
    );
    let ground = Ground::start(&["a", "b", "c"], vec![failing.clone()]).await;
    let env = ground.env(ground.store());
    run(&Ground::request(), &env).await.unwrap();
    for expected in [
        BackupPhase::WaitingForPluginOperationsPartiallyFailed,
        BackupPhase::WaitingForPluginOperationsPartiallyFailed,
        BackupPhase::FinalizingPartiallyFailed,
    ] {
        assert_eq!(look_after(&env).await, Some(expected));
        ground.verify(expected.as_str()).await;
    }
    let asked = failing.asked.lock().unwrap().clone();
    assert_eq!(asked, [("a", 1), ("b", 3), ("c", 1)].map(|(id, count)| (id.to_owned(), count)).into());
    let env = ground.env(ground.store());
    let ended = finalize(record(&env.store).await, false, &env).await.unwrap();
    let status = &ended.status;
    assert_eq!((status.phase, status.errors), (Some(BackupPhase::PartiallyFailed), 1));
    assert_eq!((status.backup_item_operations_completed, status.backup_item_operations_failed), (2, 1));
    let expected =
        of("a", "the operation a of the action test/scripted has failed error: /no space, plugin: test/scripted");
    assert_eq!(results(&env.store).await, (vec![expected], vec![]));
}

#[tokio::test]
async fn overdue_operations_and_those_of_a_cancelled_backup_are_told_to_end() {
    for (is_cancelled, why) in [(true, "cancelled on request"), (false, "Asynchronous action timed out")] {
        let endless = Scripted::new(jobs_execute, |_, _| Ok(OperationProgress::default()));
        let ground = Ground::start(&["job", "result"], vec![endless.clone()]).await;
        let env = ground.env(ground.store());
        run(&Ground::request(), &env).await.unwrap();
        // The default is four hours.
        *ground.now.lock().unwrap() = if is_cancelled { 60 } else { 4 * 3600 + 1 };
        let waiting = record(&env.store).await;
        let after = look_after_operations(waiting, is_cancelled, &env).await.unwrap();
        assert_eq!(after.status.phase, Some(BackupPhase::FinalizingPartiallyFailed));
        assert_eq!(*endless.cancelled.lock().unwrap(), ["of-job"]);
        ground.set("result", "after").await;
        let env = ground.env(ground.store());
        let ended = finalize(after, is_cancelled, &env).await.unwrap();
        assert_eq!(ended.status.phase, Some(BackupPhase::PartiallyFailed));
        let mut errors = vec![of(
            "job",
            &format!(
                "the operation of-job of the action test/scripted has failed error: /{why}, plugin: test/scripted"
            ),
        )];
        if is_cancelled {
            let left = "cancelled on request: 1 object stands in the archive as before their operations";
            errors.insert(0, left.to_owned());
        }
        assert_eq!(results(&env.store).await.0, errors);
        let result = if is_cancelled { "before" } else { "after" };
        assert_eq!(ground.saved().await, texts(&[("job", "before"), ("result", result)]));
        ground.verify("it has ended").await;
    }
}

fn jobs_execute(item: Value) -> Result<BackupItemOutput, ActionError> {
    let is_job = name(&item) == "job";
    Ok(BackupItemOutput {
        operation_id: if is_job { "of-job".to_owned() } else { String::new() },
        post_operation_items: if is_job { vec![key("result")] } else { Vec::new() },
        ..BackupItemOutput::unchanged(item)
    })
}

#[tokio::test]
async fn an_operation_of_an_action_that_is_not_there_has_failed() {
    let mut ground = Ground::start(&["job"], vec![jobs()]).await;
    run(&Ground::request(), &ground.env(ground.store())).await.unwrap();
    ground.actions.backup_item.clear();
    let env = ground.env(ground.store());
    assert_eq!(look_after(&env).await, Some(BackupPhase::FinalizingPartiallyFailed));
    let operations: Vec<Value> = env.store.backup_file(NAME, BackupFile::ItemOperations).await.unwrap().unwrap();
    let why = "this server has no action test/scripted, which alone knows how far it is, plugin: test/scripted";
    assert_eq!(operations[0]["status"]["error"], json!(why));
}

#[tokio::test]
async fn a_backup_whose_end_is_stopped_is_ended_later() {
    let ground = Ground::start(&["job", "result"], vec![jobs()]).await;
    let env = ground.env(ground.store());
    run(&Ground::request(), &env).await.unwrap();
    look_after(&env).await;
    look_after(&env).await;
    let stopped = ground.env(ground.store());
    stopped.operation.cancel.cancel();
    let before = record(&env.store).await;
    assert!(matches!(finalize(before.clone(), false, &stopped).await, Err(FinalizeError::Stopped)));
    assert_eq!(record(&env.store).await, before);
    let ended = finalize(before, false, &ground.env(ground.store())).await.unwrap();
    assert_eq!(ended.status.phase, Some(BackupPhase::Completed));
}
