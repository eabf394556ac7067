//! Transfers whose spec this version cannot read.

use super::ground::{Ground, NODE};
use crate::resources;
use crate::transfer::TransferKind::{DataUpload, PodVolumeRestore};
use jiff::SignedDuration;
use serde_json::{Value, json};

const REASON: &str = "the node agent cannot read its spec, which may be of a later version: ";

impl Ground {
    /// Asks for a snapshot to be moved in the words of another version.
    async fn unreadable_upload(&self, name: &str) {
        let spec = json!({
            "snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "default",
            "csiSnapshot": {"volumeSnapshot": "vs", "storageClass": "fast", "snapshotClass": ""},
            "operationTimeout": "a while",
        });
        let object = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": name, "namespace": "velero"},
            "spec": spec,
        });
        self.create(&DataUpload.resource(), object).await;
    }
}

#[tokio::test]
async fn an_upload_that_another_agent_may_read_waits_for_it() {
    let mut ground = Ground::start().await;
    ground.unreadable_upload("du").await;
    ground.agent();
    let says = |found: Option<&Value>| {
        let status = found.map(|found| &found["status"]);
        status.is_some_and(|status| {
            let message = status["message"].as_str().unwrap_or_default();
            message.starts_with(REASON) && status["phase"].as_str().unwrap_or_default().is_empty()
        })
    };
    ground.until(&DataUpload.resource(), Some("velero"), "du", says).await;
    // None has come while it could have been prepared.
    ground.pass(SignedDuration::from_mins(30), DataUpload, "du").await;
    let message = ground.ended(DataUpload, "du", "Failed").await;
    assert!(message.starts_with(REASON), "{message}");
}

#[tokio::test]
async fn an_unreadable_upload_takes_no_slot_and_goes_when_it_is_deleted() {
    let mut ground = Ground::start().await;
    ground.unreadable_upload("du").await;
    let begun = json!({
        "metadata": {"finalizers": [DataUpload.finalizer()]},
        "status": {"phase": "InProgress", "node": NODE, "acceptedByNode": NODE},
    });
    ground.patch(&DataUpload.resource(), "velero", "du", begun).await;
    let made = ground.there(&DataUpload.resource(), "velero", "du").await;
    let owner = json!({
        "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "name": "du", "uid": made["metadata"]["uid"],
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "du", "namespace": "velero", "ownerReferences": [owner]}, "spec": {},
    });
    ground.create(&resources::claims(), claim).await;
    let uid = ground.target_pod("db-0").await;
    ground.restore("pvr", ("db-0", &uid)).await;
    ground.agent();
    ground.pod_is("pvr", "Running", "").await;
    ground.phase(PodVolumeRestore, "pvr", "InProgress").await;
    ground.there(&DataUpload.resource(), "velero", "du").await;
    ground.delete(&DataUpload.resource(), "velero", "du").await;
    ground.gone(&DataUpload.resource(), "du").await;
    ground.gone(&resources::claims(), "du").await;
}
