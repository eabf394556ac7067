//! Tests of processes that begin, end and begin again.

use crate::bed::{Bed, exists, journal, log, stands_still, until};
use crate::object::{backup, pod};
use lifeboat_action::{ActionError, ActionErrorKind, Actions, BackupItemInput};
use lifeboat_plugin::PluginHost;
use std::time::{Duration, Instant};

const PLUGIN: &str = "BackupItemActionV2=a.io/a";

async fn execute(actions: &Actions, order: &str) -> Result<(), ActionError> {
    let input = BackupItemInput { item: pod(order), backup: &backup() };
    actions.backup_item[0].execute(input).await.map(drop)
}

/// The host of these plugins, and the actions of one operation.
async fn begin(bed: &Bed) -> (PluginHost, Actions) {
    let host = bed.discover().await.unwrap();
    bed.forget();
    let actions = host.actions(&journal("b")).await.unwrap();
    (host, actions)
}

/// Waits until the last process that was started is gone.
async fn gone(bed: &Bed) {
    let process = *bed.started().last().unwrap();
    until("gone", || !exists(process)).await;
}

#[tokio::test]
async fn a_process_that_ended_between_calls_is_restarted_with_its_first_calls() {
    let bed = Bed::new().with("p", "BackupItemActionV2=a.io/a DeleteItemAction=a.io/b", "");
    let host = bed.discover().await.unwrap();
    bed.forget();
    let journal = journal("b");
    let actions = host.actions(&journal).await.unwrap();
    execute(&actions, "exit-after=0").await.unwrap();
    gone(&bed).await;
    execute(&actions, "none").await.unwrap();
    let (asked, executed) = (
        ["AppliesTo BackupItemActionV2 a.io/a", "AppliesTo DeleteItemAction a.io/b"],
        ["Execute BackupItemActionV2 a.io/a"],
    );
    assert_eq!(bed.diary(), [&asked[..], &executed, &asked, &executed].concat());
    let line = |text: &str| format!("level=info msg=\"{text}\" backup=velero/b");
    assert_eq!(log(&journal), [line("plugin process exited"), line("Plugin process exited - restarting.")]);
}

#[tokio::test]
async fn a_process_that_ends_in_a_call_is_its_error_and_is_there_for_the_next() {
    let bed = Bed::new().with("p", PLUGIN, "");
    let (_host, actions) = begin(&bed).await;
    let error = execute(&actions, "crash=boom").await.unwrap_err();
    let text = "rpc error: code = Unavailable desc = error reading from server: EOF (the plugin's process has ended: exit status 2)";
    assert_eq!(error, ActionError::gone(text));
    execute(&actions, "none").await.unwrap();
    assert_eq!(bed.started().len(), 2);
}

#[tokio::test]
async fn after_ten_failed_restarts_a_process_is_given_up_for_the_operation() {
    let bed = Bed::new();
    let marker = bed.path("marker");
    let bed = bed.with("p", PLUGIN, &format!("fails-after-first-start={}", marker.display()));
    let host = bed.discover().await.unwrap();
    std::fs::remove_file(&marker).unwrap();
    let actions = host.actions(&journal("b")).await.unwrap();
    execute(&actions, "exit-after=1").await.unwrap();
    gone(&bed).await;
    for _ in 0..10 {
        let error = execute(&actions, "none").await.unwrap_err();
        assert_eq!(error.kind, ActionErrorKind::Gone, "{error}");
        assert!(error.message.contains("(exit status 1); it printed: \"it does not start again\""), "{error}");
    }
    let given_up = format!(
        "the plugin {} cannot be started: unable to restart plugin process: exceeded maximum number of reset failures",
        bed.program("p").display()
    );
    assert_eq!(execute(&actions, "none").await, Err(ActionError::item(given_up)));

    std::fs::remove_file(&marker).unwrap();
    let others = host.actions(&journal("c")).await.unwrap();
    execute(&others, "none").await.unwrap();
    execute(&actions, "none").await.unwrap();
}

