//! Tables of explanations for whole worlds of objects.

use super::*;
use crate::stub::{named, options};
use lifeboat_api::BackupStorageLocation;
use lifeboat_lifecycle::phase::expiry::Obstacle;
use lifeboat_lifecycle::phase::queue::Blocked;
use lifeboat_lifecycle::phase::restore::FINALIZER;
use lifeboat_lifecycle::phase::writable::note_writable;
use serde_json::{Value, json};
use std::sync::Arc;

const NOW: &str = "2026-11-22T12:00:00Z";

/// The world of these objects: of a kind, with a name, and what else there is to say.
fn world(objects: &[(MirroredKind, &str, Value)]) -> World {
    let mut world = World::default();
    for (kind, name, rest) in objects {
        let mut object = json!({"apiVersion": "velero.io/v1", "kind": kind.word(),
            "metadata": {"namespace": "velero", "name": name, "uid": name, "creationTimestamp": "2026-11-22T10:00:00Z"}});
        lifeboat_patch::merge(&mut object, rest);
        world.see(MirrorChange { kind: *kind, what: MirrorEvent::Applied(object.to_string().into()) });
    }
    world
}

/// The explanation for these objects when a server leads.
fn told(objects: &[(MirroredKind, &str, Value)]) -> Explanation {
    explained(&world(objects), &options(1), Some("leader".into()), NOW.parse().unwrap())
}

/// A location that is the default and was validated and synced a moment ago.
fn main() -> (MirroredKind, &'static str, Value) {
    let status = json!({"phase": "Available", "lastValidationTime": "2026-11-22T11:59:30Z", "lastSyncedTime": "2026-11-22T11:59:40Z"});
    (MirroredKind::BackupStorageLocation, "main", json!({"spec": {"default": true}, "status": status}))
}

/// A location that was validated, and is Available.
fn location(name: &'static str, spec: Value, mut status: Value) -> (MirroredKind, &'static str, Value) {
    lifeboat_patch::merge(&mut status, &json!({"phase": "Available", "lastValidationTime": "2026-11-22T11:59:30Z"}));
    let mut noted = BackupStorageLocation::default();
    (noted.metadata.name, noted.metadata.uid) = (name.into(), name.into());
    note_writable(&mut noted, "2026-11-22T10:00:00Z".parse().unwrap());
    let metadata = json!({"annotations": noted.metadata.annotations});
    (MirroredKind::BackupStorageLocation, name, json!({"metadata": metadata, "spec": spec, "status": status}))
}

fn backup(name: &'static str, phase: &str) -> (MirroredKind, &'static str, Value) {
    (
        MirroredKind::Backup,
        name,
        json!({"spec": {"storageLocation": "main"}, "status": {"phase": phase, "queuePosition": 1}}),
    )
}

#[test]
fn programs_are_told_namespaces_and_a_word_that_stays() {
    let found = told(&[
        main(),
        backup("done", "Completed"),
        backup("new", "New"),
        backup("waits", "Queued"),
        backup("runs", "InProgress"),
        (
            MirroredKind::Restore,
            "again",
            json!({"spec": {"backupName": "done"}, "metadata": {"finalizers": [FINALIZER]}}),
        ),
        (MirroredKind::DeleteBackupRequest, "gone", json!({"spec": {"backupName": "gone"}})),
    ]);
    let due = "2026-11-22T12:00:30Z";
    let row = |kind: &str, name: &str, state: &str, reason: &str| json!({"kind": kind, "namespace": "velero", "name": name, "state": state, "reason": reason});
    let with = |mut row: Value, rest: Value| {
        lifeboat_patch::merge(&mut row, &rest);
        row
    };
    assert_eq!(
        serde_json::to_value(found).unwrap(),
        json!({
            "leader": "leader",
            "steps": [
                with(row("DeleteBackupRequest", "gone", "New", "Refuse"), json!({"does": "is refused: backup not found"})),
                with(row("Backup", "new", "New", "Queue"), json!({"does": "goes into the queue, to position 2"})),
                with(row("Restore", "again", "New", "Run"), json!({"does": "is validated, and runs from backup done"})),
            ],
            "waits": [
                {"kind": "Backup", "namespace": "velero", "name": "runs", "state": "InProgress", "reason": "Running", "until": null,
                    "waitsFor": "its end: it is worked on by the leader leader, or taken up by the next one"},
                {"kind": "Backup", "namespace": "velero", "name": "waits", "state": "Queued", "reason": "NoSlot", "until": null,
                    "waitsFor": "its turn, as number 1 in the queue: 1 of 1 may run at once, and do: runs"},
                {"kind": "BackupStorageLocation", "namespace": "velero", "name": "main", "state": "Available", "reason": "NotDue",
                    "until": due, "waitsFor": format!("{due}, when it is due")},
            ],
            "atRest": [{"kind": "Backup", "phase": "Completed", "count": 1}],
            "wake": due,
        })
    );
}

