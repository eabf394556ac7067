//! Schedules and expiry: backups come by themselves, one at a time, and go when their time is over.

use crate::ground::Ground;
use crate::support::{Run, comes_to_be, eventually, program, run};
use lifeboat_testbed::{Fault, Kill, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Runs the binary; `~` stands for a blank within a word.
fn lifeboat(ground: &Ground, line: &str) -> Run {
    let mut command = Command::new(program());
    command.args(line.split(' ').map(|word| word.replace('~', " ")));
    run(command.env("KUBECONFIG", ground.bed.plane.kubeconfig()).env("TZ", "UTC"))
}

fn ok(ground: &Ground, line: &str) -> String {
    let run = lifeboat(ground, line);
    assert_eq!(run.code, 0, "{line}: {run:?}");
    run.out
}

/// The backups of a schedule, in the order of their names.
fn backups(ground: &Ground, schedule: &str) -> Vec<Value> {
    let label = format!("velero.io/schedule-name={schedule}");
    let out = ground.bed.kubectl(&["get", "backups", "--namespace=velero", "--output=json", "-l", &label]);
    let list: Value = serde_json::from_str(&out).expect("a list");
    list["items"].as_array().cloned().unwrap_or_default()
}

fn phase(object: &Value) -> &str {
    object["status"]["phase"].as_str().unwrap_or("New")
}

fn is_unfinished(backup: &&Value) -> bool {
    matches!(phase(backup), "New" | "Queued" | "ReadyToStart" | "InProgress")
}

fn is_completed(backup: &&Value) -> bool {
    phase(backup) == "Completed"
}

/// A server dies between the two writes of a run, and the next one finds out that the first of them was done.
#[test]
fn each_minute_has_one_run_though_its_server_dies() {
    let ground = Ground::start();
    ground.many("shop", 3);
    ground.directory("main", &json!({"default": true}));
    let (api, kubeconfig) = Proxy::before_api_server(&ground.bed.plane.kubeconfig(), "schedules").expect("a proxy");
    let flags = ["--lease-duration", "3s"];
    let first = ground.server_with("one", &kubeconfig, &flags);
    ground.until("backupstoragelocation", "main", "Available");
    let _second = ground.server_with("two", &ground.bed.plane.kubeconfig(), &flags);
    api.script(vec![Rule::new("POST", "*/namespaces/velero/backups*", Nth::Only(1), Fault::Kill(Kill::After))]);
    api.victim(first.0.id());
    let spec = json!({"schedule": "* * * * *", "template": {"includedNamespaces": ["shop"]}});
    ground.velero("Schedule", "minutely", &spec);
    let is_there = || !backups(&ground, "minutely").is_empty();
    assert!(comes_to_be(is_there) || comes_to_be(is_there), "no run within two minutes");
    assert!(api.is_met(), "the server is killed after it has made the backup");
    assert!(ground.get("schedule", "minutely")["status"]["lastBackup"].is_null(), "and could not note it");
    eventually("the run in the status", || ground.get("schedule", "minutely")["status"]["lastBackup"].is_string());
    eventually("the end of the backup", || {
        backups(&ground, "minutely").iter().all(|backup| phase(backup) == "Completed")
    });
    let made = backups(&ground, "minutely");
    let names: BTreeSet<&str> = made.iter().filter_map(|backup| backup["metadata"]["name"].as_str()).collect();
    let first = names.first().expect("a backup");
    let stamp = first.strip_prefix("minutely-").expect("the name of the schedule");
    assert!(stamp.len() == 14 && stamp.ends_with("00"), "the time at which it was due: {names:?}");
    // Of the next minute there may be one by now.
    assert!(made.len() <= 2, "{names:?}");
    assert_eq!(ground.get("schedule", "minutely")["spec"]["skipImmediately"], false);
}

/// scenario: Schedule, InProgress
/// scenario: Schedule, OrderedResources
/// scenario: Schedule, Periodical, Pause
#[test]
fn a_schedule_runs_one_backup_at_a_time_and_rests_when_it_is_told_to() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let before = ground.maps("shop");
    let s3 = Proxy::start(ground.s3.endpoint(), None).expect("a proxy");
    // No backup comes to its end until this is taken away.
    let away = Fault::Answer { status: 503, headers: Vec::new(), body: String::new() };
    s3.script(vec![Rule::new("PUT", "*/velero-backup.json*", Nth::Every, away)]);
    ground.s3_location("main", s3.url());
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "main", "Available");
    let create = "schedule create often --schedule @every~2s --include-namespaces shop --storage-location main --labels team=a \
                  --ordered-resources configmaps=shop/1,shop/0;secrets=shop/x --use-owner-references-in-backup --ttl 1h";
    assert_eq!(ok(&ground, create), "Schedule \"often\" created successfully.\n");
    let mut told = String::new();
    eventually("a run that waits", || {
        let schedule = ground.get("schedule", "often");
        told = schedule["status"]["message"].as_str().unwrap_or_default().to_owned();
        !told.is_empty()
    });
    assert_eq!(backups(&ground, "often").len(), 1, "one at a time");
    s3.script(Vec::new());
    eventually("two backups, never two at once", || {
        let all = backups(&ground, "often");
        let unfinished: Vec<&Value> = all.iter().filter(is_unfinished).collect();
        assert!(unfinished.len() <= 1, "{unfinished:?}");
        all.iter().filter(is_completed).count() >= 2
    });
    assert!(told.starts_with("a run is due since 20") && told.contains(", and begins when backup often-20"), "{told}");
    let schedule = ground.get("schedule", "often");
    let first = &backups(&ground, "often")[0];
    assert_eq!(first["spec"]["orderedResources"], json!({"configmaps": "shop/1,shop/0", "secrets": "shop/x"}));
    assert_eq!(first["spec"]["orderedResources"], schedule["spec"]["template"]["orderedResources"]);
    assert_eq!(first["metadata"]["labels"]["team"], "a");
    assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], schedule["metadata"]["uid"]);
    assert_eq!(first["metadata"]["ownerReferences"][0]["controller"], true);

    let table = ok(&ground, "schedule get often -L team");
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[0].starts_with("NAME    STATUS    CREATED "), "{table}");
    assert!(rows[1].starts_with("often   Enabled   20") && rows[1].ends_with("   <none>     false    a"), "{table}");
    let described = ok(&ground, "describe schedules often");
    assert!(described.lines().any(|line| line.split_whitespace().eq(["Phase:", "Enabled"])), "{described}");

    assert_eq!(ok(&ground, "schedule pause often"), "Schedule often paused successfully\n");
    assert_eq!(ok(&ground, "schedule pause -l team=a"), "Schedule often is already paused, skip\n");
    eventually("the end of the last", || backups(&ground, "often").iter().filter(is_unfinished).count() == 0);
    let count = backups(&ground, "often").len();
    // By the clock of the same server, which goes on with another one.
    ok(
        &ground,
        "schedule create other --schedule @every~2s --include-namespaces shop --storage-location main --ttl 1h",
    );
    eventually("three runs of another one", || backups(&ground, "other").iter().filter(is_completed).count() >= 3);
    ok(&ground, "schedule delete other --confirm");
    assert_eq!(backups(&ground, "often").len(), count, "it rests");
    assert_eq!(ground.get("schedule", "often")["status"]["message"], Value::Null);

    ground.lose("shop");
    let run = lifeboat(&ground, "restore create r --from-schedule often --wait");
    assert!(run.code == 0 && run.err.contains("The newest backup of the schedule often is often-"), "{run:?}");
    ground.until("restore", "r", "Completed");
    assert_eq!(ground.maps("shop"), before);

    let line = "schedule unpause --all --skip-immediately true";
    assert_eq!(ok(&ground, line), "Schedule often unpaused successfully\n");
    eventually("a run that is left out", || {
        let schedule = ground.get("schedule", "often");
        schedule["status"]["lastSkipped"].is_string() && schedule["spec"]["skipImmediately"] == false
    });
    eventually("another one", || backups(&ground, "often").len() > count);

    ok(&ground, "backup create by-hand --from-schedule often --labels more=1 --wait");
    let by_hand = ground.get("backup", "by-hand");
    let labels =
        json!({"team": "a", "more": "1", "velero.io/schedule-name": "often", "velero.io/storage-location": "main"});
    assert_eq!(by_hand["metadata"]["labels"], labels);

    let wrong = lifeboat(&ground, "schedule create wrong --schedule 61~*~*~*~* --paused=false");
    assert_eq!((wrong.code, wrong.out.as_str()), (0, "Schedule \"wrong\" created successfully.\n"));
    let why = "invalid schedule: end of range (61) above maximum (59): 61";
    assert_eq!(wrong.err, format!("WARNING: the server will refuse it: {why}\n"));
    let refused = ground.until("schedule", "wrong", "FailedValidation");
    assert_eq!(refused["status"]["validationErrors"], json!([why]));
    assert_eq!(
        lifeboat(&ground, "schedule create wrong").err.lines().next(),
        Some("An error occurred: --schedule is required")
    );
    let deleted = "Schedule deleted: often\nSchedule deleted: wrong\n";
    assert_eq!(ok(&ground, "schedule delete often wrong --confirm"), deleted);
    assert_eq!(ok(&ground, "delete schedule --all --confirm"), "No schedules found\n");
}

