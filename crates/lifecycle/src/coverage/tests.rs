use super::*;
use crate::next_backups::{NextBackup, NextBackups};
use crate::phase::taken_over::note_taken_over;
use lifeboat_api::{DeleteBackupRequest, SchedulePhase, well_known};
use serde_json::{Value, json};

const NOW: &str = "2026-11-22T12:00:00Z";

fn read<T: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: &Value, status: &Value) -> T {
    let meta = json!({"name": name, "uid": name, "creationTimestamp": "2026-11-01T00:00:00Z"});
    let api = json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": meta, "spec": spec, "status": status});
    serde_json::from_value(api).unwrap()
}

fn namespace(name: &str, created: &str, claims: u64) -> NamespaceInventory {
    let facts = NamespaceFacts { name: name.into(), labels: BTreeMap::new(), active: true };
    NamespaceInventory { facts, created: Some(created.parse().unwrap()), claims: Some(claims) }
}

fn of_schedule(mut backup: Backup, schedule: &str) -> Backup {
    backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), schedule.into());
    backup
}

fn covered(inventory: &Inventory) -> Coverage {
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
    let lists = ExpiryInput {
        locations: vec![read("BackupStorageLocation", "main", &json!({"default": true}), &status)],
        schedules: vec![read("Schedule", "nightly", &schedule, &ran)],
        backups: vec![of_schedule(read("Backup", "nightly-20261122030000", &backup, &completed), "nightly")],
        ..ExpiryInput::default()
    };
    let namespaces = vec![namespace("shop", "2026-01-01T00:00:00Z", 2), namespace("web", "2026-01-01T00:00:00Z", 0)];
    Inventory { lists, namespaces: Some(namespaces), ..Inventory::default() }
}

#[test]
fn nothing_needs_attention_where_all_is_well() {
    let found = covered(&well());
    assert_eq!(texts(&found), [""; 0]);
    let at = |text: &str| Some(Time::new(text.parse().unwrap()));
    let ended = EndedBackup {
        backup: "nightly-20261122030000".into(),
        phase: BackupPhase::Completed,
        start: at("2026-11-22T03:00:00Z"),
    };
    let state = ScheduleState {
        name: "nightly".into(),
        state: ScheduleStanding::Enabled,
        last_ended: Some(ended.clone()),
        next_run: at("2026-11-23T03:00:00Z"),
    };
    assert_eq!(found.schedules, [state]);
    let namespace = |name: &str, claims| NamespaceState {
        name: name.into(),
        last_good: Some(ended.clone()),
        last_good_with_volumes: Some(ended.clone()),
        age_seconds: Some(9 * 3600),
        schedules: vec!["nightly".into()],
        claims: Some(claims),
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
    inventory.lists.backups.extend([
        read("Backup", "selected", &selected, &completed("2026-11-22T10:00:00Z")),
        read("Backup", "typed", &typed, &completed("2026-11-22T10:00:00Z")),
        read("Backup", "partly", &shop(), &partly),
        read("Backup", "by-hand", &shop(), &completed("2026-11-22T09:00:00Z")),
    ]);
    inventory.namespaces.as_mut().unwrap().push(namespace("new", "2026-11-22T04:00:00Z", 1));
    let found = covered(&inventory);
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
    inventory.lists.backups.push(of_schedule(refused, "nightly"));
    let found = covered(&inventory);
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
        inventory.lists.backups.push(if name == "nightly-20261122060000" {
            of_schedule(backup, "nightly")
        } else {
            backup
        });
    }
    assert_eq!(covered(&inventory), covered(&well()));
    for backup in &mut inventory.lists.backups {
        note_taken_over(&mut backup.metadata, true);
    }
    let found = covered(&inventory);
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
            inventory.lists.backups.push(read("Backup", name, &spec, &status));
        };
        without(&["events"], "without-events", "2026-11-22T05:00:00Z");
        without(&["events", "*"], "without-all", "2026-11-22T06:00:00Z");
        let found = covered(&inventory);
        let last: Vec<&str> =
            found.namespaces.iter().map(|one| one.last_good.as_ref().unwrap().backup.as_str()).collect();
        assert_eq!(last, ["without-events"; 2], "{field}");
    }
}

