//! Tables of plans for whole worlds of objects: slots, exclusion, failures and defaults together.

use super::*;
use crate::server::words::{does, waits_for};
use crate::stub::{named, options};
use crate::world::{MirrorChange, MirroredKind};
use lifeboat_api::well_known::ANNOTATION_ATTEMPT;
use lifeboat_lifecycle::phase::restore::FINALIZER;
use lifeboat_lifecycle::phase::writable::note_writable;
use lifeboat_reconcile::MirrorEvent;
use serde_json::{Value, json};

/// A world of objects, a memory, and running tasks, for one look at everything.
struct Scene {
    world: World,
    options: Options,
    memory: Memory,
    running: Vec<Key>,
    base: Instant,
}

impl Scene {
    /// At noon; the location `main`, which is the default, was validated and synced a moment ago.
    fn new() -> Self {
        let mut scene = Self::bare();
        let times = json!({"phase": "Available", "lastValidationTime": "2026-11-22T11:59:30Z", "lastSyncedTime": "2026-11-22T11:59:40Z"});
        scene.put(MirroredKind::BackupStorageLocation, "main", &json!({"default": true}), &times);
        scene
    }

    fn bare() -> Self {
        let memory = Memory { default_is_marked: true, ..Memory::default() };
        Self { world: World::default(), options: options(1), memory, running: Vec::new(), base: Instant::now() }
    }

    /// Adds an object; each is younger than those before.
    fn put(&mut self, kind: MirroredKind, name: &str, spec: &Value, status: &Value) {
        self.put_as(kind, &named(name), spec, status);
    }

    fn put_as(&mut self, kind: MirroredKind, key: &NamespacedName, spec: &Value, status: &Value) {
        let age = self.world.all().count();
        let mut metadata = json!({"namespace": key.namespace, "name": key.name, "uid": key.to_string(),
            "creationTimestamp": format!("2026-11-22T10:00:{age:02}Z")});
        if status["phase"] == "InProgress" {
            metadata["annotations"] = json!({ANNOTATION_ATTEMPT: "1"});
        }
        if kind == MirroredKind::Restore {
            metadata["finalizers"] = json!([FINALIZER]);
        }
        let mut object = json!({"apiVersion": "velero.io/v1", "kind": kind.word(), "metadata": metadata, "spec": spec, "status": status});
        if kind == MirroredKind::BackupStorageLocation {
            let of: Option<BackupStorageLocation> = serde_json::from_value(object.clone()).ok();
            if let Some(mut location) = of {
                note_writable(&mut location, "2026-11-22T10:59:00Z".parse().unwrap());
                object["metadata"]["annotations"] = json!(location.metadata.annotations);
            }
        }
        self.world.see(MirrorChange { kind, what: MirrorEvent::Applied(object.to_string().into()) });
        if kind == MirroredKind::BackupStorageLocation
            && let Some(location) = self.world.locations.get(key)
        {
            self.memory.validated.insert(key.clone(), (location.spec.clone(), self.base));
        }
    }

    fn backup(&mut self, name: &str, phase: &str, namespaces: &[&str]) {
        let waiting = self.world.backups.iter().filter(|b| b.status.queue_position > 0).count();
        let position = if phase == "Queued" { waiting + 1 } else { 0 };
        let spec = json!({"storageLocation": "main", "includedNamespaces": namespaces});
        self.put(MirroredKind::Backup, name, &spec, &json!({"phase": phase, "queuePosition": position}));
    }

    fn restore(&mut self, name: &str, phase: &str, backup: &str) {
        let start = (phase != "New").then_some("2026-11-22T10:00:00Z");
        self.put(
            MirroredKind::Restore,
            name,
            &json!({"backupName": backup}),
            &json!({"phase": phase, "startTimestamp": start}),
        );
    }

    /// This has failed so many times, and is tried again in so many seconds.
    fn failed(&mut self, key: Key, count: u32, seconds: u64) {
        let until = self.base + Duration::from_secs(seconds);
        self.memory.failures.remember(key, StepBackoff { count, until });
    }