#[tokio::test]
async fn first_calls_are_made_one_by_one_before_others_also_after_an_end() {
    let names: Vec<String> = (0..5).map(|n| format!("BackupItemActionV2=a.io/{n}")).collect();
    let bed = Bed::new().with("p", &names.join(" "), "");
    let (host, actions) = begin(&bed).await;
    // The fixture ends, as a program in Go does, when a first call comes at the same time as any other.
    let all = |order: &'static str| {
        let calls = actions.backup_item.iter().cycle().take(50).map(move |action| async move {
            action.execute(BackupItemInput { item: pod(order), backup: &backup() }).await.map(drop)
        });
        futures::future::join_all(calls)
    };
    let journals = ["c", "d"].map(journal);
    let both = tokio::join!(host.actions(&journals[0]), host.actions(&journals[1]), all("none"));
    assert!(both.0.is_ok() && both.1.is_ok() && both.2.iter().all(Result::is_ok), "{both:?}");
    execute(&actions, "exit-after=0").await.unwrap();
    gone(&bed).await;
    assert!(all("none").await.iter().all(Result::is_ok));
    assert_eq!(bed.started().len(), 2);
}

#[tokio::test]
async fn processes_end_when_they_are_asked_and_leave_nothing() {
    for switch in ["", "ends-slowly"] {
        let bed = Bed::new().with("p", PLUGIN, switch);
        let (host, actions) = begin(&bed).await;
        host.shut_down().await;
        assert!(!exists(bed.started()[0]), "no zombie");
        assert_eq!(bed.sockets(), 0);
        let ended = "the server is ending, and has ended all plugins";
        let error = execute(&actions, "none").await.unwrap_err();
        assert!(error.kind == ActionErrorKind::Item && error.message.ends_with(ended), "{error}");
        let error = host.actions(&journal("c")).await.unwrap_err().to_string();
        assert!(error.ends_with(ended), "{error}");
    }
}

#[tokio::test]
async fn a_process_that_does_not_end_is_killed_and_its_socket_removed() {
    for switch in ["hangs-at-end", "never-ends"] {
        let bed = Bed::new().with("p", PLUGIN, switch);
        let (host, _actions) = begin(&bed).await;
        let begun = Instant::now();
        host.shut_down().await;
        assert!(begun.elapsed() >= Duration::from_secs(2), "it is given its time");
        assert!(!exists(bed.started()[0]), "no zombie");
        assert_eq!(bed.sockets(), 0);
    }
}

#[tokio::test]
async fn a_process_is_kept_for_a_while_when_nothing_uses_it() {
    let mut bed = Bed::new().with("p", PLUGIN, "");
    bed.options.idle_timeout = Duration::from_secs(3600);
    let (host, actions) = begin(&bed).await;
    drop(actions);
    execute(&host.actions(&journal("c")).await.unwrap(), "none").await.unwrap();
    assert_eq!(bed.started().len(), 1);
}

#[tokio::test]
async fn a_process_is_kept_while_an_operation_has_it() {
    let mut bed = Bed::new().with("p", PLUGIN, "");
    bed.options.idle_timeout = Duration::from_millis(1);
    let (host, actions) = begin(&bed).await;
    // Each call takes longer than a process is kept that nothing uses.
    for _ in 0..20 {
        execute(&actions, "sleep=2").await.unwrap();
    }
    assert_eq!(bed.started().len(), 1);
    drop(actions);
    gone(&bed).await;
    execute(&host.actions(&journal("d")).await.unwrap(), "none").await.unwrap();
    assert_eq!(bed.started().len(), 2);
}

#[tokio::test]
async fn dropping_everything_kills_the_processes() {
    let bed = Bed::new().with("p", PLUGIN, "");
    let (host, actions) = begin(&bed).await;
    drop(host);
    execute(&actions, "none").await.unwrap();
    drop(actions);
    gone(&bed).await;
    until("removed", || bed.sockets() == 0).await;
}

/// The error of a plugin that has 2 s to answer.
const LATE: &str = "a.io/a has not answered within 2 s (give it longer by --plugin-call-timeout, or look at its log)";

