//! Backups that stay although their time is over: they are held, or kept by the rules of their schedule.

use crate::ground::Ground;
use crate::support::{Run, eventually, gunzip_json, program, run};
use serde_json::{Value, json};
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

fn record(bucket: &Path, backup: &str) -> Value {
    let file = bucket.join(format!("backups/{backup}/velero-backup.json"));
    serde_json::from_slice(&std::fs::read(file).expect("a record")).expect("JSON")
}

fn expiration(backup: &Value) -> jiff::Timestamp {
    backup["status"]["expiration"].as_str().expect("an expiration").parse().expect("a time")
}

/// The fate of each backup, by its name.
fn becomes(ground: &Ground, line: &str) -> Vec<(String, String, String)> {
    let all: Vec<Value> = serde_json::from_str(&ok(ground, line)).expect("JSON");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    all.iter().map(|one| (text(&one["backup"]), text(&one["becomes"]), text(&one["message"]))).collect()
}

/// Two clusters with one bucket; the second of them has its copies of the backups from before they were held.
#[test]
fn what_is_held_outlives_its_time_in_every_cluster() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let bucket = ground.directory("main", &json!({"default": true}));
    let kubeconfig = ground.bed.plane.kubeconfig();
    let gc = ["--garbage-collection-frequency", "2s"];
    let _server = ground.server_with("one", &kubeconfig, &gc);
    ground.until("backupstoragelocation", "main", "Available");
    ground.let_an_hour_pass("velero", "main");
    for name in ["held", "goes"] {
        ok(
            &ground,
            &format!("backup create {name} --include-namespaces shop --storage-location main --ttl 40s --wait"),
        );
    }
    let end = expiration(&ground.get("backup", "held"));
    ground.bed.kubectl(&["create", "namespace", "other"]);
    let spec = ground.get("backupstoragelocation", "main")["spec"].clone();
    ground.velero_in("other", "BackupStorageLocation", "main", &spec);
    ground.let_an_hour_pass("other", "main");
    let other = [&gc[..], &["--namespace", "other"]].concat();
    let second = ground.server_with("two", &kubeconfig, &other);
    ground.until_in("other", "backup", "held", "Completed");
    second.kill();

    assert_eq!(ok(&ground, "backup hold held"), "Backup \"held\" is held until it is released.\n");
    eventually("the hold in the bucket", || {
        record(&bucket, "held")["metadata"]["annotations"]["lifeboat.io/hold-until"] == "forever"
    });
    eventually("a time to come in the cluster", || expiration(&ground.get("backup", "held")) > end);
    assert_eq!(expiration(&ground.get("backup", "held")), expiration(&record(&bucket, "held")));
    let refused = "backup held is held until it is released; `backup release held` releases it, then delete it again";
    let told = ok(&ground, "backup delete held goes --dry-run");
    let goes = "Backup goes would be deleted, with its files in location main";
    assert_eq!(told, format!("Backup held would not be deleted: {refused}\n{goes}\n"));
    let run = lifeboat(&ground, "backup delete held --confirm");
    assert_eq!((run.code, run.err), (1, format!("An error occurred: {refused}\n")));
    // One who does not ask us.
    ground.velero("DeleteBackupRequest", "by-hand", &json!({"backupName": "held"}));
    let request = ground.until("deletebackuprequest", "by-hand", "Processed");
    assert_eq!(request["status"]["errors"], json!([refused]));

    let _second = ground.server_with("three", &kubeconfig, &other);
    ground.until_gone("backup", "goes");
    ground.until_gone_in("other", "backup", "goes");
    eventually("its time is over for the other cluster, which finds it held", || {
        let copy = ground.get_in("other", "backup", "held");
        assert!(!copy.is_null(), "it stays");
        copy["metadata"]["annotations"]["lifeboat.io/hold-until"] == "forever" && expiration(&copy) > end
    });
    let held = ("held".to_owned(), "Kept".to_owned(), "held until it is released".to_owned());
    assert_eq!(becomes(&ground, "expiry -o json"), std::slice::from_ref(&held));
    assert_eq!(becomes(&ground, "-n other expiry -o json"), [held]);
    assert!(gunzip_json(&bucket.join("backups/held/held-resource-list.json.gz"))["v1/ConfigMap"].is_array());

    assert_eq!(ok(&ground, "backup release held"), "The hold of backup \"held\" is released.\n");
    assert_eq!(ok(&ground, "backup release held"), "Backup \"held\" is not held.\n");
    eventually("the release in the bucket", || {
        record(&bucket, "held")["metadata"]["annotations"]["lifeboat.io/hold-until"] == "released"
    });
    ok(&ground, "backup delete held --confirm");
    ground.until_gone("backup", "held");
    assert!(!bucket.join("backups/held").exists());
}