    /// The steps that begin, then the objects that wait: a line each.
    fn lines(&self) -> Vec<String> {
        let now = ("2026-11-22T12:00:00Z".parse().unwrap(), self.base);
        let view = PlanInput { world: &self.world, options: &self.options, memory: &self.memory, now, explain: true };
        let plan = plan(view, self.running.iter());
        let line = |subject: &Subject, what: &str| match subject.object() {
            (kind, key) if key.namespace.is_empty() => format!("{} {}: {what}", kind.word(), key.name),
            (kind, key) => format!("{} {key}: {what}", kind.word()),
        };
        let steps = plan.work.iter().map(|work| line(&work.key.object(), &does(&work.step)));
        let waits =
            plan.waits.iter().map(|wait| line(&wait.subject, &format!("waits for {}", waits_for(&wait.why, now))));
        steps.chain(waits).collect()
    }
}

const MAIN_WAITS: &str = "BackupStorageLocation main: waits for 2026-11-22T12:00:30Z, when it is due";

#[test]
fn backups_wait_for_places_and_for_one_another() {
    let mut scene = Scene::new();
    scene.options.concurrent_backups = 2;
    scene.backup("done", "Completed", &["a"]);
    scene.backup("runs", "InProgress", &["a"]);
    scene.backup("same", "Queued", &["a", "b"]);
    scene.backup("behind", "Queued", &["b"]);
    scene.backup("other", "Queued", &["c"]);
    scene.backup("last", "Queued", &["d"]);
    scene.backup("new", "New", &["e"]);
    scene.running = vec![Key::Backup(named("runs"))];
    assert_eq!(
        scene.lines(),
        [
            "Backup other: leaves the queue, to run",
            "Backup last: is number 3 in the queue from now on",
            "Backup new: goes into the queue, to position 5",
            "Backup behind: waits for its turn, as number 2 in the queue: same comes first and may hold one of its namespaces",
            "Backup runs: waits for the end of the work on it: the backup runs",
            "Backup same: waits for its turn, as number 1 in the queue: runs comes first and may hold one of its namespaces",
            MAIN_WAITS,
        ]
    );
    scene.options.concurrent_backups = 1;
    assert_eq!(
        scene.lines(),
        [
            "Backup new: goes into the queue, to position 5",
            "Backup behind: waits for its turn, as number 2 in the queue: 1 of 1 may run at once, and do: runs",
            "Backup last: waits for its turn, as number 4 in the queue: 1 of 1 may run at once, and do: runs",
            "Backup other: waits for its turn, as number 3 in the queue: 1 of 1 may run at once, and do: runs",
            "Backup runs: waits for the end of the work on it: the backup runs",
            "Backup same: waits for its turn, as number 1 in the queue: 1 of 1 may run at once, and do: runs",
            MAIN_WAITS,
        ]
    );
}

#[test]
fn what_waits_for_its_operations_leaves_its_place_to_the_next() {
    let mut scene = Scene::new();
    scene.backup("done", "Completed", &["a"]);
    scene.backup("asked", "WaitingForPluginOperations", &["a"]);
    scene.backup("waits", "WaitingForPluginOperationsPartiallyFailed", &["a"]);
    scene.backup("ends", "Finalizing", &["a"]);
    scene.backup("next", "Queued", &["a"]);
    scene.restore("asked", "WaitingForPluginOperations", "done");
    scene.restore("waits", "WaitingForPluginOperationsPartiallyFailed", "done");
    scene.restore("ends", "Finalizing", "done");
    scene.restore("next", "New", "done");
    scene.running = vec![Key::Backup(named("asked")), Key::Upkeep(named("asked"))];
    assert_eq!(
        scene.lines(),
        [
            "Backup next: leaves the queue, to run",
            "Backup ends: is finalized: none of its operations goes on",
            "Backup waits: its operations are asked how far they are",
            "Restore waits: its operations are asked how far they are",
            "Restore ends: is finalized: none of its operations goes on",
            "Restore next: is validated, and runs from backup done",
            "Backup asked: waits for the end of the work on it: the backup runs",
            "Restore asked: waits for the end of the work on it: the restore is brought on",
            MAIN_WAITS,
        ]
    );
}

#[test]
fn what_failed_waits_for_its_moment_and_what_is_late_for_the_others() {
    let mut scene = Scene::new();
    scene.backup("again", "InProgress", &["a"]);
    scene.backup("late", "ReadyToStart", &["b"]);
    scene.backup("later", "Queued", &["c"]);
    scene.backup("q", "Queued", &["d"]);
    scene.failed(Key::Backup(named("again")), 2, 1);
    scene.failed(Key::Backup(named("late")), 5, 0);
    scene.failed(Key::Start(named("later")), 7, 30);
    scene.put(MirroredKind::ServerStatusRequest, "status", &json!({}), &json!({}));
    scene.failed(Key::Status(named("status")), 0, 5);
    assert_eq!(
        scene.lines(),
        [
            "Backup again: waits for 2026-11-22T12:00:01Z: it has failed 2 times, and is tried again then",
            "Backup late: waits for its turn: 1 of 1 may run at once, and do: again",
            "Backup later: waits for 2026-11-22T12:00:30Z: it has failed 7 times, and is tried again then",
            "Backup q: waits for its turn, as number 2 in the queue: 1 of 1 may run at once, and do: again",
            MAIN_WAITS,
            "ServerStatusRequest status: waits for 2026-11-22T12:00:05Z: there is nothing to do before",
        ]
    );
}

