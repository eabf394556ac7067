//! The host with a plugin that is made with Velero's own library: `crates/testbed/go/plugin-fixture`.
//!
//! This is the list that a host of plugins has to pass, and where each of its lines is tested: with a
//! program that can say anything (the other files here), or with Velero's library, where that decides what is said (this file
//! and its folder, when none is named).
//!
//! | line | tests |
//! |---|---|
//! | 1. handshakes | `discovery`: `handshakes_with_fewer_and_more_fields_are_taken`, `every_wrong_handshake_is_told_…`, `a_program_that_says_nothing_for_a_minute_…`; `what_goes_wrong_before_the_handshake_is_told` |
//! | 2. discovery | `discovery`: `plugins_go_by_program_and_folders_are_in_place`, `all_that_is_wrong_with_plugins_is_told_…`; `registry` in `src`; `plugins_are_listed_in_the_order_of_the_library`; `names_that_no_program_has_are_told_as_by_velero` in `storage` |
//! | 3. arguments, environment | `discovery`: `a_program_has_the_given_arguments_…`; `the_library_takes_the_arguments_of_the_server` |
//! | 4. floods | `logs`: `a_flood_of_text_on_all_streams_holds_up_no_call`; `a_flood_into_the_streams_of_the_library_holds_up_no_call` |
//! | 5. lines on stderr | `logs`: `lines_have_their_level_…`, `a_panic_and_its_stack_are_errors_…`; `stderr` in `src`; `lines_of_the_library_have_their_level_and_fields` |
//! | 6. errors count | `lines_of_the_library_have_their_level_and_fields` |
//! | 7. objects | `storage`; `a_bucket_of_the_library_conforms_…`, `an_upload_that_breaks_off_stores_nothing`, `an_upload_that_fails_early_tells_the_cause`, `a_download_ends_as_the_plugin_says_or_when_it_is_dropped` |
//! | 8. errors | `errors_have_the_words_of_velero_and_their_place` |
//! | 9. ends and restarts | `life`: `after_ten_failed_restarts_…`; `a_panic_beside_a_call_is_its_error_and_the_next_has_another_process`, `a_process_that_ended_is_started_and_initialised_again` |
//! | 10. the end | `life`: `a_process_that_does_not_end_…`; `a_process_of_the_library_ends_when_it_is_asked_or_is_killed`, `a_process_that_stands_still_is_killed` |
//! | 11. both versions | `actions_of_both_versions_are_called`, `times_that_an_operation_does_not_tell_are_none` |
//! | 12. large messages | `an_answer_may_be_large_and_a_request_that_is_too_large_is_its_error` |
//! | 13. first calls | `life`: `first_calls_are_made_one_by_one_…`; `long_first_calls_race_with_nothing` |
//! | 14. old plugins | `discovery`: `an_old_plugin_without_a_stream_for_what_it_prints_is_taken` |
//! | 15. plugins that people use | `real_plugins` |

mod storage;

use crate::bed::{Bed, exists, journal, log, text, until};
use crate::object::{backup, pod, restore};
use lifeboat_action::{
    ActionError, ActionErrorKind, Actions, BackupItemInput, BackupItemOutput, OperationProgress, RestoreItemInput,
    RestoreItemOutput,
};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_plugin::PluginHost;
use lifeboat_testbed::plugin_fixture_that_detects_races;
use serde_json::json;
use std::time::Duration;

/// All kinds of actions, in both versions.
const ALL: &str = "BackupItemAction=a.io/old BackupItemActionV2=a.io/new RestoreItemAction=a.io/old RestoreItemActionV2=a.io/new \
                   DeleteItemAction=a.io/a ItemBlockAction=a.io/a";
const ONE: &str = "BackupItemActionV2=a.io/a";

fn go(plugins: &str, switches: &str) -> Bed {
    Bed::new().with_go("p", plugins, switches)
}

async fn begin(bed: &Bed) -> (PluginHost, Actions) {
    let host = bed.discover().await.unwrap();
    bed.forget();
    let actions = host.actions(&journal("b")).await.unwrap();
    (host, actions)
}

