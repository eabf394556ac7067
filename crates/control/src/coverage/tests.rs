use super::*;
use crate::phase::taken_over::note_taken_over;
use serde_json::{Value, json};

const NOW: &str = "2026-11-22T12:00:00Z";

fn read<T: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: &Value, status: &Value) -> T {
    let meta = json!({"name": name, "uid": name, "creationTimestamp": "2026-11-01T00:00:00Z"});
    let api = json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": meta, "spec": spec, "status": status});
    serde_json::from_value(api).unwrap()
}

fn namespace(name: &str, created: &str, claims: u64) -> NamespaceInventory {
    let facts = NamespaceFacts { name: name.into(), labels: BTreeMap::new(), active: true };
    NamespaceInventory { facts, created: Some(created.parse().unwrap()), claims }
}

fn of_schedule(mut backup: Backup, schedule: &str) -> Backup {
    backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), schedule.into());
    backup
}

fn told(inventory: &Inventory) -> Coverage {
    coverage(inventory, &TimeZone::UTC, NOW.parse().unwrap(), "lifeboat")
}

fn texts(coverage: &Coverage) -> Vec<&str> {
    coverage.attention.iter().map(|one| one.what.as_str()).collect()
}

/// All is well: one location, one schedule that has run, and every namespace in its last backup.
fn well() -> Inventory {
    let status = json!({"phase": "Available", "lastValidationTime": NOW});
    let schedule = json!({"schedule": "0 3 * * *", "template": {"includedNamespaces": ["*"]}});
    let ran = json!({"phase": "Enabled", "lastBackup": "2026-11-22T03:00:00Z"});
    let backup = json!({"includedNamespaces": ["*"]});
    let completed = json!({"phase": "Completed", "startTimestamp": "2026-11-22T03:00:00Z"});
    Inventory {
        locations: vec![read("BackupStorageLocation", "main", &json!({"default": true}), &status)],
        schedules: vec![read("Schedule", "nightly", &schedule, &ran)],
        backups: vec![of_schedule(read("Backup", "nightly-20261122030000", &backup, &completed), "nightly")],
        restores: vec![],
        namespaces: vec![namespace("shop", "2026-01-01T00:00:00Z", 2), namespace("web", "2026-01-01T00:00:00Z", 0)],
    }
}

#[test]
fn nothing_needs_attention_where_all_is_well() {
    let found = told(&well());
    assert_eq!(texts(&found), [""; 0]);
    let at = |text: &str| Some(Time::new(text.parse().unwrap()));
    let ended =
        Ended { backup: "nightly-20261122030000".into(), phase: "Completed".into(), start: at("2026-11-22T03:00:00Z") };
    let state = ScheduleState {
        name: "nightly".into(),
        state: "Enabled".into(),
        last_ended: Some(ended.clone()),
        next_run: at("2026-11-23T03:00:00Z"),
    };
    assert_eq!(found.schedules, [state]);
    let namespace = |name: &str, claims| NamespaceState {
        name: name.into(),
        last_good: Some(ended.clone()),
        age_seconds: Some(9 * 3600),
        schedules: vec!["nightly".into()],
        claims,
        volumes_are_scheduled: true,
    };
    assert_eq!(found.namespaces, [namespace("shop", 2), namespace("web", 0)]);
    assert_eq!(found.running, []);
}

#[test]
fn a_namespace_is_in_a_backup_of_all_of_it_that_is_good_and_not_older() {
    let mut inventory = well();
    let completed = |start: &str| json!({"phase": "Completed", "startTimestamp": start});
    let shop = || json!({"includedNamespaces": ["shop"]});
    let selected = json!({"includedNamespaces": ["shop"], "labelSelector": {"matchLabels": {"a": "b"}}});
    let typed = json!({"includedNamespaces": ["shop"], "includedResources": ["configmaps"]});
    let partly = json!({"phase": "PartiallyFailed", "startTimestamp": "2026-11-22T11:00:00Z", "errors": 2});
    inventory.backups.extend([
        read("Backup", "selected", &selected, &completed("2026-11-22T10:00:00Z")),
        read("Backup", "typed", &typed, &completed("2026-11-22T10:00:00Z")),
        read("Backup", "partly", &shop(), &partly),
        read("Backup", "by-hand", &shop(), &completed("2026-11-22T09:00:00Z")),
    ]);
    inventory.namespaces.push(namespace("new", "2026-11-22T04:00:00Z", 1));
    let found = told(&inventory);
    let last: Vec<(&str, Option<&str>)> = found
        .namespaces
        .iter()
        .map(|one| (one.name.as_str(), one.last_good.as_ref().map(|last| last.backup.as_str())))
        .collect();
    assert_eq!(last, [("new", None), ("web", Some("nightly-20261122030000")), ("shop", Some("by-hand"))]);
    assert_eq!(texts(&found), ["backup partly is PartiallyFailed, with 2 errors"]);
}

