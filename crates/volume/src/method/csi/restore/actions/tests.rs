use super::*;
use lifeboat_cluster::ConnectOptions;

/// A cluster that answers nothing.
async fn nowhere() -> Cluster {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "t",
        "clusters": [{"name": "t", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "t", "user": {}}],
        "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}]});
    std::fs::write(&path, config.to_string()).unwrap();
    let options = ConnectOptions { kubeconfig: Some(path), user_agent: "test".to_owned(), ..ConnectOptions::default() };
    Cluster::connect(&options).await.unwrap()
}

fn restore() -> Restore {
    let mut restore = Restore::default();
    restore.metadata.uid = "u".to_owned();
    restore.spec.namespace_mapping.insert("shop".to_owned(), "copy".to_owned());
    restore
}

async fn run(action: &dyn RestoreItemAction, object: &Value, restore: &Restore) -> Result<RestoreItemOutput, String> {
    let input = RestoreItemInput { item: object.clone(), item_from_backup: object, restore };
    action.execute(input).await.map_err(|e| e.message)
}

/// The action for claims, in a cluster that has none, of a backup with or without the snapshot.
async fn claims(is_served: bool, holds: bool) -> ClaimAction {
    ClaimAction {
        cluster: nowhere().await,
        claims: None,
        storage_classes: None,
        is_served,
        snapshots: SnapshotsOfBackup {
            is_moved: Arc::new(|_| false),
            holds: Arc::new(move |_| holds),
            drivers: BTreeMap::new(),
            failed: BTreeSet::new(),
        },
        provisioners: Mutex::default(),
    }
}

fn claim(annotations: &Value) -> Value {
    json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "data", "annotations": annotations},
        "spec": {"volumeName": "pv", "storageClassName": "csi", "dataSource": {"name": "old"}, "dataSourceRef": {"name": "old"}}})
}

#[tokio::test]
async fn a_claim_asks_for_a_volume_from_its_snapshot_and_for_that_snapshot() {
    let snapshot = json!({"velero.io/volume-snapshot-name": "velero-data-1"});
    let output = run(&claims(true, true).await, &claim(&snapshot), &restore()).await.unwrap();
    let name = restored_name("u", "shop", "velero-data-1");
    let expected = json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "data", "annotations": {
            "velero.io/volume-snapshot-name": "velero-data-1", "restore.velero.io/must-include-additional-items": "true"}},
        "spec": {"storageClassName": "csi",
            "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name}}});
    let key = ObjectKey::new(GroupResource::new(SNAPSHOT_API, "volumesnapshots"), Some("shop"), "velero-data-1");
    assert_eq!(output, RestoreItemOutput { additional_items: vec![key], ..RestoreItemOutput::with(expected) });
}

#[test]
fn a_claim_that_is_being_deleted_is_none_that_keeps_what_it_holds() {
    for (claim, expected) in [
        (json!({"metadata": {"name": "data"}}), true),
        (json!({"metadata": {"name": "data", "deletionTimestamp": null}}), true),
        (json!({"metadata": {"name": "data", "deletionTimestamp": "2026-11-25T00:00:00Z"}}), false),
    ] {
        assert_eq!(stays(claim.to_string().as_bytes()), expected, "{claim}");
    }
}

#[tokio::test]
async fn a_claim_without_a_snapshot_or_with_moved_data_is_left_as_it_is() {
    let moved = json!({"velero.io/volume-snapshot-name": "s", "velero.io/data-upload-name": "d"});
    for annotations in [json!({}), json!({"velero.io/volume-snapshot-name": ""}), json!(5), moved] {
        let object = claim(&annotations);
        let output = run(&claims(true, true).await, &object, &restore()).await.unwrap();
        assert_eq!(output, RestoreItemOutput::with(object), "{annotations}");
    }
}