async fn execute(actions: &Actions, order: &str) -> Result<(), ActionError> {
    let input = BackupItemInput { item: pod(order), backup: &backup() };
    actions.backup_item[0].execute(input).await.map(drop)
}

/// Waits until the last process that was started is gone.
async fn gone(bed: &Bed) {
    let process = *bed.started().last().unwrap();
    until("gone", || !exists(process)).await;
}

/// Lines of a log without the place in the plugin's source.
fn unplaced(lines: Vec<String>) -> Vec<String> {
    let placeless = |line: String| {
        let fields = line.split(' ').filter(|field| !field.starts_with("logSource="));
        fields.collect::<Vec<_>>().join(" ")
    };
    lines.into_iter().map(placeless).collect()
}

#[tokio::test]
async fn plugins_are_listed_in_the_order_of_the_library() {
    let bed = go(
        "ItemBlockAction=a.io/i ObjectStore=a.io/b ObjectStore=a.io/a RestoreItemActionV2=a.io/s BackupItemActionV2=a.io/n \
         RestoreItemAction=a.io/r BackupItemAction=a.io/o DeleteItemAction=a.io/d VolumeSnapshotter=a.io/v ObjectStore=invalid",
        "",
    );
    let host = bed.discover().await.unwrap();
    let names: Vec<String> = host.plugins().iter().map(|plugin| format!("{} {}", plugin.kind, plugin.name)).collect();
    let expected = [
        "BackupItemAction a.io/o",
        "BackupItemActionV2 a.io/n",
        "VolumeSnapshotter a.io/v",
        "ObjectStore a.io/a",
        "ObjectStore a.io/b",
        "RestoreItemAction a.io/r",
        "RestoreItemActionV2 a.io/s",
        "DeleteItemAction a.io/d",
        "ItemBlockAction a.io/i",
    ];
    assert_eq!(names, expected, "the library drops the name that is not valid");
}

#[tokio::test]
async fn what_goes_wrong_before_the_handshake_is_told() {
    for (switch, argument, why) in [
        ("prints-first", "", "Unrecognized remote plugin message: \"Hello, world!\""),
        ("exits", "", "plugin exited before we could connect (exit status 3); it printed: \"its licence has expired\""),
        ("", "--log-level=loud", "plugin exited before we could connect (exit status 2); it printed: "),
    ] {
        let mut bed = go(ONE, switch);
        if !argument.is_empty() {
            bed.options.arguments = vec![argument.into()];
        }
        let problems = bed.problems().await;
        let start = format!("the plugin {} cannot be started: {why}", bed.program("p").display());
        assert!(problems.len() == 1 && problems[0].starts_with(&start), "{problems:?}\n{start}");
    }
}

#[tokio::test]
async fn the_library_takes_the_arguments_of_the_server() {
    let mut bed = go(ONE, "");
    // Flags of ours, which it does not know, do no harm.
    bed.options.arguments =
        ["--plugin-call-timeout=10m0s", "--log-level=error", "--features=EnableCSI"].map(Into::into).into();
    let host = bed.discover().await.unwrap();
    let journal = journal("b");
    let actions = host.actions(&journal).await.unwrap();
    execute(&actions, "log=hello").await.unwrap();
    assert_eq!(log(&journal), [""; 0]);
    bed.options.arguments.clear();
    let actions = bed.discover().await.unwrap().actions(&journal).await.unwrap();
    execute(&actions, "log=hello").await.unwrap();
    assert_eq!(unplaced(log(&journal)), ["level=info msg=hello backup=velero/b"]);
}

#[tokio::test]
async fn a_flood_into_the_streams_of_the_library_holds_up_no_call() {
    let mut bed = go(ONE, "");
    bed.options.call_timeout = Duration::from_secs(20);
    let (_host, actions) = begin(&bed).await;
    execute(&actions, "flood=2000000").await.unwrap();
    execute(&actions, "none").await.unwrap();
    assert_eq!(bed.started().len(), 1);
}