/// It never began, so that it has no time of that.
#[test]
fn a_run_that_was_refused_is_the_last_one() {
    let mut inventory = well();
    let mut refused: Backup =
        read("Backup", "nightly-20261122090000", &json!({}), &json!({"phase": "FailedValidation"}));
    refused.metadata.creation_timestamp = Some(Time::new("2026-11-22T09:00:00Z".parse().unwrap()));
    inventory.backups.push(of_schedule(refused, "nightly"));
    let found = told(&inventory);
    let expected = "the last backup of schedule nightly, nightly-20261122090000, is FailedValidation";
    assert_eq!(texts(&found), [expected]);
}

/// Two clusters share a bucket, and have namespaces and schedules of the same names.
#[test]
fn what_another_cluster_has_saved_protects_nothing_here() {
    let mut inventory = well();
    let spec = json!({"includedNamespaces": ["*"]});
    for (name, phase) in [("nightly-20261122060000", "Completed"), ("by-hand", "Completed"), ("wrong", "Failed")] {
        let status = json!({"phase": phase, "startTimestamp": "2026-11-22T06:00:00Z"});
        let mut backup: Backup = read("Backup", name, &spec, &status);
        note_taken_over(&mut backup.metadata, false);
        inventory.backups.push(if name == "nightly-20261122060000" { of_schedule(backup, "nightly") } else { backup });
    }
    assert_eq!(told(&inventory), told(&well()));
    for backup in &mut inventory.backups {
        note_taken_over(&mut backup.metadata, true);
    }
    let found = told(&inventory);
    let last: Vec<&str> = found.namespaces.iter().map(|one| one.last_good.as_ref().unwrap().backup.as_str()).collect();
    assert_eq!(last, ["nightly-20261122060000"; 2], "its own, of before its server was installed anew");
}

#[test]
fn a_backup_that_leaves_all_types_out_has_no_namespace() {
    for field in ["excludedNamespaceScopedResources", "excludedResources"] {
        let mut inventory = well();
        let mut without = |list: &[&str], name: &str, start: &str| {
            let spec = json!({"includedNamespaces": ["*"], field: list});
            let status = json!({"phase": "Completed", "startTimestamp": start});
            inventory.backups.push(read("Backup", name, &spec, &status));
        };
        without(&["events"], "without-events", "2026-11-22T05:00:00Z");
        without(&["events", "*"], "without-all", "2026-11-22T06:00:00Z");
        let found = told(&inventory);
        let last: Vec<&str> =
            found.namespaces.iter().map(|one| one.last_good.as_ref().unwrap().backup.as_str()).collect();
        assert_eq!(last, ["without-events"; 2], "{field}");
    }
}

