use super::ground::{EMPTY, Ground, NODE, SAVED};
use crate::config::NodeAgentConfig;
use crate::exposer::copies::{UnfinishedUids, copy, remove_copies};
use crate::exposer::error::ExposeError;
use crate::resources;
use crate::transfer::Transfer;
use crate::transfer::TransferKind::DataUpload;
use jiff::SignedDuration;
use lifeboat_api::NamespacedName;
use serde_json::{Value, json};
use std::sync::Arc;

/// An upload that runs.
async fn running_upload() -> Ground {
    let mut ground = Ground::start().await;
    ground.snapshot(true).await;
    ground.upload("du").await;
    ground.agent();
    ground.provision("du", "Retain").await;
    ground.pod_is("du", "Running", "").await;
    ground.phase(DataUpload, "du", "InProgress").await;
    ground
}

/// Plays provisioner and driver, and waits until nothing is left.
async fn cleaned(ground: &Ground, phase: &str) -> String {
    ground.delete_volume("du").await;
    ground.delete_snapshot("du").await;
    let message = ground.ended(DataUpload, "du", phase).await;
    assert_eq!(ground.snapshot_names().await, [""; 0]);
    message
}

#[tokio::test]
async fn a_snapshot_is_moved_and_nothing_of_it_is_left() {
    let ground = running_upload().await;
    let running = ground.there(&DataUpload.resource(), "velero", "du").await;
    assert_eq!(running["metadata"]["finalizers"], json!(["velero.io/data-upload-download-finalizer"]));
    assert_eq!(ground.snapshot_names().await, ["du", "du"]);
    ground.pod_is("du", "Succeeded", SAVED).await;
    assert_eq!(cleaned(&ground, "Completed").await, "");
    let mut status = ground.there(&DataUpload.resource(), "velero", "du").await["status"].clone();
    for time in ["acceptedTimestamp", "startTimestamp", "completionTimestamp"] {
        assert!(status[time].take().is_string(), "{time}");
    }
    let expected = json!({
        "phase": "Completed", "snapshotID": "k1", "path": "/u", "incrementalBytes": 3, "node": NODE, "nodeOS": "linux",
        "acceptedByNode": NODE, "progress": {"totalBytes": 7, "bytesDone": 7},
        "acceptedTimestamp": null, "startTimestamp": null, "completionTimestamp": null,
    });
    assert_eq!(status, expected);
}

#[tokio::test]
async fn what_an_upload_leaves_in_the_storage_is_in_its_status() {
    let ground = running_upload().await;
    ground.pod_is("du", "Succeeded", SAVED).await;
    ground.phase(DataUpload, "du", "Completed").await;
    // Neither provisioner nor driver does anything.
    ground.pass(SignedDuration::from_mins(10), DataUpload, "du").await;
    let message = ground.ended(DataUpload, "du", "Completed").await;
    for words in [
        "clean-up was given up after --resource-timeout: the volume pv-1, which was made from the snapshot, is being deleted; ",
        "the VolumeSnapshotContent du, and its snapshot, are being deleted; delete what is still there, and its snapshot in the \
         storage",
    ] {
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn an_empty_snapshot_is_completed_and_says_so() {
    let ground = running_upload().await;
    ground.pod_is("du", "Succeeded", EMPTY).await;
    assert_eq!(cleaned(&ground, "Completed").await, "volume was empty so no data was upload");
}

#[tokio::test]
async fn an_upload_that_fails_or_is_canceled_deletes_its_snapshot() {
    let ground = running_upload().await;
    ground.pod_is("du", "Failed", "the bucket is full").await;
    assert_eq!(cleaned(&ground, "Failed").await, "data path backup failed: the bucket is full");
    // And before its pod runs, while its snapshot is not ready.
    let mut ground = Ground::start().await;
    ground.snapshot(false).await;
    ground.upload("du").await;
    ground.agent();
    let waits = |found: Option<&Value>| {
        found.is_some_and(|found| found["status"]["message"] == "the VolumeSnapshot shop/vs is not ready")
    };
    ground.until(&DataUpload.resource(), Some("velero"), "du", waits).await;
    ground.cancel(DataUpload, "du").await;
    assert_eq!(ground.ended(DataUpload, "du", "Canceled").await, "Cancel was asked for; nothing was saved");
    // The snapshot controller would delete the content with its VolumeSnapshot.
    assert_eq!(ground.snapshot_names().await, ["snapcontent-1"]);
}

#[tokio::test]
async fn an_upload_that_is_not_prepared_in_time_says_what_the_cluster_says() {
    let mut ground = Ground::start().await;
    ground.snapshot(true).await;
    ground.upload("du").await;
    ground.agent();
    ground.there(&resources::pods(), "velero", "du").await;
    let claim = ground.there(&resources::claims(), "velero", "du").await;
    let of = json!({
        "kind": "PersistentVolumeClaim", "namespace": "velero", "name": "du", "uid": claim["metadata"]["uid"],
    });
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "velero"}, "involvedObject": of,
        "type": "Warning", "reason": "ProvisioningFailed", "message": "the class cannot read snapshots",
    });
    ground.create(&resources::events(), event).await;
    ground.pass(SignedDuration::from_mins(30), DataUpload, "du").await;
    ground.delete_snapshot("du").await;
    let message = "timeout on preparing data upload: its pod has not been looked at by the scheduler (PersistentVolumeClaim velero/du: ProvisioningFailed: the class cannot read snapshots)";
    assert_eq!(ground.ended(DataUpload, "du", "Failed").await, message);
    assert_eq!(ground.snapshot_names().await, [""; 0]);
}

