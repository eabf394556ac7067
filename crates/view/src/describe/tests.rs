//! Descriptions are those that Velero 1.18.2 printed of the same objects and files. Those of its golden commands are compared
//! in the tests of the binary (`golden_cli`).

mod rare_json;

use super::backup::{self, BackupFacts};
use super::facts::{FetchedFile, OperationFiles, VolumeInfo};
use super::page::Style;
use super::restore::{self, RestoreFacts};
use super::volumes::BackupVolumes;
use super::{json, schedule};
use jiff::tz::TimeZone;
use lifeboat_api::{
    BackupPhase, BackupResourceHook, BackupResourceHookSpec, DataPathPhase, DeleteBackupRequest,
    DeleteBackupRequestPhase, Duration, ExecHook, HookErrorMode, PodVolumeBackup, PodVolumeRestore, RestorePhase,
    Schedule, Time, UploaderType, well_known,
};
use lifeboat_object::{ResultSet, Results};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/fixtures/velero").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn packed<T: DeserializeOwned>(name: &str) -> FetchedFile<T> {
    let bytes = std::fs::read(fixture(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    FetchedFile::There(lifeboat_archive::sidecar::decode(&bytes, 1 << 20).unwrap_or_else(|e| panic!("{name}: {e}")))
}

fn style(details: bool) -> Style {
    Style { colours: true, zone: TimeZone::UTC, program: "velero".to_owned(), details }
}

/// The facts of a golden backup, its files in this folder.
fn golden_backup(name: &str, files: &str) -> BackupFacts {
    let backup = serde_json::from_str(&text(&format!("backup-runs/{name}/backup-object.json"))).unwrap();
    let file = |suffix: &str| format!("{files}/{name}/{name}-{suffix}");
    let found = OperationFiles {
        results: packed(&file("results.gz")),
        operations: FetchedFile::Missing,
        resources: packed(&file("resource-list.json.gz")),
        volumes: FetchedFile::Missing,
    };
    let volumes =
        BackupVolumes { snapshots: packed(&file("volumeinfo.json.gz")), is_legacy: false, ..BackupVolumes::default() };
    BackupFacts { backup, files: found, volumes, ..BackupFacts::default() }
}

/// A description without what Velero does not show: the volumes that were skipped.
fn without_skipped(text: &str) -> String {
    let Some((before, block)) = text.split_once("\n\n  Skipped:") else { return text.to_owned() };
    let (_, rest) = block.split_once('\n').unwrap_or((block, ""));
    let rest: Vec<&str> = rest.split_inclusive('\n').skip_while(|line| line.starts_with("    ")).collect();
    format!("{before}\n{}", rest.concat())
}

#[test]
fn backups_are_described_as_by_velero() {
    for (name, files) in [
        ("all", "backup-runs"),
        ("policy-volumes", "backup-runs"),
        ("scoped", "backups"),
        ("selector", "backups"),
        ("cluster-false", "backups"),
        ("one-ns", "backups"),
    ] {
        let golden = text(&format!("backup-runs/{name}/describe.txt"));
        assert_eq!(without_skipped(&backup::describe(&golden_backup(name, files), &style(true))), golden, "{name}");
    }
}

/// The rest of a schedule's page is compared with that of the golden commands.
#[test]
fn a_schedule_says_what_it_waits_for_and_when_it_ran() {
    let mut schedule = Schedule::default();
    schedule.metadata.name = "nightly".into();
    schedule.status.message = "a run is due".into();
    schedule.status.last_backup = Some(Time::new("2026-11-21T08:36:30Z".parse().unwrap()));
    let plain = Style { colours: false, ..style(false) };
    let text = schedule::describe(&schedule, &plain);
    assert!(text.contains("\nPhase:    New\nMessage:  a run is due\n\nPaused:"), "{text}");
    assert!(text.ends_with("\nLast Backup:  2026-11-21 08:36:30 +0000 UTC\n"), "{text}");
}

fn golden_restore(name: &str) -> RestoreFacts {
    let file = |suffix: &str| format!("restore-runs/{name}/{suffix}");
    let files = OperationFiles {
        results: packed(&file(&format!("restore-{name}-results.gz"))),
        operations: FetchedFile::Missing,
        resources: packed(&file(&format!("restore-{name}-resource-list.json.gz"))),
        volumes: packed(&file(&format!("{name}-volumeinfo.json.gz"))),
    };
    let restore = serde_json::from_str(&text(&file("restore-object.json"))).unwrap();
    RestoreFacts { restore, files, ..RestoreFacts::default() }
}

#[test]
fn restores_are_described_as_by_velero() {
    for name in ["r-map", "r-modifiers"] {
        let golden = text(&format!("restore-runs/{name}/describe.txt"));
        let facts = golden_restore(name);
        assert_eq!(restore::describe(&facts, &style(true)), golden, "{name}");
        let (short, _list) = golden.split_once("\nResource List:\n").unwrap();
        assert_eq!(restore::describe(&facts, &style(false)), short, "{name}");
    }
}

#[test]
fn a_restore_says_which_claims_came_back_empty() {
    let mut facts = golden_restore("r-map");
    let infos = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv-1", "message": "it is empty"},
        {"pvcName": "logs", "pvcNamespace": "shop", "message": "the claim was not bound"},
        {"pvName": "pv-2", "message": "it is not made again"}, {"pvName": "of-velero"}]);
    facts.files.volumes = FetchedFile::There(serde_json::from_value(infos).unwrap());
    let shown = |details: bool| block(&restore::describe(&facts, &style(details)), "Volumes:");
    assert_eq!(shown(false), "Volumes: 3 (specify --details for more information)");
    let all =
        "Volumes:\n  shop/data (pv-1): it is empty\n  shop/logs: the claim was not bound\n  pv-2: it is not made again";
    assert_eq!(shown(true), all);
}