#[tokio::test]
async fn a_claim_with_a_lost_snapshot_is_refused_unless_no_volumes_are_wanted() {
    let object = claim(&json!({"velero.io/volume-snapshot-name": "s"}));
    let refused = run(&claims(false, true).await, &object, &restore()).await.unwrap_err();
    assert!(refused.contains("the cluster does not serve VolumeSnapshots"), "{refused}");
    let refused = run(&claims(true, false).await, &object, &restore()).await.unwrap_err();
    assert_eq!(refused, "its data is in volumesnapshots.snapshot.storage.k8s.io/shop/s, which is not in the backup");
    let mut without = restore();
    without.spec.restore_pvs = Some(false);
    let output = run(&claims(false, false).await, &object, &without).await.unwrap();
    assert_eq!(output.item["spec"], json!({"storageClassName": "csi"}));
    assert_eq!(output.additional_items, []);
}

#[tokio::test]
async fn a_snapshot_stands_for_what_is_in_the_storage() {
    let labels = json!({"a": "b", "velero.io/backup-uid": "of its backup"});
    let object = json!({"kind": "VolumeSnapshot", "metadata": {"namespace": "shop", "name": "s", "labels": labels},
        "spec": {"source": {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "c"},
        "status": {"boundVolumeSnapshotContentName": "content"}});
    let name = restored_name("u", "shop", "s");
    let output = run(&SnapshotAction, &object, &restore()).await.unwrap();
    let expected = json!({"kind": "VolumeSnapshot",
        "metadata": {"namespace": "shop", "name": name, "labels": {"a": "b"}, "annotations": {
            "velero.io/csi-vsc-deletion-policy": "Retain", "restore.velero.io/must-include-additional-items": "true"}},
        "spec": {"source": {"volumeSnapshotContentName": name}}, "status": {"boundVolumeSnapshotContentName": "content"}});
    let content = ObjectKey::new(GroupResource::new(SNAPSHOT_API, "volumesnapshotcontents"), None, "content");
    assert_eq!(output, RestoreItemOutput { additional_items: vec![content], ..RestoreItemOutput::with(expected) });
    let mut unbound = object.clone();
    unbound["status"] = json!({});
    let refused = format!("the backup does not say which VolumeSnapshotContent shop/s is bound to: {UNTAKEN}");
    assert_eq!(run(&SnapshotAction, &unbound, &restore()).await, Err(refused));
    let mut without = restore();
    without.spec.restore_pvs = Some(false);
    assert_eq!(run(&SnapshotAction, &object, &without).await, Ok(RestoreItemOutput::skip()));
}

#[tokio::test]
async fn a_content_names_its_handle_and_keeps_what_is_in_the_storage() {
    let action = ContentAction { cluster: nowhere().await, types: None, classes: OnceCell::new() };
    let labels = json!({"a": "b", "velero.io/backup-uid": "of its backup"});
    let object = json!({"kind": "VolumeSnapshotContent", "metadata": {"name": "content", "labels": labels, "annotations": {
            "csi.storage.k8s.io/snapshotter-secret-name": "key", "csi.storage.k8s.io/snapshotter-secret-namespace": "vault"}},
        "spec": {"driver": "d", "deletionPolicy": "Delete", "source": {"volumeHandle": "v"}, "sourceVolumeMode": "Block",
            "volumeSnapshotClassName": "gone",
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": "shop", "name": "s", "uid": "1", "resourceVersion": "2"}},
        "status": {"snapshotHandle": "snap-1"}});
    let name = restored_name("u", "shop", "s");
    let output = run(&action, &object, &restore()).await.unwrap();
    assert_eq!(output.item["metadata"]["name"], name.as_str());
    assert_eq!(output.item["metadata"]["labels"], json!({"a": "b"}));
    let spec = json!({"driver": "d", "deletionPolicy": "Retain", "source": {"snapshotHandle": "snap-1"}, "sourceVolumeMode": "Block",
        "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": "copy", "name": name}});
    assert_eq!(output.item["spec"], spec);
    let secret = ObjectKey::new(GroupResource::new("", "secrets"), Some("vault"), "key");
    assert_eq!(output.additional_items, [secret]);
    let mut untaken = object.clone();
    untaken["status"] = json!({});
    let refused = run(&action, &untaken, &restore()).await;
    assert_eq!(refused, Err(format!("content has no snapshot handle in the backup: {UNTAKEN}")));
}

#[tokio::test]
async fn a_class_comes_after_its_secret_unless_no_volumes_are_wanted() {
    let name = ("csi.storage.k8s.io/snapshotter-list-secret-name", "key");
    let namespace = ("csi.storage.k8s.io/snapshotter-list-secret-namespace", "vault");
    let other = ("csi.storage.k8s.io/snapshotter-secret-name", "other");
    let secret = ObjectKey::new(GroupResource::new("", "secrets"), Some("vault"), "key");
    let mut without = restore();
    without.spec.restore_pvs = Some(false);
    for (annotations, expected) in [
        (vec![name, namespace], vec![secret]),
        (vec![name], vec![]),
        (vec![namespace], vec![]),
        (vec![other, namespace], vec![]),
        (vec![], vec![]),
    ] {
        let annotations: Value = annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let object = json!({"kind": "VolumeSnapshotClass", "metadata": {"name": "c", "annotations": annotations}, "driver": "d"});
        let output = run(&ClassAction, &object, &restore()).await.unwrap();
        let expected = RestoreItemOutput { additional_items: expected, ..RestoreItemOutput::with(object.clone()) };
        assert_eq!(output, expected, "{object}");
        assert_eq!(run(&ClassAction, &object, &without).await, Ok(RestoreItemOutput::skip()), "{object}");
    }
}

#[test]
fn snapshots_of_one_name_in_two_namespaces_are_two() {
    assert_ne!(restored_name("u", "a", "s"), restored_name("u", "b", "s"));
    assert_eq!(restored_name("u", "a", "s").len(), 64);
}

#[tokio::test]
async fn a_plan_does_not_know_the_names_that_follow_from_the_uid_of_its_restore() {
    let object = claim(&json!({"velero.io/volume-snapshot-name": "s"}));
    let other = Restore::default();
    let (first, second) = (
        run(&claims(true, true).await, &object, &restore()).await,
        run(&claims(true, true).await, &object, &other).await,
    );
    let (first, second) = (first.unwrap().item, second.unwrap().item);
    assert_ne!(first, second);
    assert_eq!(without_restored_names(&first).unwrap(), without_restored_names(&second).unwrap());
    assert_eq!(without_restored_names(&object), None, "names that users gave stay");
    assert_eq!(without_restored_names(&json!({"kind": "Pod"})), None);
}

#[tokio::test]
async fn a_plan_does_not_depend_on_the_uid_of_a_restore_that_awaits_data() {
    let restores = ["u1", "u2"].map(|uid| {
        let mut restore = restore();
        restore.metadata.uid = uid.to_owned();
        restore
    });
    let moved = |restore: &Restore| {
        let mut claim = claim(&json!({}));
        await_volume(&mut claim, restore, "shop", "data");
        claim
    };
    let pod = |restore: &Restore| json!({"kind": "Pod", "spec": {"initContainers": [{"name": "restore-wait", "args": [restore.metadata.uid]}, {"name": "own", "args": ["x"]}]}});
    for of in [&moved as &dyn Fn(&Restore) -> Value, &pod] {
        let [first, second] = restores.each_ref().map(of);
        assert_ne!(first, second);
        assert_eq!(without_restored_names(&first).unwrap(), without_restored_names(&second).unwrap());
    }
    let own = json!({"kind": "Pod", "spec": {"initContainers": [{"name": "own", "args": ["x"]}]}});
    assert_eq!(without_restored_names(&own), None);
}

#[tokio::test]
async fn a_claim_of_moved_data_awaits_its_volume_if_volumes_are_wanted() {
    let mut action = claims(false, false).await;
    action.snapshots.is_moved = Arc::new(|claim| claim["metadata"]["name"] == "data");
    let from_backup = claim(&json!({"velero.io/data-upload-name": "velero/du"}));
    let input = |restore| RestoreItemInput { item: from_backup.clone(), item_from_backup: &from_backup, restore };
    let wanted = restore();
    let output = action.execute(input(&wanted)).await.unwrap();
    let mut expected = from_backup.clone();
    await_volume(&mut expected, &restore(), "copy", "data");
    assert_eq!(output, RestoreItemOutput::with(expected));
    let mut unwanted = restore();
    unwanted.spec.restore_pvs = Some(false);
    let output = action.execute(input(&unwanted)).await.unwrap();
    assert_eq!(output.item["spec"].get("selector"), None);
}

#[tokio::test]
async fn the_actions_are_those_of_the_lists_of_names_in_their_order() {
    use crate::method::csi::{BACKUP_ACTIONS, CsiBackup, CsiSnapshots, DELETE_ACTIONS, actions, delete_actions};
    let types = ["volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses"];
    let types = types.map(|name| Arc::new(ApiResource::new(SNAPSHOT_API, "v1", name, "Any")));
    let catalog = Catalog::new(types.into(), vec![]);
    let cluster = nowhere().await;
    let of = CsiBackup { backup: lifeboat_api::Backup::default(), types: SnapshotTypes::of(&catalog).unwrap() };
    let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    let operation = lifeboat_operation::Operation::new(clock, "backup=velero/b", std::env::temp_dir());
    let snapshots = CsiSnapshots::new(&cluster, &operation, of);
    let of_backup = actions(&snapshots, &Arc::default());
    assert_eq!(of_backup.iter().map(|action| action.name()).collect::<Vec<_>>(), BACKUP_ACTIONS);
    let known = SnapshotsOfBackup {
        holds: Arc::new(|_| false),
        drivers: BTreeMap::new(),
        failed: BTreeSet::new(),
        is_moved: Arc::new(|_| false),
    };
    let of_restore = restore_actions(&cluster, &catalog, known);
    assert_eq!(of_restore.iter().map(|action| action.name()).collect::<Vec<_>>(), RESTORE_ACTIONS);
    let of_deletion = delete_actions(
        &cluster,
        &catalog,
        crate::method::csi::ArchivedSnapshots::default(),
        &crate::method::csi::Unproven::default(),
    );
    assert_eq!(of_deletion.iter().map(|action| action.name()).collect::<Vec<_>>(), DELETE_ACTIONS);
}

#[tokio::test]
async fn a_group_of_snapshots_is_never_asked_for_again_by_a_restore() {
    for kind in ["VolumeGroupSnapshot", "VolumeGroupSnapshotContent"] {
        let object =
            json!({"kind": kind, "metadata": {"namespace": "shop", "name": "g"}, "spec": {"source": {"selector": {}}}});
        let input = RestoreItemInput { item: object.clone(), item_from_backup: &object, restore: &restore() };
        assert_eq!(GroupAction.execute(input).await.unwrap(), RestoreItemOutput::skip());
    }
    let scope = GroupAction.applies_to().included_resources;
    let expected = ["volumegroupsnapshots", "volumegroupsnapshotcontents"];
    assert_eq!(scope, expected.map(|name| format!("{name}.groupsnapshot.storage.k8s.io")));
}

#[tokio::test]
async fn a_snapshot_that_its_annotations_name_needs_no_content_of_the_backup() {
    let annotations = json!({"velero.io/csi-volumesnapshot-handle": "snap-1", "velero.io/csi-driver-name": "d"});
    let object =
        json!({"kind": "VolumeSnapshot", "metadata": {"namespace": "shop", "name": "s", "annotations": annotations}});
    let input = RestoreItemInput { item: object.clone(), item_from_backup: &object, restore: &restore() };
    let output = SnapshotAction.execute(input).await.unwrap();
    let name = restored_name("u", "shop", "s");
    assert_eq!((output.additional_items.len(), &output.item["metadata"]["name"]), (0, &json!(name)));
    assert_eq!(output.item["spec"], json!({"source": {"volumeSnapshotContentName": name}}));
}
