use super::*;

fn read(kind: TransferKind, spec: Value, phase: &str) -> serde_json::Result<Transfer> {
    let object = json!({
        "apiVersion": kind.api_version(), "kind": kind.word(), "metadata": {"name": "t", "namespace": "velero"},
        "spec": spec, "status": {"phase": phase},
    });
    Transfer::parse(kind, object.to_string().as_bytes())
}

fn refused(transfer: &Transfer) -> String {
    match transfer.support() {
        Support::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_read_is_refused_while_it_is_new_and_left_alone_later() {
    let spec = json!({"node": "n1", "pod": {"namespace": "shop", "name": "db-0"}, "volume": "data", "tags": 7});
    let new = read(TransferKind::PodVolumeBackup, spec.clone(), "New").unwrap();
    assert_eq!((new.node.as_str(), new.volume_of_pod().unwrap().1), ("n1", "data"));
    let why = refused(&new);
    let expected = "the node agent cannot read its spec, which may be of a later version: invalid type";
    assert!(why.starts_with(expected), "{why}");
    assert_eq!(new.reason_left_alone(), None);
    let later = read(TransferKind::PodVolumeBackup, spec.clone(), "InProgress").unwrap();
    assert_eq!((later.support(), later.reason_left_alone().is_some()), (Support::Foreign, true));
    // A phase that is not known is that of somebody who works on it.
    assert!(read(TransferKind::PodVolumeBackup, spec, "Thinking").is_err());
    let foreign = json!({"datamover": "kubevirt", "operationTimeout": "soon"});
    let foreign = read(TransferKind::DataUpload, foreign, "New").unwrap();
    assert_eq!((foreign.support(), foreign.reason_left_alone()), (Support::Foreign, None));
    // An uploader that nobody knows is that of somebody else.
    let pod = json!({"namespace": "shop", "name": "db-0"});
    let quantum = json!({"node": "n1", "pod": pod, "volume": "data", "uploaderType": "quantum"});
    for kind in [TransferKind::PodVolumeBackup, TransferKind::PodVolumeRestore] {
        let unknown = read(kind, quantum.clone(), "New").unwrap();
        assert_eq!((unknown.support(), unknown.reason_left_alone().is_some()), (Support::Foreign, true));
    }
}

#[test]
fn what_any_node_may_do_is_read_as_far_as_it_can_be() {
    let spec = json!({
        "operationTimeout": "soon", "sourceNamespace": "shop", "targetVolume": 7,
        "csiSnapshot": {"volumeSnapshot": "vs", "storageClass": "fast"},
    });
    let new = read(TransferKind::DataUpload, spec.clone(), "New").unwrap();
    assert!(matches!(new.support(), Support::Unreadable(_)), "another agent may read it");
    let mut later = read(TransferKind::DataUpload, spec, "InProgress").unwrap();
    let TransferRequest::DataUpload(request) = &later.request else { panic!("{later:?}") };
    let snapshot = request.csi_snapshot.as_ref().unwrap();
    assert_eq!((request.source_namespace.as_str(), snapshot.volume_snapshot.as_str()), ("shop", "vs"));
    // Somebody has to take away what was made for it.
    later.meta.finalizers = vec![TransferKind::DataUpload.finalizer().to_owned()];
    assert!(later.is_foreign() && !later.is_left_behind());
    later.meta.deletion_timestamp = Some(Time::new(Timestamp::UNIX_EPOCH));
    assert!(later.is_left_behind());
}

#[test]
fn what_this_version_does_not_do_is_refused_with_the_reason() {
    let upload = |kind: &str| {
        let spec = json!({"snapshotType": kind, "csiSnapshot": {"volumeSnapshot": "vs"}, "operationTimeout": "10m0s"});
        read(TransferKind::DataUpload, spec, "New").unwrap()
    };
    assert_eq!((upload("CSI").support(), upload("").support()), (Support::Ours, Support::Ours));
    let expected = "its spec.snapshotType is \"Native\": only snapshots of the type CSI can be moved";
    assert_eq!(refused(&upload("Native")), expected);
    let download = |spec: Value| read(TransferKind::DataDownload, spec, "New").unwrap();
    let plain = download(json!({"targetVolume": {"namespace": "shop", "pvc": "data"}, "restoreType": ""}));
    assert_eq!(plain.support(), Support::Ours);
    let into_volume = download(json!({"targetVolume": {"namespace": "shop", "pvc": "data", "pv": "pv-1"}}));
    let in_place = download(json!({"targetVolume": {"namespace": "shop", "pvc": "data"}, "restoreType": "full"}));
    let files = json!({"pod": {"namespace": "shop", "name": "db-0"}, "volume": "data", "restoreType": "incremental"});
    let files = read(TransferKind::PodVolumeRestore, files, "New").unwrap();
    assert_eq!([&into_volume, &in_place, &files].map(refused), [IN_PLACE; 3]);
}

#[test]
fn a_longer_limit_of_the_resource_counts() {
    let upload = |limit: &str| read(TransferKind::DataUpload, json!({"operationTimeout": limit}), "New").unwrap();
    let limits =
        ["10m0s", "1h0m0s"].map(|limit| upload(limit).at_least_operation_timeout(Duration::from_secs(1800)).as_mins());
    assert_eq!(limits, [30, 60]);
}