/// scenario: Backups, TTL, LongTime
#[test]
fn a_backup_goes_when_its_time_is_over() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let bucket = ground.directory("main", &json!({"default": true}));
    let sealed = ground.directory("sealed", &json!({}));
    let _server = ground.server_with("one", &ground.bed.plane.kubeconfig(), &["--garbage-collection-frequency", "2s"]);
    for location in ["main", "sealed"] {
        ground.until("backupstoragelocation", location, "Available");
        ground.let_an_hour_pass("velero", location);
    }
    let has = |bucket: &Path, folder: &str| bucket.join(folder).exists();
    let run = |name: &str, location: &str, ttl: &str| {
        ok(
            &ground,
            &format!("backup create {name} --include-namespaces shop --storage-location {location} --ttl {ttl} --wait"),
        );
    };
    run("stays", "main", "1h");
    run("kept", "sealed", "25s");
    ground.bed.kubectl(&[
        "patch",
        "backupstoragelocation",
        "sealed",
        "--namespace=velero",
        "--type=merge",
        "--patch",
        r#"{"spec":{"accessMode":"ReadOnly"}}"#,
    ]);
    run("goes", "main", "20s");
    ok(&ground, "restore create r --from-backup goes --include-namespaces nothing --wait");
    assert!(has(&bucket, "backups/goes") && has(&bucket, "restores/r"));
    assert_eq!(ground.get("backup", "goes")["spec"]["ttl"], "20s");
    ground.until_gone("backup", "goes");
    ground.until_gone("restore", "r");
    assert!(!has(&bucket, "backups/goes") && !has(&bucket, "restores/r"));
    eventually("no request is left", || ground.bed.objects("deletebackuprequests", "velero").is_empty());

    let label = || ground.get("backup", "kept")["metadata"]["labels"]["velero.io/gc-failure"].clone();
    eventually("the reason why it stays", || label() == "BSLReadOnly");
    assert!(has(&sealed, "backups/kept"));
    ground.bed.kubectl(&[
        "patch",
        "backupstoragelocation",
        "sealed",
        "--namespace=velero",
        "--type=merge",
        "--patch",
        r#"{"spec":{"accessMode":"ReadWrite"}}"#,
    ]);
    eventually("the note since when it can be written", || {
        let location = ground.get("backupstoragelocation", "sealed");
        location["metadata"]["annotations"]["lifeboat.io/writable-since"].is_string()
    });
    ground.let_an_hour_pass("velero", "sealed");
    ground.until_gone("backup", "kept");
    assert!(!has(&sealed, "backups/kept"));
    assert_eq!(phase(&ground.get("backup", "stays")), "Completed");
}
