//! Commands in containers around the backup of their pods.

use crate::ground::{Ground, NAME};
use lifeboat_api::{BackupPhase, HookStatus, Time};
use lifeboat_backup::{BackupError, Env, Outcome, run};
use lifeboat_hook::{BackupHooks, HookPod, Owed};
use lifeboat_operation::{InMemory, Records, RecordsError};
use lifeboat_testbed::{ContainerCommand, Ran};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Log of the commands that ran in the containers of a test.
#[derive(Clone, Default)]
struct Done(Arc<Mutex<Vec<String>>>);

impl Done {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A cluster with pods that have these annotations, whose containers answer so.
async fn ground(
    pods: &[(&str, Value)],
    answer: impl Fn(&ContainerCommand) -> Ran + Send + Sync + 'static,
) -> (Ground, Done) {
    let ground = Ground::start(&["settings"], Vec::new()).await;
    for (name, annotations) in pods {
        ground.put(pod(name, "one", annotations)).await;
    }
    let done = Done::default();
    let log = done.clone();
    ground.proxy.run_commands_by(Arc::new(move |command| {
        let line = format!("{} {} {}", command.pod, command.container, command.words.join(" "));
        log.0.lock().unwrap().push(line);
        answer(command)
    }));
    (ground, done)
}

fn pod(name: &str, uid: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("{name}-{uid}"), "annotations": annotations},
        "spec": {"containers": [{"name": "web", "image": "i"}, {"name": "db", "image": "i"}]},
        "status": {"phase": "Running"}})
}

/// Freezes before the backup and thaws after it.
fn around(on_error: &str) -> Value {
    json!({
        "pre.hook.backup.velero.io/command": r#"["freeze", "-f"]"#,
        "pre.hook.backup.velero.io/container": "db",
        "pre.hook.backup.velero.io/on-error": on_error,
        "post.hook.backup.velero.io/command": "thaw",
    })
}

fn ran(code: i32) -> Ran {
    Ran { code, ..Ran::default() }
}

fn env(ground: &Ground, records: &Arc<dyn Records>) -> Env {
    let mut env = ground.env(ground.store());
    env.operation.records = Arc::clone(records);
    env
}

fn records() -> Arc<dyn Records> {
    Arc::new(InMemory::default())
}

async fn is_settled(records: &Arc<dyn Records>) -> bool {
    Owed::new(Arc::clone(records)).all().await.unwrap().0.is_empty()
}

fn errors(outcome: &Outcome) -> String {
    serde_json::to_string(&outcome.results).unwrap()
}

/// The pods in the archive.
async fn saved(ground: &Ground) -> Vec<String> {
    let archive = ground.store().open_archive(NAME, &crate::ground::open()).await.unwrap();
    let pods = archive.rows().filter(|row| row.key().resource.resource == "pods");
    let names: BTreeSet<String> = pods.map(|row| row.key().name.clone()).collect();
    names.into_iter().collect()
}

#[tokio::test]
async fn commands_run_around_the_backup_of_their_pod_and_are_counted() {
    let (ground, done) = ground(&[("a", around("Fail")), ("b", json!({}))], |command| Ran {
        stdout: format!("{} done", command.words[0]),
        ..Ran::default()
    })
    .await;
    let records = records();
    let outcome = run(&Ground::request(), &env(&ground, &records)).await.unwrap();
    assert_eq!(done.take(), ["shop/a db freeze -f", "shop/a web thaw"]);
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::Completed), "{}", errors(&outcome));
    assert_eq!(
        outcome.backup.status.hook_status,
        Some(HookStatus { hooks_attempted: 2, hooks_failed: 0, ..HookStatus::default() })
    );
    assert_eq!(saved(&ground).await, ["a", "b"]);
    assert!(is_settled(&records).await);
}

#[tokio::test]
async fn a_failed_hook_keeps_its_pod_out_if_it_says_so_and_always_thaws_it() {
    for (on_error, fails, expected, failed) in [
        ("Fail", "freeze", &["b"][..], 1),
        ("Continue", "freeze", &["a", "b"], 1),
        ("", "freeze", &["a", "b"], 1),
        ("Fail", "thaw", &["a", "b"], 1),
    ] {
        let (ground, done) = ground(&[("a", around(on_error)), ("b", json!({}))], move |command| {
            ran(i32::from(command.words[0] == fails) * 3)
        })
        .await;
        let records = records();
        let outcome = run(&Ground::request(), &env(&ground, &records)).await.unwrap();
        let case = format!("{on_error} {fails}: {}", errors(&outcome));
        assert_eq!(done.take(), ["shop/a db freeze -f", "shop/a web thaw"], "{case}");
        assert_eq!(saved(&ground).await, expected, "{case}");
        assert_eq!(outcome.backup.status.phase, Some(BackupPhase::PartiallyFailed), "{case}");
        let counts = HookStatus { hooks_attempted: 2, hooks_failed: failed, ..HookStatus::default() };
        assert_eq!(outcome.backup.status.hook_status, Some(counts), "{case}");
        assert!(errors(&outcome).contains("hook <from-annotation>: command terminated with exit code 3"), "{case}");
        assert!(is_settled(&records).await, "{case}");
    }
}