#[test]
fn restores_wait_for_each_other_and_deletions_for_work_on_their_backup() {
    let mut scene = Scene::new();
    scene.backup("b", "Completed", &["a"]);
    scene.backup("queued", "Queued", &["a"]);
    scene.restore("done", "Completed", "b");
    scene.restore("runs", "InProgress", "b");
    scene.restore("first", "New", "b");
    scene.restore("second", "New", "b");
    scene.backup("unread", "Completed", &["a"]);
    for (name, backup) in [("d1", "unread"), ("d2", "unread"), ("d3", "queued"), ("d4", "gone"), ("d5", "b")] {
        scene.put(MirroredKind::DeleteBackupRequest, name, &json!({"backupName": backup}), &json!({"phase": "New"}));
    }
    let processed = json!({"phase": "Processed"});
    scene.put(MirroredKind::DeleteBackupRequest, "old", &json!({"backupName": "older"}), &processed);
    scene.running = vec![Key::Restore(named("runs")), Key::Queue(named("queued"))];
    assert_eq!(
        scene.lines(),
        [
            "DeleteBackupRequest d1: backup unread is deleted",
            "DeleteBackupRequest d4: is refused: backup not found",
            "DeleteBackupRequest d5: is refused: the restore first reads the backup and has not ended: delete the backup when the restore \
             has ended, cancel the restore (`restore cancel first`), or let the deletion wait (`backup delete b --wait-for-restores`, the \
             annotation lifeboat.io/wait-for-restores: \"true\" of the request)",
            "Backup queued: waits for the end of the work on it: its place in the queue is noted",
            "Restore first: waits for its turn: 1 of 1 may run at once, and do: runs",
            "Restore runs: waits for the end of the work on it: the restore runs",
            "Restore second: waits for its turn: 1 of 1 may run at once, and do: runs",
            MAIN_WAITS,
            "DeleteBackupRequest d2: waits for the end of other work on the same thing: request d1 deletes backup unread",
            "DeleteBackupRequest d3: waits for the end of other work on the same thing: its place in the queue is noted",
            "DeleteBackupRequest old: waits for 2026-11-23T10:00:13Z, when it is due",
        ]
    );
}

#[test]
fn locations_wait_for_the_first_sync_of_the_default_one() {
    let mut scene = Scene::bare();
    let validated = json!({"phase": "Available", "lastValidationTime": "2026-11-22T11:59:30Z"});
    scene.put(MirroredKind::BackupStorageLocation, "main", &json!({"default": true}), &validated);
    scene.put(MirroredKind::BackupStorageLocation, "other", &json!({}), &validated);
    let never = json!({"validationFrequency": "0s", "backupSyncPeriod": "0s"});
    scene.put(MirroredKind::BackupStorageLocation, "quiet", &never, &validated);
    scene.put(MirroredKind::BackupStorageLocation, "new", &json!({}), &json!({}));
    scene.put(
        MirroredKind::BackupStorageLocation,
        "wrong",
        &json!({"backupSyncPeriod": "often"}),
        &json!({"phase": "Available"}),
    );
    scene.backup("unvalidated", "ReadyToStart", &[]);
    scene.put(MirroredKind::Backup, "to-new", &json!({"storageLocation": "new"}), &json!({"phase": "ReadyToStart"}));
    scene.options.concurrent_backups = 2;
    scene.running = vec![Key::Validation(named("new"))];
    assert_eq!(
        scene.lines(),
        [
            "BackupStorageLocation wrong: is refused: it cannot be read: time: invalid duration \"often\"",
            "BackupStorageLocation main: its Backups are brought in line with its bucket",
            "Backup unvalidated: is validated, and runs into location main",
            "Backup to-new: waits for the first validation of location new",
            "BackupStorageLocation new: waits for the end of the work on it: the location is validated",
            "BackupStorageLocation other: waits for the first sync of the default location main, but no longer than until 2026-11-22T12:01:00Z",
        ]
    );
}