#[tokio::test]
async fn a_restart_of_the_agent_in_any_phase_of_an_upload_loses_nothing() {
    let mut ground = Ground::start().await;
    ground.snapshot(true).await;
    ground.upload("du").await;
    ground.agent();
    ground.there(&resources::claims(), "velero", "du").await;
    ground.kill().await;
    ground.agent();
    ground.provision("du", "Delete").await;
    ground.pod_is("du", "Running", "").await;
    ground.phase(DataUpload, "du", "InProgress").await;
    ground.kill().await;
    ground.pod_is("du", "Succeeded", SAVED).await;
    ground.agent();
    ground.gone(&resources::claims(), "du").await;
    ground.kill().await;
    ground.agent();
    assert_eq!(cleaned(&ground, "Completed").await, "");
}

#[tokio::test]
async fn the_settings_of_backup_claims_take_effect() {
    let mut ground = Ground::start().await;
    let settings = json!({
        "storageClass": "cheap", "readOnly": true, "spcNoRelabeling": true, "annotations": {"a": "b"},
        "secretNames": ["key"], "configMapNames": ["settings"],
    });
    let text = json!({"backupPVC": {"fast": settings}}).to_string();
    ground.config = NodeAgentConfig::parse("c", &[("k".to_owned(), text)].into()).unwrap().config;
    for (resource, kind, name) in
        [(resources::secrets(), "Secret", "key"), (resources::config_maps(), "ConfigMap", "settings")]
    {
        let data = json!({"d": "MQ=="});
        let metadata = json!({"name": name, "namespace": "shop"});
        ground.create(&resource, json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data})).await;
    }
    ground.snapshot(true).await;
    ground.upload("du").await;
    ground.agent();
    let pod = ground.there(&resources::pods(), "velero", "du").await;
    assert_eq!(pod["spec"]["securityContext"]["seLinuxOptions"], json!({"type": "spc_t"}));
    let claim = ground.there(&resources::claims(), "velero", "du").await;
    let spec = json!({
        "accessModes": ["ReadOnlyMany"], "storageClassName": "cheap", "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "8Mi"}},
        "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "du"},
    });
    assert_eq!((&claim["spec"], &claim["metadata"]["annotations"]), (&spec, &json!({"a": "b"})));
    let copies = [(resources::secrets(), "key"), (resources::config_maps(), "settings")];
    for (resource, name) in &copies {
        ground.there(resource, "velero", name).await;
    }
    ground.cancel(DataUpload, "du").await;
    ground.delete_snapshot("du").await;
    ground.ended(DataUpload, "du", "Canceled").await;
    for (resource, name) in &copies {
        ground.gone(resource, name).await;
    }
}

