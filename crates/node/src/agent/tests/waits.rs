//! Transfers that wait for others.

use super::ground::{Ground, NODE};
use crate::agent::Running;
use crate::agent::world::{Change, Mirrored};
use crate::config::NodeAgentConfig;
use crate::resources;
use crate::rules::Step;
use crate::transfer::Transfer;
use crate::transfer::TransferKind::{DataDownload, DataUpload};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::Time;
use lifeboat_reconcile::MirrorEvent;
use serde_json::{Value, json};
use std::mem::discriminant;

const FULL: &str = "0/3 nodes are available: 3 node(s) exceed max volume count.";
const CLASS_IS_FULL: &str = "others of its storage class wait for a node that can attach one more volume";

impl Ground {
    /// Plays the scheduler: the pod of a mover finds no node that can attach its volume.
    async fn cannot_attach(&self, name: &str) {
        self.there(&resources::pods(), "velero", name).await;
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": FULL});
        let status = json!({"phase": "Pending", "conditions": [condition]});
        self.status(&resources::pods(), "velero", name, status).await;
        let told = format!("its pod waits for a node that can attach one more volume: {FULL}");
        self.says(name, &told).await;
    }

    /// Waits until an upload says this.
    async fn says(&self, name: &str, message: &str) {
        let says = |found: Option<&Value>| found.is_some_and(|found| found["status"]["message"] == message);
        self.until(&DataUpload.resource(), Some("velero"), name, says).await;
    }

    /// Makes the snapshot `vs-NAME`, and asks for it to be moved.
    async fn upload_of_its_own(&self, name: &str) {
        let snapshot = format!("vs-{name}");
        let spec = json!({
            "deletionPolicy": "Delete", "driver": "d", "source": {"volumeHandle": "vol"},
            "volumeSnapshotRef": {"namespace": "shop", "name": snapshot},
        });
        let content = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent", "spec": spec,
            "metadata": {"name": format!("content-{name}")}, "status": {"snapshotHandle": format!("snap-{name}")},
        });
        self.create(&resources::snapshot_contents(), content).await;
        let status = json!({
            "boundVolumeSnapshotContentName": format!("content-{name}"), "readyToUse": true, "restoreSize": "8Mi",
        });
        let object = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "status": status,
            "metadata": {"name": snapshot, "namespace": "shop"},
            "spec": {"source": {"persistentVolumeClaimName": "data"}},
        });
        self.create(&resources::snapshots(), object).await;
        let spec = json!({
            "snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default",
            "csiSnapshot": {"volumeSnapshot": snapshot, "storageClass": "fast", "snapshotClass": "", "driver": "d"},
            "operationTimeout": "10m0s",
        });
        let upload = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": name, "namespace": "velero"},
            "spec": spec,
        });
        self.create(&DataUpload.resource(), upload).await;
    }

    /// Another mover, whose agent is that of somebody else, moves something eleven minutes from now.
    async fn others_move(&self) {
        let at = Time::new(Timestamp::now() + SignedDuration::from_mins(11)).to_string();
        self.upload("du-0").await;
        let moves = json!({
            "metadata": {"annotations": {"lifeboat.io/moved-at": at}}, "status": {"phase": "InProgress", "node": "n2"},
        });
        self.patch(&DataUpload.resource(), "velero", "du-0", moves).await;
    }
}

#[tokio::test]
async fn an_upload_that_waits_for_its_class_says_so_and_that_others_move() {
    let mut ground = Ground::start().await;
    ground.snapshot(true).await;
    ground.others_move().await;
    ground.upload("du-1").await;
    // Without any configuration.
    ground.agent();
    ground.cannot_attach("du-1").await;
    ground.upload("du-2").await;
    ground.says("du-2", CLASS_IS_FULL).await;
    let noted = |found: Option<&Value>| {
        found.is_some_and(|found| found["metadata"]["annotations"]["lifeboat.io/others-moved-at"].is_string())
    };
    ground.until(&DataUpload.resource(), Some("velero"), "du-2", noted).await;
}

