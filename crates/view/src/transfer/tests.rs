use super::rates::TransferRates;
use super::*;
use lifeboat_api::{DataDownload, DataUpload, PodVolumeBackup, PodVolumeRestore, Resource};
use serde_json::json;

const GIB: i64 = 1 << 30;

fn at(second: i64) -> Timestamp {
    let start: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(second)
}

/// An upload that has begun at second 0, with so many GiB of ten at a second.
fn upload(done: i64, second: i64) -> VolumeTransfer {
    let object = json!({
        "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
        "metadata": {"name": "nightly-x", "namespace": "velero", "uid": "u1", "labels": {"velero.io/backup-name": "nightly"},
            "annotations": {"lifeboat.io/moved-at": at(second).to_string(), "lifeboat.io/moved-files": "1204/5000"}},
        "spec": {"snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default",
            "operationTimeout": "10m0s"},
        "status": {"phase": "InProgress", "startTimestamp": at(0).to_string(),
            "progress": {"bytesDone": done * GIB, "totalBytes": 10 * GIB}},
    });
    VolumeTransfer::parse::<DataUpload>(object.to_string().as_bytes()).unwrap()
}

#[test]
fn a_volume_that_moves_tells_bytes_files_rate_and_the_time_left() {
    let transfer = upload(4, 100);
    let line = "shop/data InProgress: 4.0 GiB of 10.0 GiB (40 %), 1204 of 5000 files, 40.9 MiB/s, 2 min 30 s left";
    assert_eq!(transfer.line(), line);
    let cells = [
        "shop/data",
        "backup nightly",
        "InProgress",
        "4.0 GiB of 10.0 GiB (40 %)",
        "1204/5000",
        "40.9 MiB/s",
        "2 min 30 s",
    ];
    assert_eq!(transfer.cells(), cells);
    let expected = json!({
        "kind": "DataUpload", "name": "nightly-x", "volume": "shop/data", "owner": {"kind": "Backup", "name": "nightly"}, "phase": "InProgress",
        "message": "", "bytesDone": 4 * GIB, "totalBytes": 10 * GIB, "filesDone": 1204, "totalFiles": 5000,
        "bytesPerSecond": 42_949_673, "secondsLeft": 150, "idleSeconds": null,
    });
    assert_eq!(transfer.value(), expected);
    // The total of a first backup is not known, and one by Velero's node agent tells bytes alone.
    let mut first = VolumeTransfer { files: Some(MovedFiles { done: 7, total: 7 }), ..transfer.clone() };
    first.bytes.total_bytes = 4 * GIB;
    assert_eq!(first.line(), "shop/data InProgress: 4.0 GiB, 7 files, 40.9 MiB/s");
    let velero = VolumeTransfer { files: None, moved_at: None, rate: None, ..transfer.clone() };
    assert_eq!(velero.line(), "shop/data InProgress: 4.0 GiB of 10.0 GiB (40 %)");
    let message = "as many run on this node as loadConcurrency allows".to_owned();
    let waits = VolumeTransfer { phase: DataPathPhase::Prepared, message, ..transfer };
    assert_eq!(waits.line(), "shop/data Prepared: as many run on this node as loadConcurrency allows");
}

#[test]
fn a_rate_is_that_of_the_last_minute_and_a_stop_is_told() {
    let mut rates = TransferRates::default();
    // The clock of the reader is an hour ahead of that of the cluster.
    let mut see = |done: i64, second: i64, now: i64| {
        let mut seen = [upload(done, second)];
        rates.note(&mut seen, at(3600 + now));
        let [seen] = seen;
        (seen.rate.map(|rate| (rate / GIB as f64 * 1000.0).round() as i64), seen.idle.map(|idle| idle.as_secs()))
    };
    // Before there are two looks it is the average since the begin.
    assert_eq!(see(1, 10, 10), (Some(100), None));
    assert_eq!(see(2, 20, 20), (Some(100), None));
    assert_eq!(see(3, 90, 90), (Some(14), None));
    // The first looks are too old.
    assert_eq!(see(9, 110, 110), (Some(300), None));
    assert_eq!(see(9, 110, 169), (Some(300), None));
    assert_eq!(see(9, 110, 170), (None, Some(60)));
    // Another attempt begins anew.
    assert_eq!(see(1, 200, 200), (Some(5), None));
    assert_eq!(see(3, 210, 210), (Some(200), None));
}

#[test]
fn the_lines_of_volumes_have_those_that_move_first_and_end_with_all() {
    let of = |volume: &str, phase| VolumeTransfer { volume: volume.to_owned(), phase, ..upload(1, 10) };
    let mut all = vec![
        of("a", DataPathPhase::New),
        of("b", DataPathPhase::Completed),
        of("d", DataPathPhase::Prepared),
        of("c", DataPathPhase::InProgress),
    ];
    sort_transfers(&mut all);
    let moving = "  c InProgress: 1.0 GiB of 10.0 GiB (10 %), 1204 of 5000 files, 102.3 MiB/s, 1 min 30 s left";
    let expected = ["volumes: 1 being moved, 2 waiting, 1 ended", moving, "  d Prepared", "  and 1 more"];
    assert_eq!(lines_of(&all, 2), expected);
    assert_eq!(lines_of(&[of("b", DataPathPhase::Completed)], 2), Vec::<String>::new());
}