#[test]
fn what_no_part_of_the_server_does_waits_for_one_that_does() {
    let mut scene = Scene::new();
    scene.backup("b", "Completed", &[]);
    scene.backup("new", "New", &[]);
    scene.backup("queued", "Queued", &[]);
    scene.backup("ready", "ReadyToStart", &[]);
    scene.restore("r", "New", "b");
    scene.put(
        MirroredKind::Schedule,
        "nightly",
        &json!({"schedule": "@daily", "template": {}}),
        &json!({"phase": "Enabled"}),
    );
    scene.put(
        MirroredKind::Schedule,
        "paused",
        &json!({"schedule": "@daily", "template": {}, "paused": true}),
        &json!({}),
    );
    let target = json!({"target": {"kind": "BackupLog", "name": "b"}});
    scene.put(MirroredKind::DownloadRequest, "log", &target, &json!({}));
    let all = ["backup-queue", "backup", "restore", "backup-sync", "download-request", "schedule"];
    scene.options.disabled = all.iter().map(|name| name.parse().unwrap()).collect();
    assert_eq!(
        scene.lines(),
        [
            "Backup new: waits for a server that does it: backup-queue is disabled",
            "Backup queued: waits for a server that does it: backup-queue is disabled",
            "Backup ready: waits for a server that does it: backup is disabled",
            "Restore r: waits for a server that does it: restore is disabled",
            MAIN_WAITS,
            "DownloadRequest log: waits for a server that does it: download-request is disabled",
            "Schedule nightly: waits for a server that does it: schedule is disabled",
        ]
    );
}

#[test]
fn schedules_are_looked_at_and_run_one_at_a_time() {
    let mut scene = Scene::new();
    let spec = |times: &str| json!({"schedule": times, "template": {}, "skipImmediately": false});
    let enabled = json!({"phase": "Enabled", "lastBackup": "2026-11-21T03:00:00Z"});
    scene.put(MirroredKind::Schedule, "new", &json!({"schedule": "@daily", "template": {}}), &json!({}));
    scene.put(MirroredKind::Schedule, "wrong", &spec("61 * * * *"), &json!({}));
    scene.put(MirroredKind::Schedule, "paused", &json!({"schedule": "@", "template": {}, "paused": true}), &json!({}));
    scene.put(MirroredKind::Schedule, "nightly", &spec("0 3 * * *"), &enabled);
    scene.put(MirroredKind::Schedule, "later", &spec("0 3 1 * *"), &enabled);
    let skips = json!({"schedule": "0 3 * * *", "template": {}, "skipImmediately": true});
    scene.put(MirroredKind::Schedule, "skips", &skips, &enabled);
    scene.put(MirroredKind::Schedule, "untold", &spec("0 3 * * *"), &enabled);
    let message = "a run is due since 2026-11-22T03:00:00Z, and begins when backup told-1 has ended";
    let mut told = enabled.clone();
    told["message"] = message.into();
    scene.put(MirroredKind::Schedule, "told", &spec("0 3 * * *"), &told);
    scene.put(MirroredKind::Schedule, "cannot-be-told", &spec("0 3 * * *"), &enabled);
    for (schedule, phase) in
        [("untold", "InProgress"), ("told", "Queued"), ("cannot-be-told", "New"), ("nightly", "Finalizing")]
    {
        let mut backup: lifeboat_api::Backup = serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Backup",
            "metadata": {"name": format!("{schedule}-1"), "labels": {"velero.io/schedule-name": schedule}, "annotations": {ANNOTATION_ATTEMPT: "1"}},
            "spec": {"storageLocation": "main"}, "status": {"phase": phase, "queuePosition": 1}})).unwrap();
        backup.metadata.uid = backup.metadata.name.clone();
        scene.world.backups.put(backup);
        scene.running.push(Key::Backup(named(&format!("{schedule}-1"))));
    }
    scene.memory.told.insert(named("cannot-be-told"), message.replace("told-1", "cannot-be-told-1"));
    let lines = scene.lines();
    let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.starts_with("Schedule")).collect();
    assert_eq!(
        lines,
        [
            "Schedule new: is valid, and runs at its times from now on",
            "Schedule nightly: backup nightly-20261122030000 is made",
            "Schedule skips: a run that is due now is left out",
            "Schedule untold: its status says that a run is due since 2026-11-22T03:00:00Z, and begins when backup untold-1 has ended",
            "Schedule wrong: is refused: invalid schedule: end of range (61) above maximum (59): 61",
            "Schedule cannot-be-told: waits for the end of backup cannot-be-told-1: a run is due since 2026-11-22T03:00:00Z, and there is one at a time",
            "Schedule later: waits for 2026-12-01T03:00:00Z, when it is due",
            "Schedule told: waits for the end of backup told-1: a run is due since 2026-11-22T03:00:00Z, and there is one at a time",
        ]
    );
}

