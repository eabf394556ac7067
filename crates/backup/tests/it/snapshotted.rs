//! A cluster whose claims are snapshotted by a driver with its controllers, and the way of a backup through it.

use crate::ground::{Ground, NAME, open};
use crate::snapshotter::{DRIVER, Snapshotter, Storage, definitions};
use lifeboat_api::{Backup, BackupPhase, Duration as Span, Features};
use lifeboat_backup::{Outcome, Request, finalize, look_after_operations, run};
use lifeboat_object::Results;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinSet;

pub(crate) const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";
pub(crate) const CONTENTS: &str = "volumesnapshotcontents.snapshot.storage.k8s.io";
pub(crate) const GROUPS: &str = "volumegroupsnapshots.groupsnapshot.storage.k8s.io";
pub(crate) const GROUP_CONTENTS: &str = "volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io";

const LABEL: &str = "velero.io/volume-group";

/// A cluster with claims of these names and labels, whose volumes are the driver's, and with pods that mount each.
pub(crate) async fn ground(claims: &[(&str, &str)], versions: &[&str]) -> (Ground, Snapshotter) {
    let ground = Ground::start(&["settings"], Vec::new()).await;
    for definition in definitions(versions) {
        ground.put(definition).await;
    }
    ground.put(class("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "single")).await;
    if let Some(version) = versions.first() {
        let version = format!("groupsnapshot.storage.k8s.io/{version}");
        ground.put(class(&version, "VolumeGroupSnapshotClass", "together")).await;
    }
    for (name, group) in claims {
        ground.put(claim(name, group, true)).await;
        ground.put(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")},
            "spec": {"claimRef": {"namespace": "shop", "name": name}, "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{name}")}}})).await;
        ground.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{name}"), "namespace": "shop"},
            "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}],
                "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": name}}]}, "status": {"phase": "Running"}})).await;
    }
    let snapshotter = Snapshotter::start(ground.cluster().await);
    (ground, snapshotter)
}

fn class(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "driver": DRIVER, "deletionPolicy": "Delete"})
}

pub(crate) fn claim(name: &str, group: &str, is_bound: bool) -> Value {
    let labels = if group.is_empty() { json!({}) } else { json!({LABEL: group}) };
    let phase = if is_bound { "Bound" } else { "Pending" };
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": labels},
        "spec": {"volumeName": if is_bound { format!("pv-{name}") } else { String::new() }, "storageClassName": "csi"},
        "status": {"phase": phase}})
}

pub(crate) fn request() -> Request {
    let mut request = Ground::request();
    request.settings.features = Features { csi: true, ..Features::default() };
    request.backup.spec.csi_snapshot_timeout = Span::from_secs(3);
    request
}

pub(crate) async fn made(ground: &Ground, request: &Request) -> Outcome {
    Box::pin(run(request, &ground.env(ground.store()))).await.unwrap()
}

/// Ends a backup whose snapshots are ready.
pub(crate) async fn ended(ground: &Ground) -> Backup {
    let env = ground.env(ground.store());
    let record = env.store.backup(NAME).await.unwrap();
    let looked = Box::pin(look_after_operations(record, false, &env)).await.unwrap();
    Box::pin(finalize(looked, false, &ground.env(ground.store()))).await.unwrap()
}

pub(crate) fn errors(results: &Results) -> Vec<String> {
    results.errors.messages().map(str::to_owned).collect()
}

pub(crate) fn warnings(results: &Results) -> Vec<String> {
    results.warnings.messages().map(str::to_owned).collect()
}

/// Waits until the controllers have done what they do by themselves.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not come to {what}");
}

/// The number of objects of snapshots of each type in the cluster.
pub(crate) async fn objects(ground: &Ground) -> BTreeMap<&'static str, usize> {
    let mut out = BTreeMap::new();
    for resource in [SNAPSHOTS, CONTENTS, GROUPS, GROUP_CONTENTS] {
        let count = ground.list(resource).await.len();
        if count > 0 {
            out.insert(resource, count);
        }
    }
    out
}

/// Waits until neither the cluster nor the storage has anything of snapshots.
pub(crate) async fn until_nothing_is_left(ground: &Ground, snapshotter: &Snapshotter) {
    eventually("no object of snapshots", async || objects(ground).await.is_empty()).await;
    let Storage { snapshots, groups, .. } = snapshotter.storage();
    assert!(snapshots.is_empty() && groups.is_empty(), "{snapshots:?} {groups:?}");
}

/// The objects of a type in the archive.
pub(crate) async fn archived(ground: &Ground, resource: &str) -> Vec<Value> {
    let archive = ground.store().open_archive(NAME, &open()).await.unwrap();
    let rows = archive.rows().enumerate().filter(|(_, row)| row.preferred && row.resource.to_string() == resource);
    let rows: Vec<usize> = rows.map(|(n, _)| n).collect();
    let (mut tasks, mut out) = (JoinSet::new(), Vec::new());
    let mut contents = archive.read(rows, &mut tasks);
    while let Some(item) = contents.next().await.unwrap() {
        out.push(serde_json::from_slice(&item.body).unwrap());
    }
    out
}

/// Deletes all objects of snapshots that are in a namespace, as the deletion of their namespace does, and lets the controllers follow.
pub(crate) async fn namespace_is_deleted(ground: &Ground) {
    let cluster = ground.cluster().await;
    let catalog = cluster.discover().await.unwrap();
    for resource in [GROUPS, SNAPSHOTS] {
        let of = catalog.find(&resource.parse().unwrap()).unwrap();
        for object in ground.list(resource).await {
            let text = |key: &str| object["metadata"][key].as_str().unwrap().to_owned();
            cluster.delete(of, Some(&text("namespace")), &text("name")).await.unwrap();
        }
    }
    eventually("no object in the namespace", async || {
        let objects = objects(ground).await;
        !objects.contains_key(GROUPS) && !objects.contains_key(SNAPSHOTS)
    })
    .await;
}

/// A backup of two claims of a group and of another one that waits for its snapshots.
pub(crate) async fn waiting() -> (Ground, Snapshotter, Backup) {
    let (ground, snapshotter) = ground(&[("a", "db"), ("b", "db"), ("c", "")], &["v1"]).await;
    let outcome = made(&ground, &request()).await;
    assert_eq!(outcome.results, Results::default());
    assert_eq!(outcome.backup.status.phase, Some(BackupPhase::WaitingForPluginOperations));
    (ground, snapshotter, outcome.backup)
}

/// Groups and single snapshots in the storage.
pub(crate) fn stored(snapshotter: &Snapshotter) -> (usize, usize) {
    let storage = snapshotter.storage();
    (storage.groups.len(), storage.snapshots.len())
}