#[test]
fn the_volume_and_the_owner_of_each_kind_are_named() {
    fn of<T>(spec: Value, annotations: Value) -> (String, Option<TransferOwner>)
    where
        T: Resource,
        for<'a> VolumeTransfer: From<&'a T>,
    {
        let owner = json!([{"apiVersion": "velero.io/v1", "kind": "Restore", "name": "r", "uid": "x"}]);
        let meta = json!({"name": "n", "annotations": annotations, "ownerReferences": owner});
        let body = json!({"apiVersion": T::api_version(), "kind": T::KIND, "metadata": meta, "spec": spec}).to_string();
        let VolumeTransfer { volume, owner, message, .. } = VolumeTransfer::parse::<T>(body.as_bytes()).unwrap();
        assert_eq!(message, "");
        (volume, owner)
    }
    let files = json!({"pod": {"namespace": "shop", "name": "db-0"}, "volume": "data", "backupStorageLocation": "default",
        "node": "n1", "repoIdentifier": "", "snapshotID": "k1", "sourceNamespace": "shop"});
    let target = json!({"targetVolume": {"namespace": "shop", "pvc": "data", "pv": ""}, "backupStorageLocation": "default",
        "snapshotID": "k1", "sourceNamespace": "shop", "operationTimeout": "1m0s"});
    let reader = json!({"lifeboat.io/by-reader-pod": "true", "velero.io/pvc-name": "idle"});
    let all = [
        of::<PodVolumeBackup>(files.clone(), json!({})),
        of::<PodVolumeBackup>(files.clone(), reader),
        of::<PodVolumeRestore>(files, json!({})),
        of::<DataDownload>(target, json!({})),
    ];
    let of_restore = |volume: &str| (volume.to_owned(), Some(TransferOwner { kind: "Restore", name: "r".to_owned() }));
    assert_eq!(all, ["shop/db-0:data", "shop/idle", "shop/db-0:data", "shop/data"].map(of_restore));
}

#[test]
fn a_resource_of_a_later_version_is_shown_by_its_name() {
    let body = json!({"metadata": {"name": "n", "uid": "u"}, "spec": {}, "status": {"phase": "Thinking"}}).to_string();
    let read = VolumeTransfer::parse::<DataUpload>(body.as_bytes()).unwrap();
    assert_eq!((read.volume.as_str(), read.phase, read.has_ended()), ("DataUpload n", DataPathPhase::New, false));
    assert!(read.message.starts_with("it cannot be read: "), "{}", read.message);
    assert!(VolumeTransfer::parse::<DataUpload>(b"{").is_err());
}

#[test]
fn a_description_has_files_rate_and_the_time_left_of_each_volume() {
    use crate::describe::backup::{BackupFacts, describe};
    use crate::describe::page::Style;
    use crate::describe::volumes::BackupVolumes;
    let object = |phase: &str, done: i64| {
        json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": "f", "annotations":
                {"lifeboat.io/moved-at": at(100).to_string(), "lifeboat.io/moved-files": "1204/5000"}},
            "spec": {"pod": {"namespace": "shop", "name": "db-0"}, "volume": phase, "node": "n1",
                "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia"},
            "status": {"phase": phase, "startTimestamp": at(0).to_string(),
                "progress": {"bytesDone": done, "totalBytes": 10 * GIB}},
        })
        .to_string()
    };
    let by_files = [("InProgress", 4 * GIB), ("Completed", 10 * GIB)].map(|(phase, done)| object(phase, done));
    let by_files = by_files.iter().map(|body| PodVolumeBackup::from_json(body.as_bytes()).unwrap()).collect();
    let moved = vec![upload(4, 100), VolumeTransfer { phase: DataPathPhase::Completed, ..upload(10, 100) }];
    let volumes = BackupVolumes { by_files, moved, ..BackupVolumes::default() };
    let facts = BackupFacts { volumes, ..BackupFacts::default() };
    let page = |details| {
        let style = Style { colours: false, zone: jiff::tz::TimeZone::UTC, program: "lifeboat".into(), details };
        describe(&facts, &style)
    };
    let long = page(true);
    for line in [
        "shop/db-0: InProgress (40.00%) [1204 of 5000 files, 40.9 MiB/s, 2 min 30 s left]",
        "shop/db-0: Completed (size: 10737418240) [1204 of 5000 files]",
        "Data Uploads:",
        "shop/data (4.0 GiB of 10.0 GiB (40 %), 1204 of 5000 files, 40.9 MiB/s, 2 min 30 s left)",
        "shop/data (size: 10737418240, 1204 of 5000 files)",
    ] {
        assert!(long.lines().any(|found| found.trim() == line), "no {line:?} in\n{long}");
    }
    let short = page(false);
    let counts = "Data Uploads (specify --details for more information):";
    assert!(short.lines().any(|found| found.trim() == counts), "{short}");
    // Velero's texts are as Velero's in JSON, and the rest has keys of its own.
    let shown = crate::describe::json::backup_volumes(&facts.volumes, true);
    let files = &shown["podVolumeBackups"];
    assert_eq!(files["podVolumeBackupsDetails"]["In Progress"], json!([{"shop/db-0": "InProgress (40.00%)"}]));
    let told: Vec<&Value> = files["transfers"].as_array().unwrap().iter().map(|one| &one["filesDone"]).collect();
    assert_eq!(told, [1204, 1204]);
    assert_eq!(shown["dataUploads"]["In Progress"][0]["bytesPerSecond"], 42_949_673);
    // What has ended is in the volumes of the backup.
    let ended = facts.volumes.moved.iter().filter(|transfer| transfer.has_ended()).cloned().collect();
    let facts = BackupFacts { volumes: BackupVolumes { moved: ended, ..facts.volumes }, ..BackupFacts::default() };
    let style = Style { colours: false, zone: jiff::tz::TimeZone::UTC, program: "lifeboat".into(), details: false };
    assert!(!describe(&facts, &style).contains("Data Uploads"));
}
