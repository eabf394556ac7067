//! Transfers that wait for others.

use super::ground::Ground;
use crate::resources;
use crate::transfer::TransferKind::DataUpload;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::Time;
use serde_json::{Value, json};

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