#[tokio::test]
async fn one_volume_without_a_place_does_not_stop_its_class() {
    let mut ground = Ground::start().await;
    ground.snapshot(true).await;
    ground.upload("du-1").await;
    ground.agent();
    ground.cannot_attach("du-1").await;
    ground.upload_of_its_own("du-2").await;
    ground.says("du-2", CLASS_IS_FULL).await;
    // One more is let in: its zone may have room.
    ground.pass(SignedDuration::from_secs(61), DataUpload, "du-2").await;
    ground.cannot_attach("du-2").await;
    ground.upload_of_its_own("du-3").await;
    ground.says("du-3", CLASS_IS_FULL).await;
    // Both have found a place, and begin.
    for name in ["du-1", "du-2"] {
        let condition = json!({"type": "PodScheduled", "status": "True"});
        let status = json!({"phase": "Pending", "conditions": [condition]});
        ground.status(&resources::pods(), "velero", name, status).await;
    }
    ground.there(&resources::pods(), "velero", "du-3").await;
}

/// Shows an agent an upload that is accepted, and its pod, which has no node for this reason.
fn show_upload(running: &mut Running, name: &str, why: &str) {
    let uid = format!("uid-{name}");
    let spec = json!({
        "snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default",
        "csiSnapshot": {"volumeSnapshot": "vs", "storageClass": "fast", "snapshotClass": "", "driver": "d"},
        "operationTimeout": "10m0s",
    });
    let status = json!({"phase": "Accepted", "acceptedByNode": NODE, "acceptedTimestamp": Time::new(Timestamp::now())});
    let upload = json!({
        "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "spec": spec, "status": status,
        "metadata": {"name": name, "namespace": "velero", "uid": uid, "finalizers": [DataUpload.finalizer()]},
    });
    running.world.put(Transfer::parse(DataUpload, upload.to_string().as_bytes()).unwrap());
    let owner = json!({"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "name": name, "uid": uid});
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": {}, "status": {"phase": "Pending", "conditions": [condition]},
        "metadata": {"name": name, "namespace": "velero", "uid": format!("pod-{name}"), "ownerReferences": [owner]},
    });
    let what = MirrorEvent::Applied(Bytes::from(pod.to_string()));
    running.world.see(Change { of: Mirrored::OwnPods, what });
}

#[tokio::test]
async fn uploads_without_an_attachment_take_no_place_in_the_queue() {
    let busy = "0/3 nodes are available: 3 Insufficient cpu.";
    for (waits, is_accepted) in [([FULL, FULL], true), ([FULL, busy], true), ([busy, busy], false)] {
        let mut ground = Ground::start().await;
        let text = json!({"loadConcurrency": {"prepareQueueLength": 2}}).to_string();
        ground.config = NodeAgentConfig::parse("c", &[("k".to_owned(), text)].into()).unwrap().config;
        let mut running = Running::new(ground.new_agent());
        for (name, why) in ["du-1", "du-2"].into_iter().zip(waits) {
            show_upload(&mut running, name, why);
        }
        let download = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload",
            "metadata": {"name": "dd", "namespace": "velero", "uid": "uid-dd"},
            "spec": {
                "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "backupStorageLocation": "default",
                "snapshotID": "k1", "sourceNamespace": "shop", "operationTimeout": "10m0s",
            },
        });
        running.world.put(Transfer::parse(DataDownload, download.to_string().as_bytes()).unwrap());
        running.pass();
        let accepted = running.steps.iter().filter(|(_, one)| one.step == discriminant(&Step::Accept));
        let names: Vec<&str> = accepted.map(|(key, _)| key.name.as_str()).collect();
        assert_eq!(names, ["dd"].into_iter().filter(|_| is_accepted).collect::<Vec<_>>(), "{waits:?}");
    }
}
