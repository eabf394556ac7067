//! A cluster that serves snapshots, in which the test itself is the driver with its controllers.

use crate::ground::{Ground, NAME, open};
use lifeboat_api::{Backup, BackupPhase, Features};
use lifeboat_backup::{Request, look_after_operations};
use lifeboat_cluster::{Cluster, ListRequest};
use lifeboat_volume::csi::{SNAPSHOT_API, SnapshotTypes};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

pub(crate) const DRIVER: &str = "disk.example.com";
/// Finalizer that the snapshot controller puts on a content that is bound.
pub(crate) const FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";

/// A cluster that serves snapshots, with this many claims that are bound to volumes of a driver.
pub(crate) async fn claims(count: usize) -> Ground {
    let ground = Ground::start(&[], Vec::new()).await;
    for (plural, kind, scope) in [
        ("volumesnapshots", "VolumeSnapshot", "Namespaced"),
        ("volumesnapshotcontents", "VolumeSnapshotContent", "Cluster"),
        ("volumesnapshotclasses", "VolumeSnapshotClass", "Cluster"),
    ] {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        ground
            .put(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.{SNAPSHOT_API}"),
                    "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-csi/external-snapshotter"}},
                "spec": {"group": SNAPSHOT_API, "scope": scope, "names": {"plural": plural, "kind": kind},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}))
            .await;
    }
    ground
        .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
            "metadata": {"name": "class"}, "driver": DRIVER, "deletionPolicy": "Delete"}))
        .await;
    for number in 0..count {
        claim(&ground, "shop", number).await;
    }
    ground
}

/// Makes a claim with a volume.
pub(crate) async fn claim(ground: &Ground, namespace: &str, number: usize) {
    let (claim, volume) = (format!("data-{number}"), format!("pv-{number}"));
    ground
        .put(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"csi": {"driver": DRIVER, "volumeHandle": volume}, "claimRef": {"namespace": namespace, "name": claim}}}))
        .await;
    ground
        .put(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim, "namespace": namespace},
            "spec": {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}))
        .await;
}

pub(crate) async fn types(cluster: &Cluster) -> SnapshotTypes {
    SnapshotTypes::of(&cluster.discover().await.unwrap()).unwrap()
}

/// All VolumeSnapshots.
pub(crate) async fn snapshots(cluster: &Cluster, types: &SnapshotTypes) -> Vec<Value> {
    let request = ListRequest::all(Arc::clone(&types.snapshots));
    let (mut list, mut all) = (cluster.list(request), Vec::new());
    while let Some(bodies) = list.next().await.unwrap() {
        all.extend(bodies.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap()));
    }
    all
}

/// Takes the snapshots that are asked for, until it is dropped.
pub(crate) async fn serve(ground: &Ground) {
    // Not through the proxy, whose requests tests count.
    let cluster = ground.cluster().await;
    let types = types(&cluster).await;
    loop {
        for snapshot in snapshots(&cluster, &types).await {
            if snapshot["status"].is_null() {
                take(ground, snapshot).await;
            }
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Takes one snapshot that is asked for.
pub(crate) async fn take(ground: &Ground, mut snapshot: Value) {
    let uid = snapshot["metadata"]["uid"].as_str().unwrap();
    let content = format!("snapcontent-{uid}");
    ground
        .put(json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": {"name": content}, "spec": {"driver": DRIVER, "deletionPolicy": "Delete"},
            "status": {"snapshotHandle": format!("snap-{uid}"), "restoreSize": 1 << 30, "readyToUse": false}}))
        .await;
    snapshot["apiVersion"] = "snapshot.storage.k8s.io/v1".into();
    snapshot["kind"] = "VolumeSnapshot".into();
    snapshot["status"] =
        json!({"boundVolumeSnapshotContentName": content, "creationTime": "1970-01-01T00:00:00Z", "readyToUse": false});
    ground.put(snapshot).await;
}

/// Lets all snapshots be ready.
pub(crate) async fn all_ready(ground: &Ground) {
    let cluster = ground.env(ground.store()).cluster;
    let types = types(&cluster).await;
    for snapshot in snapshots(&cluster, &types).await {
        let name = snapshot["status"]["boundVolumeSnapshotContentName"].as_str().unwrap();
        let body = cluster.get(&types.contents, None, name).await.unwrap().unwrap();
        let mut content: Value = serde_json::from_slice(&body).unwrap();
        content["status"]["readyToUse"] = true.into();
        ground.put(content).await;
    }
}

pub(crate) fn request() -> Request {
    let mut request = Ground::request();
    request.settings.features = Features { csi: true, ..Features::default() };
    request
}

/// Makes the backup up to where it waits for its snapshots.
pub(crate) async fn waiting(ground: &Ground) -> Backup {
    let outcome = ground.run_backup_beside(&request(), serve(ground)).await;
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::WaitingForPluginOperations), "{:?}", outcome.results);
    outcome.backup
}

pub(crate) async fn look(ground: &Ground, record: Backup) -> Backup {
    look_after_operations(record, false, &ground.env(ground.store())).await.unwrap()
}

/// The objects of a type in the archive.
pub(crate) async fn saved(ground: &Ground, resource: &str) -> Vec<Value> {
    let archive = ground.store().open_archive(NAME, &open()).await.unwrap();
    let rows = archive.rows().enumerate().filter(|(_, row)| row.key().resource.resource == resource);
    let rows = rows.map(|(number, _)| number).collect();
    let mut tasks = JoinSet::new();
    let mut contents = archive.read(rows, &mut tasks);
    let mut found = Vec::new();
    while let Some(item) = contents.next().await.unwrap() {
        found.push(serde_json::from_slice(&item.body).unwrap());
    }
    found
}