/// Commands of the spec around the backup of each pod; the one of this word decides whether its pod is saved.
fn of_spec(pre: &[&str], post: &[&str], fails: &str) -> lifeboat_api::BackupHooks {
    let exec = |word: &&str| json!({"exec": {"container": "db", "command": [word], "onError": if *word == fails { "Fail" } else { "Continue" }}});
    let [pre, post] = [pre, post].map(|words| words.iter().map(exec).collect::<Vec<Value>>());
    serde_json::from_value(json!({"resources": [{"name": "h", "pre": pre, "post": post}]})).unwrap()
}

#[tokio::test]
async fn after_a_hook_fails_its_pod_only_thawing_hooks_run_and_all_count() {
    for (pre, fails, expected, pods) in [
        // What comes after the backup may thaw what the failed one has frozen.
        (&["freeze", "flush"][..], "freeze", &["freeze", "thaw", "tell"][..], &["b"][..]),
        (&["freeze", "flush"], "thaw", &["freeze", "flush", "thaw", "tell"], &["a", "b"]),
        // Nothing was frozen.
        (&[], "thaw", &["thaw"], &["a", "b"]),
    ] {
        let (ground, done) = ground(&[("a", json!({})), ("b", json!({}))], move |command| {
            ran(i32::from(command.pod == "shop/a" && command.words[0] == fails))
        })
        .await;
        let mut request = Ground::request();
        request.backup.spec.hooks = of_spec(pre, &["thaw", "tell"], fails);
        let outcome = run(&request, &env(&ground, &records())).await.unwrap();
        let case = format!("{pre:?} {fails}: {}", errors(&outcome));
        let of_a: Vec<String> =
            done.take().iter().filter_map(|line| Some(line.strip_prefix("shop/a db ")?.to_owned())).collect();
        assert_eq!(of_a, expected, "{case}");
        assert_eq!(saved(&ground).await, pods, "{case}");
        let counts = HookStatus {
            hooks_attempted: 2 * i64::try_from(pre.len() + 2).unwrap(),
            hooks_failed: 1,
            ..HookStatus::default()
        };
        assert_eq!(outcome.backup.status.hook_status, Some(counts), "{case}");
        assert_eq!(outcome.backup.status.phase, Some(BackupPhase::PartiallyFailed), "{case}");
        assert_eq!(outcome.results.errors.messages().count(), 1, "{case}");
        assert_eq!(case.contains("may be frozen still"), pre.len() == 2 && fails == "thaw", "{case}");
    }
}

/// Calls this at the first command `freeze`.
fn at_first_freeze(then: impl Fn() + Send + Sync + 'static) -> impl Fn(&ContainerCommand) -> Ran + Send + Sync {
    let first = Mutex::new(true);
    move |command| {
        if command.words[0] == "freeze" && std::mem::take(&mut *first.lock().unwrap()) {
            then();
        }
        ran(0)
    }
}

#[tokio::test]
async fn a_pod_is_thawed_when_the_backup_is_cancelled_while_it_is_frozen() {
    let cancel = Arc::new(Mutex::new(None::<tokio_util::sync::CancellationToken>));
    let told = Arc::clone(&cancel);
    let cancels = at_first_freeze(move || told.lock().unwrap().as_ref().unwrap().cancel());
    let (ground, done) = ground(&[("a", around(""))], cancels).await;
    let records = records();
    let env = env(&ground, &records);
    *cancel.lock().unwrap() = Some(env.operation.cancel.clone());
    let error = run(&Ground::request(), &env).await.unwrap_err();
    assert!(matches!(error, BackupError::Cancelled), "{error}");
    assert_eq!(done.take(), ["shop/a db freeze -f", "shop/a web thaw"]);
    assert!(is_settled(&records).await);
}

