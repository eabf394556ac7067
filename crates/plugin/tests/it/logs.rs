//! Tests of the logs and output of plugins.

use crate::bed::{Bed, journal, log, until};
use crate::object::{backup, pod};
use lifeboat_action::{Actions, BackupItemInput};
use std::time::Duration;

const PLUGIN: &str = "BackupItemActionV2=a.io/a";

async fn execute(actions: &Actions, order: &str) {
    let input = BackupItemInput { item: pod(order), backup: &backup() };
    actions.backup_item[0].execute(input).await.unwrap();
}

#[tokio::test]
async fn a_flood_of_text_on_all_streams_holds_up_no_call() {
    let mut bed = Bed::new().with("p", PLUGIN, "");
    bed.options.call_timeout = Duration::from_secs(20);
    let actions = bed.discover().await.unwrap().actions(&journal("b")).await.unwrap();
    execute(&actions, "flood=2000000").await;
    execute(&actions, "none").await;
}

#[tokio::test]
async fn lines_have_their_level_and_are_in_the_log_when_the_call_has_ended() {
    let bed = Bed::new().with("p", PLUGIN, "");
    let journal = journal("b");
    let actions = bed.discover().await.unwrap().actions(&journal).await.unwrap();
    execute(&actions, "log-all").await;
    // Levels that go-plugin does not know, texts without one and lines that are too long are for developers.
    let line = |level: &str, text: &str| format!("level={level} msg={text} backup=velero/b");
    let source = "logSource=\"fixture.go:7\"";
    assert_eq!(
        log(&journal),
        [
            format!("{} {source}", line("info", "\"at info\"")),
            format!("{} {source}", line("warning", "\"at warn\"")),
            format!("{} {source}", line("error", "\"at error\"")),
            line("warning", "\"[WARN] a text\""),
            line("error", "\"{\\\"odd\\\":1}\""),
            line("info", "\"no \u{fffd} text\""),
            format!("{} {source}", line("info", "\"after all\"")),
        ]
    );
    assert_eq!(journal.counts(), (2, 2), "warnings and errors of plugins are those of the operation");
}

#[tokio::test]
async fn lines_name_the_program() {
    let bed = Bed::new().with("p", PLUGIN, "");
    let journal = journal("b");
    let actions = bed.discover().await.unwrap().actions(&journal).await.unwrap();
    execute(&actions, "log=[INFO] hello").await;
    let text = crate::bed::text(&journal);
    let program = bed.program("p");
    let expected = format!(
        "time=\"1970-01-01T00:00:00Z\" level=info msg=\"[INFO] hello\" backup=velero/b cmd={} pluginName=p\n",
        program.display()
    );
    assert_eq!(text, expected);
}

#[tokio::test]
async fn lines_go_to_the_operation_with_a_call_until_its_actions_are_dropped() {
    let bed = Bed::new().with("p", PLUGIN, "");
    let host = bed.discover().await.unwrap();
    let journals = ["a", "b"].map(journal);
    let [a, b] = [host.actions(&journals[0]).await.unwrap(), host.actions(&journals[1]).await.unwrap()];
    execute(&a, "log=[INFO] for-a").await;
    execute(&b, "log=[INFO] for-b").await;
    let go_on = bed.path("go");
    let order = format!("wait-for={}", go_on.display());
    tokio::join!(execute(&a, &order), async {
        until("called", || go_on.with_extension("begun").exists()).await;
        execute(&b, "log=[INFO] for-both").await;
        std::fs::write(&go_on, "").unwrap();
    });
    drop(a);
    execute(&b, "log=[INFO] for-b-alone").await;
    let lines = |names: &[&str], name: &str| -> Vec<String> {
        names.iter().map(|text| format!("level=info msg=\"[INFO] {text}\" backup=velero/{name}")).collect()
    };
    assert_eq!(log(&journals[0]), lines(&["for-a", "for-both"], "a"));
    assert_eq!(log(&journals[1]), lines(&["for-b", "for-both", "for-b-alone"], "b"));
}

#[tokio::test]
async fn what_is_logged_before_the_first_call_is_in_the_log() {
    let bed = Bed::new().with("p", PLUGIN, "logs-at-start");
    let journal = journal("b");
    let host = bed.discover().await.unwrap();
    let _actions = host.actions(&journal).await.unwrap();
    let expected = "level=info msg=\"asked what it applies to\" backup=velero/b logSource=\"fixture.go:7\"";
    assert_eq!(log(&journal), [expected]);
}

#[tokio::test]
async fn where_an_error_came_about_is_in_the_log() {
    let bed = Bed::new().with("p", PLUGIN, "");
    let journal = journal("b");
    let actions = bed.discover().await.unwrap().actions(&journal).await.unwrap();
    let input = BackupItemInput { item: pod("fail-at=no luck"), backup: &backup() };
    let error = actions.backup_item[0].execute(input).await.unwrap_err();
    assert_eq!(error.message, "rpc error: code = Unknown desc = no luck");
    let text = crate::bed::text(&journal);
    let place =
        "error=\"rpc error: code = Unknown desc = no luck\" error.file=\"/src/main.go:7\" error.function=main.act";
    assert!(text.contains("level=info msg=\"where the error of a.io/a came about\"") && text.contains(place), "{text}");
}

#[tokio::test]
async fn a_panic_and_its_stack_are_errors_of_the_operation() {
    let bed = Bed::new().with("p", PLUGIN, "");
    let journal = journal("b");
    let actions = bed.discover().await.unwrap().actions(&journal).await.unwrap();
    let input = BackupItemInput { item: pod("crash=boom"), backup: &backup() };
    actions.backup_item[0].execute(input).await.unwrap_err();
    until("in the log", || log(&journal).len() == 4).await;
    let line = |text: &str| format!("level=error msg={text} backup=velero/b");
    let ended = format!("{} error=\"exit status 2\"", line("\"plugin process exited\""));
    let stack = [line("\"panic: boom\""), line("\"goroutine 1 [running]:\""), line("\"main.main()\"")];
    let expected: Vec<String> = stack.into_iter().chain([ended]).collect();
    assert_eq!(log(&journal), expected);
}