#[test]
fn every_reason_to_wait_has_its_word() {
    let (key, until) = (Key::Backup(named("b")), Instant::now());
    let full = || Blocked::Full { by: Arc::from([named("b")]), places: 1 };
    let overlaps = || Blocked::Overlaps(named("b"));
    for (why, expected) in [
        (Reason::Runs(key.clone()), "Running"),
        (Reason::Excluded(key), "OtherWork"),
        (Reason::Failed { times: 1, until }, "Failed"),
        (Reason::Paused(until), "Paused"),
        (Reason::NoPlace { run: 1, most: 1 }, "NoPlace"),
        (Reason::Due(Timestamp::UNIX_EPOCH), "NotDue"),
        (Reason::Queued { position: 1, why: full() }, "NoSlot"),
        (Reason::Queued { position: 1, why: overlaps() }, "Overlap"),
        (Reason::NoSlot(full()), "NoSlot"),
        (Reason::NoSlot(overlaps()), "Overlap"),
        (Reason::Unvalidated(named("l")), "LocationNotValidated"),
        (Reason::FirstSync { location: named("l"), until }, "FirstSync"),
        (Reason::Disabled(crate::options::Controller::Backup), "Disabled"),
        (Reason::Deleted { finalizers: Vec::new() }, "Deleted"),
        (Reason::Unreadable("no".into()), "Unreadable"),
        (Reason::EarlierRun { backup: named("b"), since: Timestamp::UNIX_EPOCH }, "EarlierRun"),
        (Reason::Blocked(Obstacle::ReadOnly("l".into())), "Blocked"),
        (Reason::ReadBy(named("r")), "ReadByRestore"),
        (Reason::Unrecorded(Obstacle::ReadOnly("l".into())), "Unrecorded"),
        (Reason::GoesElsewhere("u".into()), "OtherCluster"),
        (Reason::Restored(named("r")), "ReadByRestore"),
        (Reason::NeededByClaims { claims: "n/c".into(), way_out: "use it".into() }, "NeededByClaims"),
    ] {
        assert_eq!(codes::of_wait(&why), expected, "{why:?}");
    }
}

/// Also while it is kept back by the first sync of the default one, and has no time of a validation that could be told.
#[test]
fn a_location_that_is_never_validated_again_waits_for_its_sync() {
    let found = told(&[
        (
            MirroredKind::BackupStorageLocation,
            "main",
            json!({"spec": {"default": true}, "status": {"phase": "Available", "lastValidationTime": "2026-11-22T11:59:30Z"}}),
        ),
        location("never-synced", json!({"validationFrequency": "0s"}), json!({})),
        location("synced", json!({"validationFrequency": "0s"}), json!({"lastSyncedTime": "2026-11-22T11:59:40Z"})),
        location(
            "synced-for-long",
            json!({"validationFrequency": "0s", "backupSyncPeriod": "1h"}),
            json!({"lastSyncedTime": "2026-11-22T11:59:40Z"}),
        ),
        location("rests", json!({"validationFrequency": "0s", "backupSyncPeriod": "0s"}), json!({})),
    ]);
    let waits: Vec<(&str, &str, Option<String>)> = found
        .waits
        .iter()
        .map(|wait| (wait.name.as_str(), wait.reason, wait.until.map(|until| until.to_string())))
        .collect();
    let until = |time: &str| Some(format!("2026-11-22T{time}Z"));
    assert_eq!(
        waits,
        [
            ("never-synced", "FirstSync", until("12:01:00")),
            ("synced", "NotDue", until("12:00:40")),
            ("synced-for-long", "NotDue", until("12:59:40")),
        ]
    );
    assert_eq!(found.at_rest, [AtRest { kind: "BackupStorageLocation", phase: "Available".into(), count: 1 }]);
}