#[tokio::test]
async fn a_call_that_takes_too_long_is_an_error_and_a_live_process_goes_on() {
    let mut bed = Bed::new().with("p", PLUGIN, "");
    bed.options.call_timeout = Duration::from_secs(2);
    let (_host, actions) = begin(&bed).await;
    let text = format!("rpc error: code = DeadlineExceeded desc = {LATE}");
    assert_eq!(execute(&actions, "hang").await, Err(ActionError::item(text)));
    execute(&actions, "none").await.unwrap();
    assert_eq!(bed.started().len(), 1);
}

#[tokio::test]
async fn a_process_that_answers_nothing_at_all_is_ended_and_started_anew() {
    let mut bed = Bed::new().with("p", PLUGIN, "");
    bed.options.call_timeout = Duration::from_secs(2);
    let (_host, actions) = begin(&bed).await;
    let text = format!(
        "rpc error: code = DeadlineExceeded desc = {LATE}; its process did not say either which plugins it has, so it was ended, and \
         the next call starts another"
    );
    assert_eq!(execute(&actions, "hang-all").await, Err(ActionError::item(text)));
    until("gone", || !exists(bed.started()[0])).await;
    std::fs::remove_file(bed.path("hung")).unwrap();
    execute(&actions, "none").await.unwrap();
    assert_eq!(bed.started().len(), 2);
}

#[tokio::test]
async fn a_process_that_is_silent_to_a_new_user_is_ended_and_replaced() {
    let mut bed = Bed::new().with("p", PLUGIN, "");
    bed.options.call_timeout = Duration::from_secs(3);
    let (host, _actions) = begin(&bed).await;
    let first = bed.started()[0];
    let stopped = std::process::Command::new("kill").args(["-STOP", &first.to_string()]).status();
    assert!(stopped.unwrap().success());
    until("still", || stands_still(first)).await;
    let others = host.actions(&journal("c")).await.unwrap();
    until("gone", || !exists(first)).await;
    execute(&others, "none").await.unwrap();
    assert_eq!(bed.started().len(), 2);
}

#[tokio::test]
async fn an_action_that_does_not_tell_its_scope_holds_nothing_up_for_ever() {
    let mut bed = Bed::new().with("p", PLUGIN, "applies-never");
    bed.options.call_timeout = Duration::from_secs(2);
    let host = bed.discover().await.unwrap();
    let error = host.actions(&journal("b")).await.unwrap_err().to_string();
    let late = format!("rpc error: code = DeadlineExceeded desc = {LATE}");
    assert_eq!(error, format!("the BackupItemActionV2 a.io/a does not say what it applies to: {late}"));
}

#[tokio::test]
async fn errors_have_the_words_of_velero() {
    let bed = Bed::new().with("p", PLUGIN, "in-go");
    let (_host, actions) = begin(&bed).await;
    for (order, kind, text) in [
        ("fail=no luck", ActionErrorKind::Item, "code = Unknown desc = no luck"),
        ("unavailable=busy", ActionErrorKind::Passing, "code = Unavailable desc = busy"),
        ("panic=boom", ActionErrorKind::Item, "code = Aborted desc = plugin panicked: boom"),
    ] {
        let expected = ActionError { kind, message: format!("rpc error: {text}") };
        assert_eq!(execute(&actions, order).await, Err(expected));
    }
    execute(&actions, "none").await.unwrap();
    assert_eq!(bed.started().len(), 1);
}

#[tokio::test]
async fn an_answer_may_be_large_and_a_request_too_large_for_go_is_its_error() {
    let bed = Bed::new().with("p", PLUGIN, "in-go");
    let (_host, actions) = begin(&bed).await;
    let input = BackupItemInput { item: pod("grow=9000000"), backup: &backup() };
    let answer = actions.backup_item[0].execute(input).await.unwrap();
    assert_eq!(answer.item["data"].as_str().map(str::len), Some(9_000_000));
    let error =
        actions.backup_item[0].execute(BackupItemInput { item: answer.item, backup: &backup() }).await.unwrap_err();
    let start = "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (90001";
    assert!(error.kind == ActionErrorKind::Item && error.message.starts_with(start), "{error}");
}