#[tokio::test]
async fn lines_of_the_library_have_their_level_and_fields() {
    let bed = go(ONE, "");
    let journal = journal("b");
    let actions = bed.discover().await.unwrap().actions(&journal).await.unwrap();
    execute(&actions, "log-all").await.unwrap();
    let line = |level: &str, text: &str| format!("level={level} msg={text} backup=velero/b");
    assert_eq!(
        unplaced(log(&journal)),
        [
            line("info", "\"at info\""),
            line("warning", "\"at warn\""),
            format!("{} error=\"no luck\" volume=v1", line("error", "\"at error\"")),
            line("warning", "\"[WARN] a text\""),
            line("error", "\"{\\\"odd\\\":1}\""),
            line("info", "\"no \u{fffd} text\""),
            line("info", "\"after all\""),
        ]
    );
    assert_eq!(journal.counts(), (2, 2));
    let place = "logSource=\"lifeboat/testbed/plugin-fixture/orders.go:";
    assert_eq!(text(&journal).matches(place).count(), 4);
}

#[tokio::test]
async fn errors_have_the_words_of_velero_and_their_place() {
    let bed = go(ONE, "");
    let journal = journal("b");
    let actions = bed.discover().await.unwrap().actions(&journal).await.unwrap();
    for (order, kind, text) in [
        ("fail=no luck", ActionErrorKind::Item, "code = Unknown desc = no luck"),
        ("unavailable=busy", ActionErrorKind::Passing, "code = Unavailable desc = busy"),
        ("panic=boom", ActionErrorKind::Item, "code = Aborted desc = plugin panicked: boom"),
        ("fail-at=no place", ActionErrorKind::Item, "code = Unknown desc = no place"),
    ] {
        let expected = ActionError { kind, message: format!("rpc error: {text}") };
        assert_eq!(execute(&actions, order).await, Err(expected));
    }
    let text = text(&journal);
    let place = "error.file=\"lifeboat/testbed/plugin-fixture/orders.go:";
    let told = text.lines().filter(|line| line.contains("msg=\"where the error of a.io/a came about\""));
    let told: Vec<&str> = told.filter(|line| line.contains("no place")).collect();
    assert!(told.len() == 1 && told[0].contains(place) && told[0].contains("error.function="), "{text}");
    assert_eq!(bed.started().len(), 2, "one to be listed, one for all calls");
}

#[tokio::test]
async fn a_panic_beside_a_call_is_its_error_and_the_next_has_another_process() {
    let bed = go(ONE, "");
    let host = bed.discover().await.unwrap();
    bed.forget();
    let journal = journal("b");
    let actions = host.actions(&journal).await.unwrap();
    let error = execute(&actions, "crash=boom").await.unwrap_err();
    let end = "error reading from server: EOF (the plugin's process has ended: exit status 2)";
    assert_eq!(error, ActionError::gone(format!("rpc error: code = Unavailable desc = {end}")));
    execute(&actions, "none").await.unwrap();
    let asked = ["AppliesTo BackupItemActionV2 a.io/a", "Execute BackupItemActionV2 a.io/a"];
    assert_eq!(bed.diary(), [asked, asked].concat());
    let log = log(&journal);
    let error = |text: &str| format!("level=error msg={text} backup=velero/b");
    assert_eq!(log[0], error("\"panic: boom\""));
    assert!(log.iter().any(|line| line.starts_with("level=error") && line.contains("orders.go:")), "{log:?}");
    assert!(log.contains(&format!("{} error=\"exit status 2\"", error("\"plugin process exited\""))), "{log:?}");
}

#[tokio::test]
async fn a_process_of_the_library_ends_when_it_is_asked_or_is_killed() {
    for (switch, end) in [
        ("", None),
        ("ends-slowly", None),
        ("ends-badly", Some("exit status 7")),
        ("never-ends", Some("signal: killed")),
    ] {
        let bed = go(ONE, switch);
        let host = bed.discover().await.unwrap();
        bed.forget();
        let journal = journal("b");
        let _actions = host.actions(&journal).await.unwrap();
        host.shut_down().await;
        assert!(!exists(bed.started()[0]), "no zombie: {switch}");
        assert_eq!(bed.sockets(), 0, "{switch}");
        let log = log(&journal);
        let told = end.map(|end| format!("level=error msg=\"plugin process exited\" backup=velero/b error=\"{end}\""));
        let errors: Vec<String> = log.into_iter().filter(|line| line.starts_with("level=error")).collect();
        assert_eq!(errors, told.into_iter().collect::<Vec<_>>(), "{switch}");
    }
}