#[test]
fn what_needs_attention_is_said_with_the_next_step() {
    let check = |change: &dyn Fn(&mut ExpiryInput), expected: &[(&str, &str)]| {
        let mut inventory = well();
        change(&mut inventory.lists);
        let found = covered(&inventory).attention;
        let found: Vec<(&str, &str)> = found.iter().map(|one| (one.what.as_str(), one.next.as_str())).collect();
        assert_eq!(found, expected);
    };
    let at = |text: &str| Some(Time::new(text.parse().unwrap()));
    let bare = (
        "no schedule saves shop, web (2 claims of volumes)",
        "`lifeboat schedule create NAME --schedule '0 3 * * *' --include-namespaces shop,web`, or label a namespace that is to stay \
         out: velero.io/exclude-from-backup=true",
    );
    let get_main = "mend it, then `lifeboat backup-location get main`";
    check(
        &|lists| lists.locations.clear(),
        &[(
            "there is no backup storage location: nothing can be backed up",
            "`lifeboat backup-location create default --provider aws --bucket BUCKET --default`",
        )],
    );
    check(
        &|lists| {
            let status = json!({"phase": "Unavailable", "message": "no route"});
            lists.locations[0] = read("BackupStorageLocation", "main", &json!({}), &status);
        },
        &[("location main is not available: no route", get_main)],
    );
    check(
        &|lists| lists.locations[0].status.phase = None,
        &[("location main is not available: no server has validated it yet", get_main)],
    );
    let validated = |lists: &mut ExpiryInput, text: &str, frequency: Option<i64>| {
        lists.locations[0].status.last_validation_time = at(text);
        lists.locations[0].spec.validation_frequency = frequency.map(lifeboat_api::Duration::from_secs);
    };
    let long_ago = &[(
        "location main was validated last at 2026-11-22T10:59:59Z",
        "look whether the server runs (`lifeboat version`), and whether the storage hangs",
    )];
    check(&|lists| validated(lists, "2026-11-22T10:59:59Z", None), long_ago);
    check(&|lists| validated(lists, "2026-11-22T11:00:00Z", None), &[]);
    check(&|lists| validated(lists, "2026-11-22T10:59:59Z", Some(1)), long_ago);
    check(&|lists| validated(lists, "2026-11-22T10:59:59Z", Some(3600)), &[]);
    check(&|lists| validated(lists, "2026-11-22T10:59:59Z", Some(0)), &[]);
    check(
        &|lists| lists.schedules[0].status.last_backup = at("2026-11-21T03:00:00Z"),
        &[(
            "a run of schedule nightly is due since 2026-11-22T03:00:00Z, and no server has begun it",
            "look whether the server runs: `lifeboat version`",
        )],
    );
    check(
        &|lists| {
            lists.schedules[0].status.last_backup = at("2026-11-21T03:00:00Z");
            lists.schedules[0].status.message = "a run is due since then, and begins when backup b has ended".into();
        },
        &[("schedule nightly: a run is due since then, and begins when backup b has ended", "`lifeboat backup get`")],
    );
    check(
        &|lists| {
            lists.schedules[0].status.phase = Some(SchedulePhase::FailedValidation);
            lists.schedules[0].status.validation_errors = vec!["no cron".into()];
        },
        &[("schedule nightly makes no backups: no cron", "mend it, then `lifeboat schedule describe nightly`"), bare],
    );
    check(&|lists| lists.schedules[0].spec.paused = true, &[bare]);
    check(
        &|lists| lists.schedules[0].spec.template.snapshot_volumes = Some(false),
        &[(
            "the schedules of shop leave the data of volumes out",
            "set `spec.template.snapshotVolumes` of schedule nightly to true, or remove it",
        )],
    );
    let name = "nightly-20261122030000";
    check(
        &|lists| {
            lists.backups[0].status.phase = Some(BackupPhase::Failed);
            lists.backups[0].status.failure_reason = "the bucket is full".into();
        },
        &[(
            &format!("the last backup of schedule nightly, {name}, is Failed: the bucket is full"),
            &format!("`lifeboat backup describe {name}`, `lifeboat backup logs {name}`"),
        )],
    );
    check(
        &|lists| {
            let status = |start: &str| json!({"phase": "PartiallyFailed", "startTimestamp": start, "errors": 1});
            lists.restores.push(read("Restore", "new", &json!({"backupName": "b"}), &status("2026-11-22T01:00:00Z")));
            lists.restores.push(read("Restore", "old", &json!({"backupName": "b"}), &status("2026-11-20T01:00:00Z")));
            lists.restores.push(read("Restore", "gone", &json!({"backupName": "b"}), &status("2026-11-10T01:00:00Z")));
        },
        &[(
            "2 restores are PartiallyFailed (new, old), with 1 error",
            "`lifeboat restore describe new`, `lifeboat restore logs new`",
        )],
    );
}

#[test]
fn what_may_not_be_listed_is_told_and_the_rest_is_known() {
    let mut inventory = well();
    inventory.lists.schedules.clear();
    inventory.namespaces.iter_mut().flatten().for_each(|one| one.claims = None);
    let claims = "you may not list the persistent volume claims of all namespaces, so nobody knows whose volumes are not protected";
    assert_eq!(texts(&covered(&inventory)), ["no schedule saves shop, web", claims]);
    inventory.namespaces = None;
    let found = covered(&inventory);
    assert_eq!(
        found.attention,
        [Attention {
            what: "you may not list the namespaces of the cluster, so nobody knows which of them are not protected"
                .into(),
            next:
                "ask for the right to list the namespaces of the cluster (`kubectl auth can-i list namespaces` tells whether you have it), or have \
                 somebody run `lifeboat status` who has it"
                    .into(),
        }]
    );
}

