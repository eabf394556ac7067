//! `create --wait` on a real API server, where the test does what a server does: what is printed and what is asked,
//! whatever becomes of the watch.

use crate::cli::refusals::with_token;
use crate::ground::Ground;
use crate::support::{ended, eventually, program, spawn_logged};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule, Seen};
use serde_json::json;
use std::process::Command;

const WATCHES: &str = "*/backups?watch=true*";

/// A request about backups, and the status of its answer.
fn told(seen: &Seen) -> Option<(&'static str, u16)> {
    let (_, rest) = seen.path.split_once("/namespaces/velero/backups")?;
    let kind = match (seen.method.as_str(), rest.chars().next()) {
        ("POST", _) => "create",
        (_, Some('/')) => "get",
        (_, Some('?')) if rest.contains("watch=true") => "watch",
        (_, Some('?') | None) => "list",
        // Another type.
        _ => return None,
    };
    Some((kind, seen.status))
}

/// Creates a backup and waits for it, as the owner of a token when there is one. Lets it wait until there is a dot, and
/// until a rule is met. Gives the requests.
fn wait(ground: &Ground, name: &str, rules: Vec<Rule>, token: Option<&str>) -> Vec<(&'static str, u16)> {
    let (proxy, through) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), name).expect("a proxy");
    if let Some(token) = token {
        with_token(&through, token, &through);
    }
    let has_rules = !rules.is_empty();
    proxy.script(rules);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut command = Command::new(program());
    command.args(["backup", "create", name, "--wait"]).env("KUBECONFIG", through).env("HOME", folder.path());
    let mut waiting = spawn_logged(&mut command, &log);
    let printed = || std::fs::read_to_string(&log).expect("the log");
    let becomes = |phase: &str| {
        let patch = json!({"status": {"phase": phase}}).to_string();
        ground.bed.kubectl(&["patch", "backup", name, "--namespace=velero", "--type=merge", "--patch", &patch]);
    };
    eventually("a dot", || printed().ends_with('.'));
    becomes("InProgress");
    eventually("the rule", || !has_rules || proxy.is_met());
    becomes("Completed");
    assert!(ended(&mut waiting).success(), "{name}: {}", printed());
    let printed = printed();
    let rest = printed
        .strip_prefix(&format!(
            "Backup request \"{name}\" submitted successfully.\nWaiting for backup to complete. You may safely press ctrl-c \
             to stop waiting - your backup will continue in the background.\n"
        ))
        .unwrap_or_else(|| panic!("{printed}"));
    assert_eq!(
        rest.trim_start_matches('.'),
        format!(
            "\nBackup completed with status: Completed. You may check for more information using the commands `lifeboat \
             backup describe {name}` and `lifeboat backup logs {name}`.\n"
        )
    );
    proxy.take_seen().iter().filter_map(told).collect()
}

#[test]
fn a_wait_ends_with_its_object_whatever_becomes_of_the_watch() {
    let ground = Ground::start();
    let asked = wait(&ground, "watched", Vec::new(), None);
    assert_eq!(asked, [("create", 201), ("get", 200), ("watch", 200)], "nothing is asked again and again");

    let ends = Fault::Answer { status: 200, headers: vec![], body: String::new() };
    let asked = wait(&ground, "ended", vec![Rule::new("GET", WATCHES, Nth::Only(1), ends)], None);
    assert_eq!(asked, [("create", 201), ("get", 200), ("watch", 200), ("get", 200), ("watch", 200)]);

    // An event of a watch has some thousand bytes.
    wait(&ground, "cut", vec![Rule::new("GET", WATCHES, Nth::First(2), Fault::Truncate(300))], None);

    let body = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}).to_string();
    let expired = Fault::Answer { status: 410, headers: vec![], body };
    let asked = wait(&ground, "expired", vec![Rule::new("GET", WATCHES, Nth::Only(1), expired)], None);
    assert_eq!(asked, [("create", 201), ("get", 200), ("watch", 410), ("list", 200), ("watch", 200)]);

    // The server is away for some of its first requests.
    let away = Rule::new("GET", "*/backups*", Nth::First(3), Fault::CutBefore);
    wait(&ground, "away", vec![away], None);

    // By a role without the right to watch.
    let kubectl = ["--namespace=velero", "--resource=backups.velero.io"];
    ground.bed.kubectl(&[&["create", "role", "reader", "--verb=create,get"][..], &kubectl].concat());
    ground.bed.kubectl(&["create", "serviceaccount", "reader", "--namespace=velero"]);
    let binding = ["rolebinding", "reader", "--role=reader", "--serviceaccount=velero:reader", "--namespace=velero"];
    ground.bed.kubectl(&[&["create"][..], &binding].concat());
    let token = ground.bed.kubectl(&["create", "token", "reader", "--namespace=velero"]);
    let mut asked = wait(&ground, "forbidden", Vec::new(), Some(token.trim()));
    assert_eq!(asked[..3], [("create", 201), ("get", 200), ("watch", 403)]);
    asked.dedup();
    assert_eq!(asked, [("create", 201), ("get", 200), ("watch", 403), ("get", 200)]);
}