#[test]
fn colours_can_be_left_out() {
    let facts = golden_restore("r-map");
    let golden = text("restore-runs/r-map/describe.txt");
    let plain =
        ["\u{1b}[1m", "\u{1b}[22m", "\u{1b}[31m", "\u{1b}[0m"].iter().fold(golden, |text, code| text.replace(code, ""));
    assert_eq!(restore::describe(&facts, &Style { colours: false, ..style(true) }), plain);
}

fn pod_volume(pod: &str, volume: &str, phase: Option<DataPathPhase>, total: i64, done: i64) -> PodVolumeBackup {
    let mut found = PodVolumeBackup::default();
    found.spec.uploader_type = UploaderType::Kopia;
    found.spec.pod.namespace = "n".into();
    found.spec.pod.name = pod.into();
    found.spec.volume = volume.into();
    found.status.phase = phase;
    found.status.progress.total_bytes = total;
    found.status.progress.bytes_done = done;
    found
}

/// Volumes of every sort.
fn volumes() -> (Vec<VolumeInfo>, Vec<PodVolumeBackup>) {
    let infos = json!([
        {"pvName": "pv-1", "backupMethod": "NativeSnapshot", "result": "succeeded", "nativeSnapshotInfo":
            {"snapshotHandle": "snap-1", "volumeType": "gp3", "volumeAZ": "a", "iops": "100", "Phase": "Completed"}},
        {"pvcNamespace": "n", "pvcName": "local", "backupMethod": "CSISnapshot", "preserveLocalSnapshot": true,
            "result": "succeeded", "csiSnapshotInfo": {"snapshotHandle": "h", "size": 5, "driver": "d", "vscName": "v",
            "operationID": "o", "ReadyToUse": null}},
        {"pvcNamespace": "n", "pvcName": "moved", "backupMethod": "CSISnapshot", "snapshotDataMoved": true,
            "result": "failed", "snapshotDataMovementInfo": {"dataMover": "", "uploaderType": "kopia",
            "snapshotHandle": "", "operationID": "du-1", "size": 7, "incrementalSize": 3, "Phase": "Failed"}},
        {"pvcNamespace": "n", "pvcName": "left", "backupMethod": "CSISnapshot", "skipped": true},
    ]);
    let mut incremental = pod_volume("web", "b", Some(DataPathPhase::Completed), 10, 10);
    incremental.status.incremental_bytes = 4;
    let by_files = vec![
        pod_volume("web", "c", Some(DataPathPhase::Completed), 10, 10),
        incremental,
        pod_volume("db", "a", Some(DataPathPhase::Completed), 0, 0),
        pod_volume("db", "x", Some(DataPathPhase::InProgress), 3, 1),
        pod_volume("db", "y", None, 0, 0),
    ];
    (serde_json::from_value(infos).unwrap(), by_files)
}