#[test]
fn of_many_namespaces_the_first_are_named_and_the_command_has_them_all() {
    let mut inventory = well();
    inventory.lists.schedules[0].spec.template.included_namespaces = vec!["web".into()];
    inventory
        .namespaces
        .as_mut()
        .unwrap()
        .extend((0..7).map(|n| namespace(&format!("n{n}"), "2026-01-01T00:00:00Z", 1)));
    let found = covered(&inventory);
    assert_eq!(texts(&found), ["no schedule saves n0, n1, n2, n3, n4 and 3 more (9 claims of volumes)"]);
    let command =
        "`lifeboat schedule create NAME --schedule '0 3 * * *' --include-namespaces n0,n1,n2,n3,n4,n5,n6,shop`, ";
    assert!(found.attention[0].next.starts_with(command), "{found:?}");
}

#[test]
fn a_backup_whose_deletion_is_asked_for_protects_nothing() {
    let mut inventory = well();
    let request = |phase: &str| -> DeleteBackupRequest {
        let spec = json!({"backupName": "nightly-20261122030000"});
        read("DeleteBackupRequest", "d", &spec, &json!({"phase": phase}))
    };
    for (phase, is_protected) in [("New", false), ("InProgress", false), ("Processed", true)] {
        inventory.lists.requests = vec![request(phase)];
        let found = covered(&inventory);
        let protected: Vec<bool> = found.namespaces.iter().map(|one| one.last_good.is_some()).collect();
        assert_eq!((protected, texts(&found)), (vec![is_protected; 2], vec![]), "{phase}");
    }
}