#[tokio::test]
async fn a_process_that_stands_still_is_killed() {
    let mut bed = go(ONE, "");
    // Long enough for a call that is answered, on a machine that is busy.
    bed.options.call_timeout = Duration::from_secs(3);
    let (_host, actions) = begin(&bed).await;
    let late = execute(&actions, "hang").await.unwrap_err().to_string();
    assert!(late.contains("DeadlineExceeded"), "{late}");
    execute(&actions, "none").await.unwrap();
    assert_eq!(bed.started().len(), 1, "it answers others");
    let still = execute(&actions, "stop").await.unwrap_err().to_string();
    assert!(still.contains("so it was ended"), "{still}");
    until("gone", || !exists(bed.started()[0])).await;
    execute(&actions, "none").await.unwrap();
}

fn deployment(name: &str) -> ObjectKey {
    ObjectKey::new(GroupResource::new("apps", "deployments"), Some("shop"), name)
}

fn far(operation: &str) -> OperationProgress {
    OperationProgress {
        n_completed: 3,
        n_total: 7,
        operation_units: "Bytes".to_owned(),
        description: operation.to_owned(),
        updated: Some("2026-06-21T00:00:00Z".parse().unwrap()),
        ..OperationProgress::default()
    }
}

#[tokio::test]
async fn actions_of_both_versions_are_called() {
    let bed = go(ALL, "");
    let (_host, actions) = begin(&bed).await;
    let [old, new] = &actions.backup_item[..] else { panic!("{actions:?}") };
    let nightly = backup();
    let input = |order: &str| BackupItemInput { item: pod(order), backup: &nightly };
    let mut changed = pod("change=yes");
    changed["metadata"]["labels"]["changed"] = "yes".into();
    let expected =
        BackupItemOutput { additional_items: vec![deployment("web")], ..BackupItemOutput::changed(changed.clone()) };
    assert_eq!(old.execute(input("change=yes")).await.unwrap(), expected);
    let expected = BackupItemOutput {
        operation_id: "operation of nightly".to_owned(),
        post_operation_items: vec![deployment("later")],
        ..expected
    };
    assert_eq!(new.execute(input("change=yes")).await.unwrap(), expected);
    let unchanged = new.execute(input("none")).await.unwrap();
    assert_eq!((unchanged.is_changed, unchanged.item), (false, pod("none")));
    let why = "the plugin a.io/new has answered what is no object: it has no kind";
    assert_eq!(new.execute(input("no-kind")).await, Err(ActionError::item(why)));
    let none = ActionError::item("Plugin does not support asynchronous operations");
    assert_eq!(old.progress("o1", &nightly).await, Err(none));
    assert_eq!(new.progress("o1", &nightly).await, Ok(far("o1")));
    bed.forget();
    assert_eq!((old.cancel("o1", &nightly).await, new.cancel("o1", &nightly).await), (Ok(()), Ok(())));
    assert_eq!(bed.diary(), ["Cancel BackupItemActionV2 a.io/new o1 of nightly"]);

    let [old, new] = &actions.restore_item[..] else { panic!("{actions:?}") };
    let (again, mut from_backup) = (restore(), pod(""));
    from_backup["metadata"] = json!({"name": "as-it-was"});
    let input = |order: &str| RestoreItemInput { item: pod(order), item_from_backup: &from_backup, restore: &again };
    let expected = RestoreItemOutput { additional_items: vec![deployment("web")], ..RestoreItemOutput::with(changed) };
    assert_eq!(old.execute(input("change=yes")).await.unwrap(), expected);
    bed.forget();
    let expected = RestoreItemOutput {
        wait_for_additional_items: Some(Duration::new(90, 5)),
        operation_id: "operation of again".to_owned(),
        ..expected
    };
    assert_eq!(new.execute(input("change=yes")).await.unwrap(), expected);
    assert_eq!(bed.diary(), [r#"Execute RestoreItemActionV2 a.io/new, in the backup {"name":"as-it-was"}"#]);
    assert!(old.execute(input("skip")).await.unwrap().skip && new.execute(input("skip")).await.unwrap().skip);
    assert_eq!(new.progress("o1", &again).await, Ok(far("o1")));
    for (name, is_ready) in [("web", false), ("ready", true)] {
        assert_eq!(new.are_additional_items_ready(&[deployment(name)], &again).await, Ok(is_ready));
    }
    bed.forget();
    assert_eq!((old.cancel("o1", &again).await, new.cancel("o1", &again).await), (Ok(()), Ok(())));
    assert_eq!(bed.diary(), ["Cancel RestoreItemActionV2 a.io/new o1 of again"]);

    let (delete, block) = (&actions.delete_item[0], &actions.item_block[0]);
    assert_eq!(delete.execute(&pod("none"), &nightly).await, Ok(()));
    let failed = Err(ActionError::item("rpc error: code = Unknown desc = no luck"));
    assert_eq!(delete.execute(&pod("fail=no luck"), &nightly).await, failed);
    assert_eq!(block.related_items(&pod("none"), &nightly).await, Ok(vec![deployment("web")]));
}

#[tokio::test]
async fn times_that_an_operation_does_not_tell_are_none() {
    let bed = go(ALL, "");
    let (_host, actions) = begin(&bed).await;
    let action = &actions.backup_item[1];
    assert_eq!(action.progress("unset", &backup()).await, Ok(OperationProgress { updated: None, ..far("unset") }));
    let done = OperationProgress { completed: true, updated: None, ..far("done") };
    assert_eq!(action.progress("done", &backup()).await, Ok(done.clone()));
    let failed = OperationProgress { error: "the disk is full".to_owned(), description: "failed".to_owned(), ..done };
    assert_eq!(action.progress("failed", &backup()).await, Ok(failed));
}

#[tokio::test]
async fn an_answer_may_be_large_and_a_request_that_is_too_large_is_its_error() {
    let bed = go(ONE, "");
    let (_host, actions) = begin(&bed).await;
    let input = BackupItemInput { item: pod("grow=9000000"), backup: &backup() };
    let answer = actions.backup_item[0].execute(input).await.unwrap();
    assert_eq!(answer.item["data"].as_str().map(str::len), Some(9_000_000));
    let input = BackupItemInput { item: answer.item, backup: &backup() };
    let error = actions.backup_item[0].execute(input).await.unwrap_err();
    let start = "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (900";
    assert!(error.kind == ActionErrorKind::Item && error.message.starts_with(start), "{error}");
    execute(&actions, "none").await.unwrap();
    assert_eq!(bed.started().len(), 1);
}

/// A table of the library is read and written without a lock when a name is called for the first time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it builds the library with the detector of races: make test-long"]
async fn long_first_calls_race_with_nothing() {
    let program = plugin_fixture_that_detects_races().unwrap();
    let names: Vec<String> = (0..20).map(|n| format!("BackupItemActionV2=a.io/{n:02}")).collect();
    let mut bed = Bed::new().with_program("p", &program, &names.join(" "), "");
    // The process ends at the first race.
    bed.options.environment.push(("GORACE".into(), "halt_on_error=1".into()));
    let (host, actions) = begin(&bed).await;
    for _ in 0..3 {
        let all = actions.backup_item.iter().cycle().take(200).map(|action| async move {
            action.execute(BackupItemInput { item: pod("none"), backup: &backup() }).await.map(drop)
        });
        let journal = journal("c");
        let (others, all) = tokio::join!(host.actions(&journal), futures::future::join_all(all));
        assert!(others.is_ok() && all.iter().all(Result::is_ok), "{others:?} {all:?}");
        execute(&actions, "exit-after=0").await.unwrap();
        gone(&bed).await;
    }
    host.shut_down().await;
    assert_eq!(bed.started().len(), 3, "a process has ended before it was told to");
}