fn operation(kind: &str) -> Value {
    json!({"spec": {kind: "example.com/plugin", "operationID": "o-1",
            "resourceIdentifier": {"Group": "apps", "Resource": "deployments", "Namespace": "n", "Name": "x"},
            "postOperationItems": [{"Group": "", "Resource": "pods", "Namespace": "n", "Name": "p"}]},
        "status": {"phase": "Failed", "error": "it broke", "nCompleted": 1, "nTotal": 2, "operationUnits": "Bytes",
            "description": "halfway", "created": "2026-11-21T08:36:30Z", "updated": "2026-11-21T08:36:32Z"}})
}

/// A backup that has every part that the golden ones lack.
fn full_backup() -> BackupFacts {
    let mut facts = BackupFacts::default();
    let backup = &mut facts.backup;
    backup.metadata.name = "b".into();
    backup.metadata.namespace = "velero".into();
    backup.metadata.annotations = [(well_known::ANNOTATION_GLOBAL_VOLUME_POLICY.to_owned(), "all".to_owned())].into();
    let spec = &mut backup.spec;
    spec.included_resources = vec!["pods".into()];
    spec.include_cluster_resources = Some(false);
    spec.or_label_selectors = ["a=b", "c"].map(|text| lifeboat_select::parse_selector(text).unwrap()).into();
    spec.snapshot_volumes = Some(true);
    spec.data_mover = "other".into();
    spec.uploader_config = Some(lifeboat_api::UploaderConfigForBackup {
        parallel_files_upload: 3,
        ..lifeboat_api::UploaderConfigForBackup::default()
    });
    spec.ordered_resources = [("pods".to_owned(), "n/a,n/b".to_owned())].into();
    spec.hooks.resources = vec![BackupResourceHookSpec {
        name: "freeze".into(),
        included_namespaces: vec!["n".into()],
        pre_hooks: vec![BackupResourceHook {
            exec: ExecHook {
                container: "c".into(),
                command: vec!["sync".into(), "-f".into()],
                on_error: Some(HookErrorMode::Fail),
                timeout: Duration::from_secs(30),
                ..ExecHook::default()
            },
            ..BackupResourceHook::default()
        }],
        ..BackupResourceHookSpec::default()
    }];
    let status = &mut backup.status;
    status.phase = Some(BackupPhase::WaitingForPluginOperations);
    status.backup_item_operations_attempted = 2;
    status.backup_item_operations_completed = 1;
    status.backup_item_operations_failed = 1;
    facts.files.operations = FetchedFile::There(vec![serde_json::from_value(operation("backupItemAction")).unwrap()]);
    let (snapshots, by_files) = volumes();
    facts.volumes =
        BackupVolumes { snapshots: FetchedFile::There(snapshots), is_legacy: false, by_files, moved: Vec::new() };
    let mut request = DeleteBackupRequest::default();
    request.metadata.creation_timestamp = Some(Time::new("2026-11-21T08:36:30Z".parse().unwrap()));
    facts.deletions.push(request.clone());
    request.status.phase = Some(DeleteBackupRequestPhase::Processed);
    request.status.errors = vec!["one".into(), "two".into()];
    facts.deletions.push(request);
    facts
}