#[test]
fn what_is_left_alone_though_it_is_not_over_is_not_at_rest() {
    let deleted = |finalizers: &[&str], phase: &str| {
        let metadata = json!({"deletionTimestamp": "2026-11-22T11:00:00Z", "finalizers": finalizers});
        json!({"metadata": metadata, "status": {"phase": phase}})
    };
    let schedule = |paused: bool, phase: &str| {
        let errors = if phase == "FailedValidation" {
            json!(["invalid schedule: unrecognized descriptor: @"])
        } else {
            json!([])
        };
        let times = if phase == "FailedValidation" { "@" } else { "@daily" };
        json!({"spec": {"paused": paused, "schedule": times, "template": {}, "skipImmediately": false},
            "status": {"phase": phase, "validationErrors": errors}})
    };
    let found = told(&[
        main(),
        (
            MirroredKind::Backup,
            "kept",
            deleted(&["a.example/1", "b.example/2", "c.example/3", "d.example/4"], "Completed"),
        ),
        (MirroredKind::Backup, "going", deleted(&[], "Queued")),
        (
            MirroredKind::Backup,
            "unreadable",
            json!({"metadata": {"deletionTimestamp": "2026-11-22T11:00:00Z"}, "spec": 1}),
        ),
        (MirroredKind::Backup, "done", json!({"spec": 1, "status": {"phase": "Completed"}})),
        (MirroredKind::Restore, "held", deleted(&["a.example/1"], "Completed")),
        (MirroredKind::Restore, "ours", deleted(&["a.example/1", FINALIZER], "Completed")),
        (MirroredKind::DeleteBackupRequest, "wrong", json!({"spec": 1})),
        (MirroredKind::DownloadRequest, "wrong", json!({"spec": 1, "status": {"phase": "Processed"}})),
        (MirroredKind::Schedule, "nightly", schedule(false, "Enabled")),
        (MirroredKind::Schedule, "new", schedule(false, "New")),
        (MirroredKind::Schedule, "paused", schedule(true, "Enabled")),
        (MirroredKind::Schedule, "refused", schedule(false, "FailedValidation")),
    ]);
    let steps: Vec<String> = found.steps.iter().map(|step| format!("{} {}", step.kind, step.name)).collect();
    assert_eq!(steps, ["Schedule new", "Restore ours"]);
    let line = |wait: &ExplainedWait| format!("{} {} {}: {}", wait.kind, wait.name, wait.reason, wait.waits_for);
    let of_others = "its end: it is being deleted, and kept by the finalizers of others";
    let wrong = "somebody who mends or deletes it: it cannot be read: invalid type: integer `1`, expected";
    assert_eq!(
        found.waits.iter().map(line).collect::<Vec<_>>(),
        [
            "Backup going Deleted: its end: it is being deleted".to_owned(),
            format!("Backup kept Deleted: {of_others}: a.example/1, b.example/2, c.example/3 and 1 more"),
            "Backup unreadable Deleted: its end: it is being deleted".to_owned(),
            format!("Restore held Deleted: {of_others}: a.example/1"),
            "BackupStorageLocation main NotDue: 2026-11-22T12:00:30Z, when it is due".to_owned(),
            format!("DeleteBackupRequest wrong Unreadable: {wrong} struct DeleteBackupRequestSpec"),
            format!("DownloadRequest wrong Unreadable: {wrong} struct DownloadRequestSpec"),
            "Schedule nightly NotDue: 2026-11-23T00:00:00Z, when it is due".to_owned(),
        ]
    );
    let rest = |kind, phase: &str| AtRest { kind, phase: phase.into(), count: 1 };
    assert_eq!(
        found.at_rest,
        [rest("Backup", "Completed"), rest("Schedule", "Enabled"), rest("Schedule", "FailedValidation")]
    );
}