#[test]
fn backups_whose_time_is_over_go_or_say_why_not() {
    let mut scene = Scene::new();
    let validated = json!({"phase": "Available", "lastValidationTime": "2026-11-22T11:59:30Z", "lastSyncedTime": "2026-11-22T11:59:40Z"});
    scene.put(MirroredKind::BackupStorageLocation, "sealed", &json!({"accessMode": "ReadOnly"}), &validated);
    scene.put(MirroredKind::BackupStorageLocation, "new", &json!({"validationFrequency": "0s"}), &json!({}));
    let over = "2026-11-22T11:00:00Z";
    let mut backup = |name: &str, location: &str, phase: &str, end: &str| {
        scene.put(
            MirroredKind::Backup,
            name,
            &json!({"storageLocation": location}),
            &json!({"phase": phase, "expiration": end}),
        );
    };
    backup("over", "main", "Completed", over);
    backup("later", "main", "Completed", "2026-11-22T12:00:05Z");
    backup("asked", "main", "Completed", over);
    backup("failed", "main", "Deleting", over);
    backup("fails", "main", "Deleting", over);
    backup("finalizes", "main", "Finalizing", over);
    backup("sealed", "sealed", "Completed", over);
    backup("gone", "nowhere", "Completed", over);
    backup("unvalidated", "new", "Completed", over);
    backup("read", "main", "Completed", over);
    backup("was-read", "main", "Completed", over);
    for (name, backup, phase) in
        [("asks", "asked", "New"), ("asked", "failed", "Processed"), ("asked-now", "fails", "Processed")]
    {
        scene.put(MirroredKind::DeleteBackupRequest, name, &json!({"backupName": backup}), &json!({"phase": phase}));
    }
    scene.put(MirroredKind::Restore, "reads", &json!({"backupName": "read"}), &json!({"phase": "Finalizing"}));
    scene.put(MirroredKind::Restore, "has-read", &json!({"backupName": "was-read"}), &json!({"phase": "Failed"}));
    // An hour ago, and a moment ago.
    scene.options.expiry_frequency = lifeboat_api::Duration::from_secs(3600);
    let mut now = scene.world.delete_requests.get(&named("asked-now")).unwrap().clone();
    now.metadata.creation_timestamp = Some(lifeboat_api::Time::new("2026-11-22T11:59:00Z".parse().unwrap()));
    scene.world.delete_requests.put(now);
    scene.running = vec![Key::Validation(named("new"))];
    let lines = scene.lines();
    let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.starts_with("Backup ")).collect();
    assert_eq!(
        lines,
        [
            "Backup failed: its deletion is asked for: its time is over",
            "Backup gone: its label says that it stays though its time is over: there is no location nowhere",
            "Backup over: its deletion is asked for: its time is over",
            "Backup sealed: its label says that it stays though its time is over: location sealed is read-only",
            "Backup was-read: its deletion is asked for: its time is over",
            "Backup finalizes: is finalized: none of its operations goes on",
            "Backup fails: waits for 2026-11-22T12:59:00Z, when it is due",
            "Backup read: waits for the end of restore reads, which reads it: its time is over",
            "Backup unvalidated: waits for the first validation of location new",
        ]
    );
    scene.options.disabled = ["gc".parse().unwrap()].into();
    let lines = scene.lines();
    assert!(lines.contains(&"Backup over: waits for a server that does it: gc is disabled".to_owned()), "{lines:?}");
    let mut sealed = scene.world.backups.get(&named("sealed")).unwrap().clone();
    sealed.metadata.labels.insert("velero.io/gc-failure".into(), "BSLReadOnly".into());
    scene.options.disabled.clear();
    scene.world.backups.put(sealed);
    let kept = "Backup sealed: waits for its location: its time is over, and it is not deleted, because location sealed is read-only";
    assert!(scene.lines().contains(&kept.to_owned()), "{:?}", scene.lines());
}