/// The lines from the one that begins like this up to the next blank one.
fn block(text: &str, start: &str) -> String {
    let at = text.find(&format!("\n{start}")).unwrap_or_else(|| panic!("no {start:?} in\n{text}"));
    let rest = &text[at + 1..];
    rest.split_once("\n\n").map_or(rest, |(block, _)| block).trim_end().to_owned()
}

#[test]
fn parts_that_are_rare_have_veleros_form() {
    let (short, long) =
        (backup::describe(&full_backup(), &style(false)), backup::describe(&full_backup(), &style(true)));
    for (text, start, expected) in [
        (&short, "Phase:", "Phase:  WaitingForPluginOperations"),
        (&short, "Global", "Global volume policies:\n  Type:  configmap\n  Name:  all"),
        (&short, "Uploader", "Uploader config:\n  Parallel files upload:  3"),
        (
            &short,
            "Resources:",
            "Resources:\n  Included:        pods\n  Excluded:        <none>\n  Cluster-scoped:  excluded",
        ),
        (&short, "Or label", "Or label selector:  a=b or c"),
        (
            &short,
            "Velero-Native",
            "Velero-Native Snapshot PVs:  true\nSnapshot Move Data:          auto\nData Mover:                  other",
        ),
        (
            &short,
            "Hooks:",
            "Hooks:\n  Resources:\n    freeze:\n      Namespaces:\n        Included:  n\n        Excluded:  <none>",
        ),
        (
            &short,
            "      Pre Exec",
            "      Pre Exec Hook:\n        Container:  c\n        Command:    sync -f\n        On Error:   Fail\n        Timeout:    30s",
        ),
        (&short, "OrderedResources", "OrderedResources:\n  pods: n/a,n/b"),
        (
            &short,
            "Backup Item",
            "Backup Item Operations:  1 of 2 completed successfully, 1 failed (specify --details for more information)",
        ),
        (
            &long,
            "Backup Item",
            "Backup Item Operations:\n  Operation for deployments.apps n/x:\n    Backup Item Action Plugin:  example.com/plugin\n    \
             Operation ID:               o-1\n    Items to Update:\n                           pods n/p\n    Phase:                 Failed\n    \
             Operation Error:       it broke\n    Progress:              1 of 2 complete (Bytes)\n    \
             Progress description:  halfway\n    Created:               2026-11-21 08:36:30 +0000 UTC\n    \
             Updated:               2026-11-21 08:36:32 +0000 UTC",
        ),
        (&long, "Resource List", "Resource List:  <backup resource list not found>"),
        (
            &short,
            "Backup Volumes",
            "Backup Volumes:\n  Velero-Native Snapshots:\n    pv-1: specify --details for more information",
        ),
        (
            &long,
            "Backup Volumes",
            "Backup Volumes:\n  Velero-Native Snapshots:\n    pv-1:\n      Snapshot ID:        snap-1\n      \
             Type:               gp3\n      Availability Zone:  a\n      IOPS:               100\n      \
             Result:             succeeded",
        ),
        (
            &short,
            "  CSI",
            "  CSI Snapshots:\n    n/local:\n      Snapshot: included, specify --details for more information\n    \
             n/moved:\n      Data Movement: included, specify --details for more information",
        ),
        (
            &long,
            "  CSI",
            "  CSI Snapshots:\n    n/local:\n      Snapshot:\n        Operation ID: o\n        Snapshot Content Name: v\n        \
             Storage Snapshot ID: h\n        Snapshot Size (bytes): 5\n        CSI Driver: d\n        Result: succeeded\n    \
             n/moved:\n      Data Movement:\n        Operation ID: du-1\n        Data Mover: velero\n        \
             Uploader Type: kopia\n        Moved data Size (bytes): 7\n        Incremental data Size (bytes): 3\n        \
             Result: failed",
        ),
        (
            &short,
            "  Pod Volume",
            "  Pod Volume Backups - kopia (specify --details for more information):\n    Completed:    3\n    \
             In Progress:  1\n    New:          1",
        ),
        (
            &long,
            "  Pod Volume",
            "  Pod Volume Backups - kopia:\n    Completed:\n      n/db: a\n      n/web: b (size: 10, incremental size: 4), c (size: 10)\n    \
             In Progress:\n      n/db: x (33.33%)\n    New:\n      n/db: y",
        ),
        (&short, "Deletion", "Deletion Attempts (1 failed):\n  2026-11-21 08:36:30 +0000 UTC: New"),
        (
            &short,
            "  2026-11-21 08:36:30 +0000 UTC: Processed",
            "  2026-11-21 08:36:30 +0000 UTC: Processed\n  Errors:\n    one\n    two",
        ),
    ] {
        assert_eq!(block(text, start), expected);
    }
    let mut queued = BackupFacts::default();
    queued.backup.status.phase = Some(BackupPhase::Queued);
    queued.backup.status.queue_position = 2;
    queued.backup.status.validation_errors = vec!["one".into(), "two".into()];
    queued.warning = Some("WARNING: Error getting cacert from BSL: x".into());
    let text = backup::describe(&queued, &style(false));
    assert_eq!(block(&text, "Phase"), "Phase:           Queued\nQueue position:  2");
    queued.backup.status.phase = Some(BackupPhase::InProgress);
    for (attempt, expected) in
        [(1, "Phase:  InProgress"), (2, "Phase:    InProgress\nAttempt:  2 (a server was cut off in the one before)")]
    {
        queued.backup.status.attempt = attempt;
        assert_eq!(block(&backup::describe(&queued, &style(false)), "Phase"), expected);
    }
    let (red, end) = ("\u{1b}[31m", "\u{1b}[0m");
    assert_eq!(
        block(&text, "Validation"),
        format!("Validation errors:  {red}one{end}\n                    {red}two{end}")
    );
    assert_eq!(block(&text, "WARNING"), "WARNING: Error getting cacert from BSL: x");
}