#[tokio::test]
async fn uploads_of_one_class_share_its_secret_until_the_last_has_ended() {
    let ground = Ground::start().await;
    let secrets = resources::secrets();
    let metadata = json!({"name": "key", "namespace": "shop"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"d": "MQ=="}});
    ground.create(&secrets, secret).await;
    let mut uploads = Vec::new();
    for name in ["du-1", "du-2"] {
        ground.upload(name).await;
        let made = ground.there(&DataUpload.resource(), "velero", name).await;
        uploads.push(Transfer::parse(DataUpload, made.to_string().as_bytes()).unwrap());
    }
    let ([first, second], none) = ([&uploads[0], &uploads[1]], UnfinishedUids::default());
    for upload in [first, second, first] {
        copy(&ground.kube, &secrets, &NamespacedName::new("shop", "key"), upload, &none).await.unwrap();
    }
    assert!(remove_copies(&ground.kube, first, &none).await.unwrap());
    let copied = ground.there(&secrets, "velero", "key").await;
    assert_eq!(copied["metadata"]["labels"]["velero.io/backup-pvc-secret"], second.meta.uid);
    // Other data of a live transfer is waited for.
    ground.patch(&secrets, "shop", "key", json!({"data": {"d": "Mg=="}})).await;
    let waits = copy(&ground.kube, &secrets, &NamespacedName::new("shop", "key"), first, &none).await;
    let reason = "it waits for the end of DataUpload/du-2, for which the Secret velero/key was copied with other data";
    assert!(matches!(&waits, Err(ExposeError::Waits(why)) if why == reason), "{waits:?}");
    // One that has gone without a word is not.
    ground.delete(&DataUpload.resource(), "velero", "du-2").await;
    let soon = copy(&ground.kube, &secrets, &NamespacedName::new("shop", "key"), first, &none).await;
    assert!(matches!(&soon, Err(ExposeError::Soon(_))), "{soon:?}");
    copy(&ground.kube, &secrets, &NamespacedName::new("shop", "key"), first, &none).await.unwrap();
    assert_eq!(ground.there(&secrets, "velero", "key").await["data"], json!({"d": "Mg=="}));
    assert!(remove_copies(&ground.kube, first, &none).await.unwrap());
    ground.gone(&secrets, "key").await;
}

#[tokio::test]
async fn a_copy_of_an_agent_of_velero_is_waited_for_while_its_user_goes_on() {
    let ground = Ground::start().await;
    let secrets = resources::secrets();
    let secret = |namespace: &str, data: &str, labels: Value| {
        let metadata = json!({"name": "key", "namespace": namespace, "labels": labels});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"d": data}})
    };
    ground.create(&secrets, secret("shop", "MQ==", json!({}))).await;
    let copied = json!({"velero.io/backup-pvc-secret": "uid-of-velero"});
    ground.create(&secrets, secret("velero", "Mg==", copied)).await;
    ground.upload("du").await;
    let made = ground.there(&DataUpload.resource(), "velero", "du").await;
    let upload = Transfer::parse(DataUpload, made.to_string().as_bytes()).unwrap();
    // Its UID is all that names it: one that was seen goes on.
    let seen: UnfinishedUids = Arc::new(["uid-of-velero".to_owned()].into());
    let waits = copy(&ground.kube, &secrets, &NamespacedName::new("shop", "key"), &upload, &seen).await;
    let reason = "it waits for the end of the transfer of a node agent of Velero with the UID uid-of-velero, for which the Secret \
                  velero/key was copied with other data";
    assert!(matches!(&waits, Err(ExposeError::Waits(why)) if why == reason), "{waits:?}");
    let none = UnfinishedUids::default();
    let soon = copy(&ground.kube, &secrets, &NamespacedName::new("shop", "key"), &upload, &none).await;
    assert!(matches!(&soon, Err(ExposeError::Soon(_))), "{soon:?}");
}