#[test]
fn backups_that_are_held_or_kept_by_their_schedule_stay() {
    let mut scene = Scene::new();
    let over = "2026-11-22T11:00:00Z";
    let put = |scene: &mut Scene, name: &str, annotations: Value, status: Value| {
        scene.put(MirroredKind::Backup, name, &json!({"storageLocation": "main", "ttl": "1h"}), &status);
        let mut backup = scene.world.backups.get(&named(name)).unwrap().clone();
        backup.metadata.annotations = serde_json::from_value(annotations).unwrap();
        if let Some((schedule, _)) = name.split_once('-') {
            backup.metadata.labels.insert("velero.io/schedule-name".into(), schedule.into());
        }
        scene.world.backups.put(backup);
    };
    let rules = |n: i64| json!({"schedule": "0 3 * * *", "template": {}, "skipImmediately": false, "paused": true, "retention": {"keepDaily": n}});
    scene.put(MirroredKind::Schedule, "nightly", &rules(1), &json!({"phase": "Enabled"}));
    scene.put(MirroredKind::Schedule, "wrong", &rules(-1), &json!({"phase": "Enabled"}));
    scene.put(
        MirroredKind::Schedule,
        "unreadable",
        &json!({"schedule": 1, "retention": {}}),
        &json!({"phase": "FailedValidation"}),
    );
    let ended = |start: &str, end: &str| json!({"phase": "Completed", "startTimestamp": start, "expiration": end});
    let early = |end: &str| ended("2026-11-21T03:00:00Z", end);
    let (held, recorded) = ("lifeboat.io/hold-until", "lifeboat.io/hold-recorded");
    put(&mut scene, "nightly-20261120030000", json!({}), early(over));
    put(&mut scene, "nightly-20261121030000", json!({}), early(over));
    put(&mut scene, "nightly-20261122030000", json!({}), json!({"phase": "Failed", "expiration": over}));
    put(&mut scene, "wrong-1", json!({}), early(over));
    put(&mut scene, "unreadable-1", json!({}), early(over));
    put(&mut scene, "held", json!({held: "forever", recorded: "forever"}), early(over));
    put(&mut scene, "holds", json!({held: "2026-11-23T00:00:00Z"}), early("2026-11-22T12:31:00Z"));
    put(&mut scene, "holds-nowhere", json!({held: "forever"}), early("2026-11-24T00:00:00Z"));
    let mut nowhere = scene.world.backups.get(&named("holds-nowhere")).unwrap().clone();
    nowhere.spec.storage_location = "gone".into();
    scene.world.backups.put(nowhere);
    put(&mut scene, "held-out", json!({held: "2026-11-22T12:00:00Z", recorded: "2026-11-22T12:00:00Z"}), early(over));
    put(&mut scene, "lasts", json!({held: "forever", recorded: "forever"}), early("2026-11-24T00:00:00Z"));
    put(
        &mut scene,
        "young",
        json!({held: "forever", recorded: "forever"}),
        ended("2026-11-22T11:59:00Z", "2026-11-22T12:59:00Z"),
    );
    for (name, backup) in [("d1", "held"), ("d2", "lasts")] {
        scene.put(
            MirroredKind::DeleteBackupRequest,
            name,
            &json!({"backupName": backup}),
            &json!({"phase": if name == "d1" { "Processed" } else { "New" }}),
        );
    }
    let lines = scene.lines();
    let is_told = |line: &&str| line.starts_with("Backup ") || line.contains("d2");
    let lines: Vec<&str> = lines.iter().map(String::as_str).filter(is_told).collect();
    let moved = "its expiration is moved to 2026-11-23T12:30:00Z: it is";
    let wrong = "kept, because the retention of schedule";
    assert_eq!(
        lines,
        [
            "DeleteBackupRequest d2: is refused: backup lasts is held until it is released; `backup release lasts` releases it, then delete it again",
            &format!("Backup held: {moved} held until it is released"),
            "Backup held-out: its deletion is asked for: its time is over",
            "Backup holds: its record in the bucket is made to agree on what keeps it",
            "Backup nightly-20261120030000: its deletion is asked for: its time is over",
            &format!("Backup nightly-20261121030000: {moved} kept by schedule nightly: last good, daily 1"),
            "Backup nightly-20261122030000: its deletion is asked for: its time is over",
            &format!(
                "Backup unreadable-1: {moved} {wrong} unreadable cannot be followed: invalid type: integer `1`, expected a string"
            ),
            &format!(
                "Backup wrong-1: {moved} {wrong} wrong cannot be followed: invalid retention: keepDaily is -1, and must not be negative"
            ),
            "Backup holds-nowhere: waits for its location: what keeps it was changed here, and no other cluster on the bucket knows of that, \
             because there is no location gone",
            "Backup lasts: waits for what keeps it though its time is over: it is held until it is released",
        ]
    );
}