#[test]
fn what_cannot_be_had_is_said() {
    let mut facts = BackupFacts::default();
    facts.backup.status.warnings = 2;
    facts.backup.status.errors = 1;
    let shown = |facts: &BackupFacts| backup::describe(facts, &style(true));
    assert_eq!(block(&shown(&facts), "Errors"), "Errors:    1\nWarnings:  2");
    facts.files.results = FetchedFile::Ungotten("it is away".into());
    facts.files.resources = FetchedFile::Unreadable("it is no JSON".into());
    facts.volumes.snapshots = FetchedFile::Ungotten("it is away".into());
    let text = shown(&facts);
    for (start, expected) in [
        ("Warnings", "Warnings:  <error getting warnings: it is away>"),
        ("Errors", "Errors:  <error getting errors: it is away>"),
        ("Resource List", "Resource List:  <error reading backup resource list: it is no JSON>"),
        ("Backup Volumes", "Backup Volumes:\n  <error getting backup volume info: it is away>"),
    ] {
        assert_eq!(block(&text, start), expected);
    }
    let mut facts = RestoreFacts::default();
    facts.restore.status.errors = 1;
    facts.files.volumes = FetchedFile::Ungotten("it is away".into());
    let text = restore::describe(&facts, &style(true));
    assert_eq!(block(&text, "Errors"), "Errors:  <error getting errors: file not found>");
    assert_eq!(block(&text, "CSI Snapshot"), "CSI Snapshot Restores:  <error getting restore volume info: it is away>");
    assert_eq!(block(&text, "Resource List"), "Resource List:  <restore resource list not found>");
}