#[test]
fn what_waits_or_runs_has_its_progress() {
    let mut inventory = well();
    let progress = json!({"phase": "InProgress", "progress": {"totalItems": 9, "itemsBackedUp": 4}});
    inventory.lists.backups.push(read("Backup", "runs", &json!({}), &progress));
    inventory.lists.backups.push(read("Backup", "waits", &json!({}), &json!({"phase": "Queued"})));
    inventory.lists.restores.push(read("Restore", "r", &json!({"backupName": "b"}), &json!({})));
    let found = covered(&inventory);
    let lines =
        found.running.iter().map(|one| format!("{} {} {} {}", one.kind, one.name, one.phase, json!(one.progress)));
    let expected = [r#"Backup runs InProgress {"done":4,"total":9}"#, "Backup waits Queued null", "Restore r New null"];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[test]
fn a_backup_that_lost_most_of_its_objects_needs_attention() {
    let mut inventory = well();
    let with = |items: u32, mut backup: Backup| {
        backup.metadata.annotations.insert(well_known::ANNOTATION_NAMESPACED_ITEMS.into(), items.to_string());
        backup
    };
    let last = inventory.lists.backups.remove(0);
    let mut before = last.clone();
    before.metadata.name = "nightly-20261121030000".into();
    inventory.lists.backups = vec![with(120, before), with(0, last)];
    let expected = "the last good backup of schedule nightly, nightly-20261122030000, has 0 objects of namespaces, and \
                    nightly-20261121030000 before it has 120";
    assert_eq!(texts(&covered(&inventory)), [expected]);
}

#[test]
fn the_status_is_not_well_while_the_last_backups_save_no_volumes() {
    let mut inventory = well();
    let alone = json!({"phase": "Completed", "startTimestamp": "2026-11-22T04:00:00Z", "unprotectedVolumes": 1});
    let spec = json!({"includedNamespaces": ["*"]});
    inventory.lists.backups[0].status.unprotected_volumes = 2;
    let unsaved =
        "backup nightly-20261122030000, the last one of schedule nightly, has not saved the data of 2 volumes";
    assert_eq!(texts(&covered(&inventory)), [unsaved]);
    // The newest good one of a namespace, which somebody has made by hand, counts too.
    inventory.lists.backups.push(read("Backup", "by-hand", &spec, &alone));
    assert_eq!(texts(&covered(&inventory)), [unsaved, "backup by-hand has not saved the data of 1 volume"]);
    // What was left out on purpose is told of by the schedule alone.
    inventory.lists.backups.pop();
    inventory.lists.backups[0].spec.snapshot_volumes = Some(false);
    inventory.lists.schedules[0].spec.template.snapshot_volumes = Some(false);
    let left_out = "the schedules of shop leave the data of volumes out";
    assert_eq!(texts(&covered(&inventory)), [left_out]);
    // Older ones count no more.
    let mut old = inventory.lists.backups[0].clone();
    old.metadata.name = "nightly-20261121030000".into();
    old.spec.snapshot_volumes = None;
    old.status.start_timestamp = Some(Time::new("2026-11-21T03:00:00Z".parse().unwrap()));
    inventory.lists.backups.push(old);
    assert_eq!(texts(&covered(&inventory)), [left_out]);
}

#[test]
fn volumes_that_the_next_backup_would_not_save_need_attention_today() {
    let mut inventory = well();
    let volumes = ["shop/data", "shop/logs"].map(|name| (name.to_owned(), "no driver".to_owned()));
    let mut nightly = NextBackup::of(&volumes, String::new());
    nightly.unprotected = 9;
    let well = ("weekly".to_owned(), NextBackup::default());
    let refused = ("monthly".to_owned(), NextBackup::of(&[], "there is no ConfigMap rules".to_owned()));
    let schedules = [("nightly".to_owned(), nightly), well, refused].into();
    inventory.next_backups = Some(NextBackups { schedules, unknown: "the server was slow".to_owned() });
    let expected = [
        "not all is well with the next backup of schedule monthly: there is no ConfigMap rules",
        "the next backup of schedule nightly would not save the data of 9 volumes: shop/data (no driver), shop/logs (no driver) and 7 more",
        "it is not known of all schedules what their next backups would do with volumes: the server was slow",
    ];
    assert_eq!(texts(&covered(&inventory)), expected);
}

#[test]
fn a_schedule_that_is_to_save_volumes_and_has_not_run_saves_none() {
    let mut inventory = well();
    inventory.lists.schedules[0].spec.template.snapshot_volumes = Some(false);
    inventory.lists.backups[0].spec.snapshot_volumes = Some(false);
    inventory.lists.backups[0].status.unprotected_volumes = 12;
    let monthly = json!({"schedule": "0 3 1 * *", "template": {"includedNamespaces": ["*"]}});
    inventory.lists.schedules.push(read("Schedule", "monthly", &monthly, &json!({"phase": "Enabled"})));
    inventory.lists.schedules[1].metadata.creation_timestamp = Some(Time::new("2026-11-02T00:00:00Z".parse().unwrap()));
    let expected = Attention {
        what: "the good backups of shop leave the data of volumes out, and schedule monthly, which is to save it, has none yet".into(),
        next: "`lifeboat backup create --from-schedule monthly` saves it now".into(),
    };
    assert_eq!(covered(&inventory).attention, [expected]);
    // It has run once, and nightly goes on without volumes.
    let completed = json!({"phase": "Completed", "startTimestamp": "2026-11-21T03:00:00Z"});
    let spec = json!({"includedNamespaces": ["*"]});
    let backup: Backup = read("Backup", "monthly-20261121030000", &spec, &completed);
    inventory.lists.backups.push(of_schedule(backup, "monthly"));
    assert_eq!(texts(&covered(&inventory)), [""; 0]);
}

#[test]
fn a_deletion_that_waits_for_an_unbound_claim_is_told_with_the_way_out() {
    let mut inventory = well();
    let mut request: DeleteBackupRequest = read("DeleteBackupRequest", "r", &json!({"backupName": "old"}), &json!({}));
    request.metadata.creation_timestamp = Some(Time::new("2026-11-20T00:00:00Z".parse().unwrap()));
    let told = "2026-11-20T00:00:00Z shop/data".to_owned();
    let waits = (well_known::ANNOTATION_WAITS_FOR_CLAIMS.to_owned(), told);
    request.metadata.annotations = [waits].into();
    inventory.lists.requests = vec![request];
    let found = covered(&inventory);
    let expected = Attention {
        what: "the deletion of backup old waits since 2026-11-20T00:00:00Z for claims from its snapshots that have no volume yet (shop/data)".into(),
        next: "use each of these claims in a pod, or delete it, otherwise it goes on at 2026-12-20T00:00:00Z".into(),
    };
    assert_eq!(found.attention, [expected]);
    inventory.lists.requests[0].status.phase = Some(lifeboat_api::DeleteBackupRequestPhase::InProgress);
    assert_eq!(texts(&covered(&inventory)), [""; 0]);
}

#[test]
fn a_backup_in_the_bucket_that_has_no_place_here_needs_attention() {
    let mut inventory = well();
    let noted = r#"{"sameName":{"count":1,"names":["weekly"]}}"#;
    let annotation = (well_known::ANNOTATION_PASSED_OVER.to_owned(), noted.to_owned());
    inventory.lists.locations[0].metadata.annotations = [annotation].into();
    let what = "location main: 1 backup in the bucket not taken over, because a backup of another location has its name: weekly";
    assert_eq!(texts(&covered(&inventory)), [what]);
}