#[test]
fn of_many_of_one_kind_some_wait_for_a_place() {
    let mut scene = Scene::new();
    for n in 0..18 {
        scene.put(MirroredKind::ServerStatusRequest, &format!("s{n:02}"), &json!({}), &json!({}));
    }
    let lines = scene.lines();
    assert_eq!(lines[..16].iter().filter(|line| line.ends_with(": is answered")).count(), 16);
    let waits = "waits for a place: 16 of its kind are worked on, of 16 that may be";
    let expected = [
        MAIN_WAITS.to_owned(),
        format!("ServerStatusRequest s16: {waits}"),
        format!("ServerStatusRequest s17: {waits}"),
    ];
    assert_eq!(lines[16..], expected);
}

/// Neither by what runs, nor by what has failed, nor by the names they refer to, nor by which location is the default.
#[test]
fn objects_of_one_name_in_two_namespaces_do_not_affect_each_other() {
    let mut scene = Scene::bare();
    let key = |namespace: &str, name: &str| NamespacedName { namespace: namespace.into(), name: name.into() };
    let times = json!({"phase": "Available", "lastValidationTime": "2026-11-22T11:59:30Z", "lastSyncedTime": "2026-11-22T11:59:40Z"});
    let main = json!({"default": true});
    let of_main = json!({"storageLocation": "main"});
    let of_backup = json!({"backupName": "b"});
    let new = json!({"phase": "New"});
    for (namespace, phase) in [("here", "InProgress"), ("there", "Completed")] {
        scene.put_as(MirroredKind::BackupStorageLocation, &key(namespace, "main"), &main, &times);
        scene.put_as(MirroredKind::Backup, &key(namespace, "b"), &of_main, &json!({"phase": phase}));
        scene.put_as(MirroredKind::DeleteBackupRequest, &key(namespace, "d"), &of_backup, &new);
        scene.put_as(MirroredKind::ServerStatusRequest, &key(namespace, "s"), &json!({}), &json!({}));
    }
    // There is no backup for it in its own namespace, and no location in that of the other.
    scene.put_as(MirroredKind::Restore, &key("else", "r"), &of_backup, &new);
    scene.put_as(MirroredKind::Backup, &key("else", "x"), &of_main, &json!({"phase": "ReadyToStart"}));
    scene.options.concurrent_backups = 2;
    scene.running = vec![Key::Backup(key("here", "b"))];
    scene.failed(Key::Status(key("there", "s")), 2, 1);
    let missing = "an existing backup storage location was not specified at backup creation time and the default main was not found.";
    let lines = scene.lines();
    assert!(lines[2].starts_with(&format!("Backup else/x: is refused: {missing}")), "{lines:?}");
    let lines: Vec<&str> = lines.iter().map(|line| line.split(" Please").next().unwrap_or_default()).collect();
    assert_eq!(
        lines,
        [
            "DeleteBackupRequest here/d: is refused: backup is still in progress",
            "DeleteBackupRequest there/d: backup b is deleted",
            &format!("Backup else/x: is refused: {missing}"),
            "Restore else/r: is refused: Error retrieving backup: can't find backup else/b: backups.velero.io \"b\" not found",
            "ServerStatusRequest here/s: is answered",
            "Backup here/b: waits for the end of the work on it: the backup runs",
            "BackupStorageLocation here/main: waits for 2026-11-22T12:00:30Z, when it is due",
            "BackupStorageLocation there/main: waits for 2026-11-22T12:00:30Z, when it is due",
            "ServerStatusRequest there/s: waits for 2026-11-22T12:00:01Z: it has failed 2 times, and is tried again then",
        ]
    );
}