#[test]
fn what_needs_attention_is_said_with_the_next_step() {
    let check = |change: &dyn Fn(&mut Inventory), expected: &[&str]| {
        let mut inventory = well();
        change(&mut inventory);
        let found = told(&inventory);
        assert_eq!(texts(&found), expected);
        assert!(found.attention.iter().all(|one| !one.next.is_empty()), "{found:?}");
    };
    check(&|i| i.locations.clear(), &["there is no backup storage location: nothing can be backed up"]);
    check(
        &|i| {
            i.locations[0] = read(
                "BackupStorageLocation",
                "main",
                &json!({}),
                &json!({"phase": "Unavailable", "message": "no route"}),
            );
        },
        &["location main is not available: no route"],
    );
    check(&|i| i.locations[0].status.phase = None, &["location main is not available: no server has looked at it yet"]);
    let looked = |i: &mut Inventory, text: &str, frequency: Option<i64>| {
        i.locations[0].status.last_validation_time = Some(Time::new(text.parse().unwrap()));
        i.locations[0].spec.validation_frequency = frequency.map(lifeboat_api::Duration::from_secs);
    };
    let long_ago: &[&str] = &["location main was looked at last at 2026-11-22T10:59:59Z"];
    check(&|i| looked(i, "2026-11-22T10:59:59Z", None), long_ago);
    check(&|i| looked(i, "2026-11-22T11:00:00Z", None), &[]);
    check(&|i| looked(i, "2026-11-22T10:59:59Z", Some(1)), long_ago);
    check(&|i| looked(i, "2026-11-22T10:59:59Z", Some(3600)), &[]);
    check(&|i| looked(i, "2026-11-22T10:59:59Z", Some(0)), &[]);
    check(
        &|i| i.schedules[0].status.last_backup = Some(Time::new("2026-11-21T03:00:00Z".parse().unwrap())),
        &["a run of schedule nightly is due since 2026-11-22T03:00:00Z, and no server has begun it"],
    );
    check(
        &|i| {
            i.schedules[0].status.last_backup = Some(Time::new("2026-11-21T03:00:00Z".parse().unwrap()));
            i.schedules[0].status.message = "a run is due since then, and begins when backup b has ended".into();
        },
        &["schedule nightly: a run is due since then, and begins when backup b has ended"],
    );
    check(
        &|i| {
            i.schedules[0].status.phase = Some(SchedulePhase::FailedValidation);
            i.schedules[0].status.validation_errors = vec!["no cron".into()];
        },
        &["schedule nightly makes no backups: no cron", "no schedule saves shop, web (2 claims of volumes)"],
    );
    check(&|i| i.schedules[0].spec.paused = true, &["no schedule saves shop, web (2 claims of volumes)"]);
    check(
        &|i| i.schedules[0].spec.template.snapshot_volumes = Some(false),
        &["the schedules of shop leave the data of volumes out"],
    );
    check(
        &|i| {
            i.backups[0].status.phase = Some(BackupPhase::Failed);
            i.backups[0].status.failure_reason = "the bucket is full".into();
        },
        &["the last backup of schedule nightly, nightly-20261122030000, is Failed: the bucket is full"],
    );
    check(
        &|i| {
            let status = |start: &str| json!({"phase": "PartiallyFailed", "startTimestamp": start, "errors": 1});
            i.restores.push(read("Restore", "new", &json!({"backupName": "b"}), &status("2026-11-22T01:00:00Z")));
            i.restores.push(read("Restore", "old", &json!({"backupName": "b"}), &status("2026-11-20T01:00:00Z")));
        },
        &["restore new is PartiallyFailed, with 1 errors"],
    );
    check(
        &|i| {
            i.schedules[0].spec.template.included_namespaces = vec!["web".into()];
            i.namespaces.extend((0..7).map(|n| namespace(&format!("n{n}"), "2026-01-01T00:00:00Z", 1)));
        },
        &["no schedule saves n0, n1, n2, n3, n4 and 3 more (9 claims of volumes)"],
    );
}

#[test]
fn what_waits_or_runs_has_its_progress() {
    let mut inventory = well();
    let progress = json!({"phase": "InProgress", "progress": {"totalItems": 9, "itemsBackedUp": 4}});
    inventory.backups.push(read("Backup", "runs", &json!({}), &progress));
    inventory.backups.push(read("Backup", "waits", &json!({}), &json!({"phase": "Queued"})));
    inventory.restores.push(read("Restore", "r", &json!({"backupName": "b"}), &json!({})));
    let found = told(&inventory);
    let lines = found.running.iter().map(|one| format!("{} {} {} {:?}", one.kind, one.name, one.phase, one.progress));
    let expected = ["Backup runs InProgress Some((4, 9))", "Backup waits Queued None", "Restore r New None"];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}
