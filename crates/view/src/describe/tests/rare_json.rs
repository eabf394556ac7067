use super::*;

#[test]
fn json_has_the_rare_parts_too() {
    let mut facts = full_backup();
    facts.backup.status.warnings = 1;
    let mut warnings = ResultSet::default();
    warnings.namespaces.insert("n".into(), vec!["<careful>".into()]);
    facts.files.results = FetchedFile::There(Results { warnings, ..Results::default() });
    facts.warning = Some("w".into());
    let shown = json::describe(&facts, &style(true)).unwrap();
    let found: Value = serde_json::from_str(&shown).unwrap();
    assert!(
        shown.contains("\n        \"namespace\": {\n            \"n\": [\n                \"<careful>\"\n"),
        "{shown}"
    );
    for (pointer, expected) in [
        ("/phase", json!("WaitingForPluginOperations")),
        ("/globalVolumePolicies", json!({"type": "configmap", "name": "all"})),
        ("/warningsGettingBSLCACert", json!({"warningGettingBSLCACert": "w"})),
        ("/errors", json!({})),
        ("/warnings", json!({"velero": [], "cluster": [], "namespace": {"n": ["<careful>"]}})),
        ("/spec/dataMover", json!("other")),
        (
            "/spec/hooks/resources/freeze/preExecHook",
            json!([{"container": "c", "command": "sync -f", "onError:": "Fail", "timeout": "30s"}]),
        ),
        ("/spec/orderedResources", json!({"pods": "n/a,n/b"})),
        ("/status/started", json!("<n/a>")),
        ("/status/expiration", json!("<nil>")),
        (
            "/status/backupVolumes",
            json!({
                "nativeSnapshots": {"pv-1": {"snapshotID": "snap-1", "type": "gp3", "availabilityZone": "a",
                    "IOPS": "100", "result": "succeeded"}},
                "csiSnapshots": {
                    "n/local": {"snapshot": {"operationID": "o", "snapshotContentName": "v", "storageSnapshotID": "h",
                        "snapshotSize(bytes)": 5, "csiDriver": "d", "result": "succeeded"}},
                    "n/moved": {"dataMovement": {"operationID": "du-1", "dataMover": "velero", "uploaderType": "kopia",
                        "result": "failed", "size": 7, "incrementalSize": 3}},
                },
                "podVolumeBackups": {"uploderType": "kopia", "podVolumeBackupsDetails": {
                    "Completed": [{"n/db": "a"}, {"n/web": "b (size: 10, incremental size: 4), c (size: 10)"}],
                    "In Progress": [{"n/db": "x (33.33%)"}], "New": [{"n/db": "y"}]}},
            }),
        ),
        (
            "/deletionAttempts",
            json!({"failed": 1, "deleteBackupRequests": [
                {"creationTimestamp": "2026-11-21 08:36:30 +0000 UTC", "phase": "New"},
                {"creationTimestamp": "2026-11-21 08:36:30 +0000 UTC", "phase": "Processed", "errors": ["one", "two"]}]}),
        ),
    ] {
        assert_eq!(found.pointer(pointer), Some(&expected), "{pointer}");
    }
    let short: Value = serde_json::from_str(&json::describe(&facts, &style(false)).unwrap()).unwrap();
    assert_eq!(
        short["status"]["backupVolumes"]["podVolumeBackups"]["podVolumeBackupsDetails"],
        json!({"Completed": 3, "In Progress": 1, "New": 1})
    );
    facts.volumes.snapshots = FetchedFile::Ungotten("x".into());
    let without: Value = serde_json::from_str(&json::describe(&facts, &style(false)).unwrap()).unwrap();
    let (wrong, found) = ("<error getting backup volume info: x>", &without["status"]["backupVolumes"]);
    assert_eq!((found["nativeSnapshots"].as_str(), found["csiSnapshots"].as_str()), (Some(wrong), Some(wrong)));
}