/// A normal pass is the same without the reasons.
#[test]
fn reasons_change_nothing_of_what_is_done() {
    let mut scene = Scene::new();
    for (name, phase) in [("a", "InProgress"), ("b", "Queued"), ("c", "New"), ("d", "ReadyToStart")] {
        scene.backup(name, phase, &[]);
    }
    scene.restore("r", "New", "a");
    let look = |explain| {
        let now = ("2026-11-22T12:00:00Z".parse().unwrap(), scene.base);
        let view = PlanInput { world: &scene.world, options: &scene.options, memory: &scene.memory, now, explain };
        let plan = plan(view, std::iter::empty());
        (format!("{:?}", plan.work), plan.wake, plan.retry, plan.waits.len())
    };
    let (with, without) = (look(true), look(false));
    assert_eq!((&with.0, with.1, with.2), (&without.0, without.1, without.2));
    assert_eq!((with.3, without.3), (2, 0));
}

#[test]
fn repositories_are_prepared_and_again_when_their_location_changes() {
    let mut scene = Scene::new();
    let mut put = |name: &str, location: &str, format: &str, status: &Value| {
        let spec = json!({"volumeNamespace": "app", "backupStorageLocation": location, "repositoryType": format,
            "maintenanceFrequency": "0s"});
        scene.put(MirroredKind::BackupRepository, name, &spec, status);
    };
    put("new", "main", "kopia", &json!({}));
    put("failed", "main", "kopia", &json!({"phase": "NotReady"}));
    put("of-velero", "main", "kopia", &json!({"phase": "Ready"}));
    put("gone", "elsewhere", "kopia", &json!({"phase": "Ready"}));
    put("waiting", "elsewhere", "kopia", &json!({"phase": "NotReady"}));
    put("restic", "main", "restic", &json!({}));
    put("again", "main", "kopia", &json!({"phase": "NotReady"}));
    scene.failed(Key::Repository(named("again")), 2, 5);
    let prepared = "is made where it is missing, and opened; then it is ready";
    let expected = [
        format!("BackupRepository failed: {prepared}"),
        "BackupRepository gone: is not ready any more: its location is gone".to_owned(),
        format!("BackupRepository new: {prepared}"),
        "BackupRepository of-velero: gets a note of where it lies".to_owned(),
        MAIN_WAITS.to_owned(),
        "BackupRepository again: waits for 2026-11-22T12:00:05Z: it has failed 2 times, and is tried again then"
            .to_owned(),
    ];
    let mut lines = scene.lines();
    lines.sort_by_key(|line| line.contains("waits for"));
    assert_eq!(lines, expected);

    scene.options.disabled = [Controller::BackupRepo].into();
    assert!(
        scene
            .lines()
            .contains(&"BackupRepository new: waits for a server that does it: backup-repo is disabled".to_owned()),
        "{:?}",
        scene.lines()
    );
}

#[test]
fn keys_of_a_few_repositories_of_a_location_are_derived_at_once() {
    let mut scene = Scene::new();
    for n in 0..6 {
        let spec = json!({"volumeNamespace": "app", "backupStorageLocation": "main", "repositoryType": "kopia",
            "maintenanceFrequency": "0s"});
        scene.put(MirroredKind::BackupRepository, &format!("r{n}"), &spec, &json!({}));
    }
    let begun = scene.lines().iter().filter(|line| line.contains("is made where it is missing")).count();
    assert_eq!(begun, 4);
}

#[test]
fn repositories_that_are_ready_are_maintained_when_it_is_due() {
    let mut scene = Scene::new();
    let main = scene.world.locations.get(&named("main")).unwrap().clone();
    let mut put = |name: &str, last: &str| {
        let mut repository = lifeboat_api::BackupRepository::for_volumes("", "app", "main");
        repository.metadata.name = name.to_owned();
        repository.spec.maintenance_frequency = lifeboat_api::Duration::from_secs(3600);
        let last = lifeboat_api::Time::new(last.parse().unwrap());
        phase::repository::note_ready(&mut repository, &main, last);
        scene.world.repositories.put(repository);
    };
    put("again", "2026-11-22T10:00:00Z");
    put("due", "2026-11-22T11:00:00Z");
    put("later", "2026-11-22T11:30:00Z");
    put("next", "2026-11-22T10:30:00Z");
    scene.memory.failed(Key::Maintenance(named("again")), &work::StepError::NotYet(Duration::from_secs(2)), scene.base);
    let expected = [
        "BackupRepository due: is maintained, by a Job where the server runs in a pod",
        MAIN_WAITS,
        "BackupRepository again: waits for 2026-11-22T12:00:02Z: there is nothing to do before",
        "BackupRepository later: waits for 2026-11-22T12:30:00Z, when it is due",
        "BackupRepository next: waits for a place: 1 of its kind are worked on, of 1 that may be",
    ];
    assert_eq!(scene.lines(), expected);
}