#[test]
fn rare_parts_of_restores_have_veleros_form() {
    let mut facts = RestoreFacts::default();
    facts.restore.status.phase = Some(RestorePhase::InProgress);
    facts.restore.status.progress = Some(lifeboat_api::RestoreProgress {
        total_items: 9,
        items_restored: 4,
        ..lifeboat_api::RestoreProgress::default()
    });
    facts.restore.status.restore_item_operations_attempted = 1;
    facts.restore.metadata.deletion_timestamp = Some(Time::new("2026-11-21T08:36:30Z".parse().unwrap()));
    let spec = &mut facts.restore.spec;
    spec.included_namespaces = vec!["a".into(), "b".into()];
    spec.namespace_mapping = [("a".to_owned(), "x".to_owned()), ("b".to_owned(), "y".to_owned())].into();
    spec.existing_resource_policy = "update".to_owned().into();
    spec.restore_owner_references = true;
    spec.skip_default_resource_modifier = Some(true);
    spec.uploader_config = Some(lifeboat_api::UploaderConfigForRestore {
        write_sparse_files: Some(true),
        parallel_files_download: 2,
        ..lifeboat_api::UploaderConfigForRestore::default()
    });
    facts.files.operations = FetchedFile::There(vec![serde_json::from_value(operation("restoreItemAction")).unwrap()]);
    let infos = json!([
        {"pvcNamespace": "n", "pvcName": "moved", "restoreMethod": "CSISnapshot", "snapshotDataMoved": true,
            "snapshotDataMovementInfo": {"dataMover": "velero", "uploaderType": "kopia", "operationID": "dd-1"}},
        {"pvcNamespace": "n", "pvcName": "local", "restoreMethod": "CSISnapshot",
            "csiSnapshotInfo": {"snapshotHandle": "h", "driver": "d", "vscName": "v"}},
    ]);
    facts.files.volumes = FetchedFile::There(serde_json::from_value(infos).unwrap());
    let mut volume = PodVolumeRestore::default();
    volume.spec.uploader_type = UploaderType::Kopia;
    volume.spec.pod.namespace = "n".into();
    volume.spec.pod.name = "db".into();
    volume.spec.volume = "data".into();
    volume.status.phase = Some(DataPathPhase::Completed);
    volume.status.progress.total_bytes = 8;
    facts.by_files.push(volume);
    facts.files.results = FetchedFile::There(Results { notes: vec!["it stays".into()], ..Results::default() });
    let (short, long) = (restore::describe(&facts, &style(false)), restore::describe(&facts, &style(true)));
    for (text, start, expected) in [
        (&short, "Notes:", "Notes:\n  it stays"),
        (
            &short,
            "Phase",
            "Phase:                                 InProgress (Deleting)\n\
             Estimated total items to be restored:  9\nItems restored so far:                 4",
        ),
        (&short, "Started", "Started:    <n/a>\nCompleted:  <n/a>"),
        (&short, "Namespaces:", "Namespaces:\n  Included:  a, b\n  Excluded:  <none>"),
        (&short, "Namespace mappings", "Namespace mappings:  a=x\n                     b=y"),
        (&short, "kopia", "kopia Restores (specify --details for more information):\n  Completed:  1"),
        (&long, "kopia", "kopia Restores:\n  Completed:\n    n/db: data (size: 8)"),
        (
            &short,
            "CSI",
            "CSI Snapshot Restores:\n  n/local:\n    Snapshot: specify --details for more information\n  n/moved:\n    \
             Data Movement: specify --details for more information",
        ),
        (
            &long,
            "CSI",
            "CSI Snapshot Restores:\n  n/local:\n    Snapshot:\n      Snapshot Content Name: v\n      \
             Storage Snapshot ID: h\n      CSI Driver: d\n  n/moved:\n    Data Movement:\n      Operation ID: dd-1\n      \
             Data Mover: velero\n      Uploader Type: kopia",
        ),
        (&short, "Existing", "Existing Resource Policy:   update\nItemOperationTimeout:       0s"),
        (
            &short,
            "Preserve",
            "Preserve Service NodePorts:      auto\nRestore Owner References:        true\n\
             Skip Default Resource Modifier:  true",
        ),
        (&short, "Uploader", "Uploader config:\n  Write Sparse Files:  true\n  Parallel Restore:    2"),
        (
            &short,
            "Restore Item",
            "Restore Item Operations:  0 of 1 completed successfully, 0 failed (specify --details for more information)",
        ),
    ] {
        assert_eq!(block(text, start), expected);
    }
    assert!(long.contains("    Restore Item Action Plugin:  example.com/plugin\n"), "{long}");
}