#[test]
fn the_last_good_backup_of_each_schedule_stays() {
    let ground = Ground::start();
    ground.many("shop", 3);
    let bucket = ground.directory("main", &json!({"default": true}));
    // Until all backups are there nothing is kept: the first one would be for a day, as the last good one.
    let server = ground.server_with("one", &ground.bed.plane.kubeconfig(), &["--disable-controllers", "gc"]);
    ground.until("backupstoragelocation", "main", "Available");
    ground.let_an_hour_pass("velero", "main");
    for (schedule, flags) in [("plain", ""), ("kept", " --keep-last-good")] {
        let create = "--schedule @every~1000h --include-namespaces shop --storage-location main --ttl 20s";
        ok(&ground, &format!("schedule create {schedule} {create}{flags}"));
        ok(&ground, &format!("backup create {schedule}-1 --from-schedule {schedule} --wait"));
    }
    ok(&ground, "backup create plain-2 --from-schedule plain --wait");
    server.kill();
    ground.end_lease("velero");
    let _server = ground.server_with("two", &ground.bed.plane.kubeconfig(), &["--garbage-collection-frequency", "2s"]);
    let end = ground.get("backup", "kept-1")["status"]["startTimestamp"].as_str().expect("a start").to_owned();
    let end: jiff::Timestamp = end.parse().expect("a time");
    ground.until_gone("backup", "plain-1");
    eventually("the last good one without rules is kept", || {
        expiration(&ground.get("backup", "plain-2")) > end + jiff::SignedDuration::from_hours(24)
    });
    let why = "kept, because it is the last good backup of schedule plain (`expiry --release plain-2` lets it go)";
    assert_eq!(becomes(&ground, "schedule retention plain -o json"), [("plain-2".into(), "Kept".into(), why.into())]);
    // With the release of what it keeps.
    let run = lifeboat(&ground, "schedule delete plain --release-backups --confirm");
    assert_eq!((run.code, run.err.contains("releases 1 backup that would stay: plain-2")), (0, true), "{run:?}");
    assert!(run.out.ends_with("Backup \"plain-2\" is not kept for its schedule any more.\n"), "{run:?}");
    eventually("the release in the record", || {
        let kept_by = record(&bucket, "plain-2")["metadata"]["annotations"]["lifeboat.io/kept-by"].clone();
        kept_by.as_str().is_some_and(|text| text.contains(r#""recorded":true"#))
    });
    ok(&ground, "backup delete plain-2 --confirm");
    ground.until_gone("backup", "plain-2");
    let kept = ground.get("backup", "kept-1");
    assert!(expiration(&kept) > end + jiff::SignedDuration::from_hours(24), "{kept}");
    assert_eq!(expiration(&kept), expiration(&record(&bucket, "kept-1")));
    let by = |rules: &str| ("kept-1".to_owned(), "Kept".to_owned(), format!("kept by schedule kept: {rules}"));
    assert_eq!(becomes(&ground, "schedule retention kept -o json"), [by("last good")]);
    let tried = becomes(&ground, "schedule retention kept --keep-daily 2 --keep-last 1 --dry-run -o json");
    assert_eq!(tried, [by("last good, last 1, daily 1")]);
    assert_eq!(ground.get("schedule", "kept")["spec"]["retention"], json!({}));
    assert!(ok(&ground, "schedule describe kept").contains("\nKeeps:  the last good one\n"));

    let run = lifeboat(&ground, "schedule retention kept --keep-weekly 3 -o json");
    assert_eq!((run.code, run.err.as_str()), (0, "Schedule \"kept\" keeps keepWeekly 3.\n"));
    assert_eq!(ground.get("schedule", "kept")["spec"]["retention"], json!({"keepWeekly": 3}));
    let table = ok(&ground, "schedule retention kept");
    assert!(table.starts_with("NAME     STATUS      MADE FOR "), "{table}");
    assert!(table.ends_with("   kept by schedule kept: last good, weekly 1\n"), "{table}");
    eventually("the rules in the record", || {
        let kept_by = record(&bucket, "kept-1")["metadata"]["annotations"]["lifeboat.io/kept-by"].clone();
        kept_by.as_str().is_some_and(|text| text.contains(r#""rules":{"keepWeekly":3}"#))
    });
    let run = lifeboat(&ground, "schedule retention kept --none");
    let stays = "1 backup of schedule kept stays until somebody releases it, because its rules have kept it: kept-1 (`expiry --release --schedule \
                 kept`).\n";
    assert_eq!(
        (run.code, run.err),
        (0, format!("Schedule \"kept\" keeps no new backup beyond its time, but the last good one.\n{stays}"))
    );
    assert!(ground.get("schedule", "kept")["spec"]["retention"].is_null());
    let by = |what: &str| {
        let rules =
            format!("kept by the rules {what}: last good, weekly 1 (`expiry --release --schedule kept` lets it go)");
        vec![("kept-1".to_owned(), "Kept".to_owned(), rules)]
    };
    assert_eq!(becomes(&ground, "expiry -o json"), by("that schedule kept had"));
    let run = lifeboat(&ground, "schedule delete kept --confirm");
    assert_eq!((run.code, run.err.as_str()), (0, stays));
    assert_eq!(becomes(&ground, "expiry -o json"), by("of schedule kept, which is not here any more"));
    let run = lifeboat(&ground, "expiry --release --schedule kept --dry-run -o json");
    let [goes] = &serde_json::from_str::<Vec<Value>>(&run.out).expect("JSON")[..] else { panic!("{run:?}") };
    assert_eq!((&goes["backup"], &goes["becomes"]), (&json!("kept-1"), &json!("Goes")));
    let run = ok(&ground, "expiry --release --schedule kept --confirm");
    assert!(run.ends_with("Backup \"kept-1\" is not kept for its schedule any more.\n"), "{run}");
    eventually("the release in the record", || {
        let kept_by = record(&bucket, "kept-1")["metadata"]["annotations"]["lifeboat.io/kept-by"].clone();
        kept_by.as_str().is_some_and(|text| text.contains(r#""recorded":true"#))
    });
    let [(_, what, _)] = &becomes(&ground, "expiry -o json")[..] else { panic!("one backup") };
    assert_eq!(what, "Goes");
    let missing = lifeboat(&ground, "schedule retention nope");
    assert_eq!((missing.code, missing.err.contains("schedules.velero.io \"nope\" not found")), (1, true));
}

#[test]
fn where_definitions_have_no_rules_an_annotation_has_them() {
    let ground = Ground::start();
    let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/retention";
    let patch = json!([{"op": "remove", "path": field}]).to_string();
    ground.bed.kubectl(&["patch", "crd", "schedules.velero.io", "--type=json", "-p", &patch]);
    let field = "The cluster's definition of schedules has no spec.retention: the annotation lifeboat.io/retention says it instead. \
                 `install --crds-only --apply` brings the field.\n";
    let annotation =
        |name: &str| ground.get("schedule", name)["metadata"]["annotations"]["lifeboat.io/retention"].clone();
    eventually("the older definition is in force", || {
        let _ = lifeboat(&ground, "schedule delete s --confirm");
        let run = lifeboat(&ground, "schedule create s --schedule @daily --keep-daily 7");
        assert_eq!(run.code, 0, "{run:?}");
        run.err == field
    });
    assert_eq!(annotation("s"), r#"{"keepDaily":7}"#);
    let run = lifeboat(&ground, "schedule retention s --keep-last 2");
    assert_eq!((run.code, run.err), (0, format!("{field}Schedule \"s\" keeps keepLast 2.\nNo backups found\n")));
    assert_eq!(annotation("s"), r#"{"keepLast":2}"#);
    assert!(ok(&ground, "schedule describe s").contains("\nKeeps:  keepLast 2\n"));
    ok(&ground, "schedule retention s --none");
    assert!(annotation("s").is_null());
}