/// Runs a backup that dies while the first pod is being frozen.
async fn dies_while_freezing(ground: &Ground, records: &Arc<dyn Records>, frozen: tokio::sync::oneshot::Receiver<()>) {
    let (request, env) = (Ground::request(), env(ground, records));
    tokio::select! {
        _ = run(&request, &env) => panic!("the backup ended"),
        frozen = frozen => frozen.unwrap(),
    }
}

/// Says when the first pod is being frozen, and then holds the command until the sender is dropped.
fn holds_first_freeze()
-> (impl Fn(&ContainerCommand) -> Ran + Send + Sync, tokio::sync::oneshot::Receiver<()>, SyncSender<()>) {
    let (told, frozen) = tokio::sync::oneshot::channel();
    let (release, held) = sync_channel::<()>(0);
    let (told, held) = (Mutex::new(Some(told)), Mutex::new(held));
    let answer = at_first_freeze(move || {
        told.lock().unwrap().take().unwrap().send(()).unwrap();
        let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(30));
    });
    (answer, frozen, release)
}

#[tokio::test]
async fn the_next_attempt_thaws_first_what_the_one_before_has_frozen() {
    let (answer, frozen, release) = holds_first_freeze();
    let (ground, done) = ground(&[("a", around(""))], answer).await;
    let records = records();
    dies_while_freezing(&ground, &records, frozen).await;
    drop(release);
    assert_eq!(done.take(), ["shop/a db freeze -f"]);
    assert!(!is_settled(&records).await);
    let outcome = run(&Ground::request(), &env(&ground, &records)).await.unwrap();
    assert_eq!(done.take(), ["shop/a web thaw", "shop/a db freeze -f", "shop/a web thaw"]);
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::Completed), "{}", errors(&outcome));
    assert!(is_settled(&records).await);
}

#[tokio::test]
async fn another_pod_of_the_name_is_owed_nothing() {
    let (ground, done) = ground(&[("a", json!({})), ("b", json!({}))], |_| ran(0)).await;
    let records = records();
    // An attempt that claims the name and freezes nothing.
    let first = env(&ground, &records);
    first.operation.cancel.cancel();
    assert!(matches!(run(&Ground::request(), &first).await, Err(BackupError::Cancelled)));
    for (name, uid) in [("a", "gone"), ("b", "b-one")] {
        let owed_to = HookPod { uid: uid.to_owned(), ..HookPod::of(&pod(name, "", &around(""))) };
        let post = BackupHooks::default().of(&owed_to).post;
        Owed::new(Arc::clone(&records)).owe(&owed_to, &post, Time::new(jiff::Timestamp::UNIX_EPOCH)).await.unwrap();
    }
    let outcome = run(&Ground::request(), &env(&ground, &records)).await.unwrap();
    assert_eq!(done.take(), ["shop/b web thaw"], "{}", errors(&outcome));
    assert!(is_settled(&records).await);
}

#[tokio::test]
async fn nothing_runs_once_another_process_may_have_taken_over() {
    let (ground, done) = ground(&[("a", around("Fail"))], |_| ran(0)).await;
    let records = records();
    let mut env = env(&ground, &records);
    env.operation.fence = Arc::new(|| Err("the lease was lost".to_owned()));
    let outcome = run(&Ground::request(), &env).await.unwrap();
    assert_eq!(done.take(), Vec::<String>::new());
    assert!(errors(&outcome).contains("hook <from-annotation>: the lease was lost"), "{}", errors(&outcome));
}

/// Notes that cannot be written.
#[derive(Debug)]
struct Away;

#[async_trait::async_trait]
impl Records for Away {
    async fn read(&self, _: &str) -> Result<Option<bytes::Bytes>, RecordsError> {
        Ok(None)
    }

    async fn keys(&self) -> Result<BTreeSet<String>, RecordsError> {
        Ok(BTreeSet::new())
    }

    async fn write(&self, _: BTreeMap<String, Option<bytes::Bytes>>) -> Result<(), RecordsError> {
        Err(RecordsError::Unavailable("it is away".to_owned()))
    }
}

#[tokio::test]
async fn no_pod_is_frozen_of_which_it_cannot_be_noted_that_it_is_to_be_thawed() {
    let (ground, done) = ground(&[("a", around("Fail")), ("b", around(""))], |_| ran(0)).await;
    let records: Arc<dyn Records> = Arc::new(Away);
    let outcome = run(&Ground::request(), &env(&ground, &records)).await.unwrap();
    assert_eq!(done.take(), Vec::<String>::new());
    assert_eq!(saved(&ground).await, ["b"]);
    let expected = "what the pod is owed after its backup cannot be noted, so none of its hooks runs: it is away";
    assert!(errors(&outcome).contains(expected), "{}", errors(&outcome));
}
