use super::ground::{Ground, NODE, RESULT};
use crate::kube::ObjectName;
use crate::resources;
use crate::transfer::TransferKind::{DataDownload, PodVolumeRestore};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// A download whose bytes are written, and whose volume waits to be detached.
async fn written_download() -> Ground {
    let mut ground = Ground::start().await;
    ground.target_claim(json!({})).await;
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {"attacher": "d", "nodeName": NODE, "source": {"persistentVolumeName": "pv-1"}},
    });
    ground.create(&resources::attachments(), attachment).await;
    ground.download("dd").await;
    ground.agent();
    ground.provision("dd", "Delete").await;
    ground.pod_is("dd", "Running", "").await;
    ground.phase(DataDownload, "dd", "InProgress").await;
    ground.pod_is("dd", "Succeeded", RESULT).await;
    ground.gone(&resources::pods(), "dd").await;
    ground
}

async fn volume(ground: &Ground) -> Value {
    let volumes = resources::volumes();
    ground.kube.get(ObjectName { resource: &volumes, namespace: None, name: "pv-1" }).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_delivery_outlives_an_agent_that_was_away_for_long() {
    let mut ground = written_download().await;
    ground.kill().await;
    // Longer than anything may wait.
    ground.pass(SignedDuration::from_hours(2), DataDownload, "dd").await;
    ground.agent();
    // The agent has looked at it when it takes up another one.
    let uid = ground.target_pod("db-0").await;
    ground.restore("pvr", ("db-0", &uid)).await;
    ground.there(&resources::pods(), "velero", "pvr").await;
    ground.kube.0.delete(&resources::attachments(), None, "a").await.unwrap();
    ground.bind_target().await;
    assert_eq!(ground.ended(DataDownload, "dd", "Completed").await, "");
}

#[tokio::test]
async fn an_agent_of_another_node_goes_on_with_a_delivery() {
    let mut ground = written_download().await;
    ground.kill().await;
    let moved = json!({"status": {"node": "n2", "acceptedByNode": "n2"}});
    ground.patch(&DataDownload.resource(), "velero", "dd", moved).await;
    ground.kube.0.delete(&resources::attachments(), None, "a").await.unwrap();
    ground.agent();
    let uid = ground.target_pod("db-0").await;
    ground.restore("pvr", ("db-0", &uid)).await;
    ground.there(&resources::pods(), "velero", "pvr").await;
    ground.pass(SignedDuration::from_mins(5), DataDownload, "dd").await;
    ground.bind_target().await;
    assert_eq!(ground.ended(DataDownload, "dd", "Completed").await, "");
    ground.cancel(PodVolumeRestore, "pvr").await;
}

#[tokio::test]
async fn a_volume_whose_delivery_is_given_up_is_kept_and_named() {
    let ground = written_download().await;
    ground.delete(&resources::claims(), "shop", "data").await;
    let message = "error rebinding the restored volume pv-1: the target claim shop/data is gone; the PersistentVolume pv-1 has the restored data and is kept (reclaim policy Retain): remove its spec.claimRef and name it in spec.volumeName of a claim, or delete it and the volume in the storage";
    assert_eq!(ground.ended(DataDownload, "dd", "Failed").await, message);
    assert_eq!(volume(&ground).await["spec"]["persistentVolumeReclaimPolicy"], "Retain");
}

#[tokio::test]
async fn a_claim_of_the_same_name_made_anew_does_not_get_the_data() {
    let ground = written_download().await;
    ground.delete(&resources::claims(), "shop", "data").await;
    ground.target_claim(json!({})).await;
    let message = ground.ended(DataDownload, "dd", "Failed").await;
    // The agent may look between the two.
    let gone = "error rebinding the restored volume pv-1: the target claim shop/data ";
    assert!(message.starts_with(gone), "{message}");
    let target = ground.there(&resources::claims(), "shop", "data").await;
    assert_eq!(target["spec"].get("volumeName"), None);
    assert_eq!(volume(&ground).await["spec"]["persistentVolumeReclaimPolicy"], "Retain");
}

#[tokio::test]
async fn a_volume_of_an_administrator_is_never_set_to_delete() {
    let mut ground = Ground::start().await;
    ground.target_claim(json!({})).await;
    ground.download("dd").await;
    ground.agent();
    ground.provision("dd", "Retain").await;
    let by_hand = json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": null}}});
    let volumes = resources::volumes();
    ground.kube.patch(ObjectName { resource: &volumes, namespace: None, name: "pv-1" }, &by_hand).await.unwrap();
    ground.pod_is("dd", "Running", "").await;
    ground.phase(DataDownload, "dd", "InProgress").await;
    ground.pod_is("dd", "Failed", "no space").await;
    assert_eq!(ground.ended(DataDownload, "dd", "Failed").await, "data path restore failed: no space");
    assert_eq!(volume(&ground).await["spec"]["persistentVolumeReclaimPolicy"], "Retain");
}

/// Fills the volume of a claim with a file system as a device, and gives the name of the volume that is made of it. The
/// class has these parameters, and the mover ends with this result.
async fn fill_device(ground: &mut Ground, parameters: Value, result: &str) -> String {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "d",
        "volumeBindingMode": "Immediate", "parameters": parameters,
    });
    ground.create(&resources::storage_classes(), class).await;
    ground.target_claim(json!({"storageClassName": "fast"})).await;
    let download = json!({
        "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload", "metadata": {"name": "dd", "namespace": "velero"},
        "spec": {
            "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "datamover": "velero-block",
            "backupStorageLocation": "default", "snapshotID": "k1", "sourceNamespace": "shop",
            "operationTimeout": "10m0s",
        },
    });
    ground.create(&DataDownload.resource(), download).await;
    ground.agent();
    ground.provision("dd", "Delete").await;
    let claim = ground.there(&resources::claims(), "velero", "dd").await;
    assert_eq!(claim["spec"]["volumeMode"], "Block");
    let volumes = resources::volumes();
    let device = json!({"spec": {"volumeMode": "Block", "csi": {"driver": "d", "volumeHandle": "vol-1"}}});
    ground.kube.patch(ObjectName { resource: &volumes, namespace: None, name: "pv-1" }, &device).await.unwrap();
    ground.pod_is("dd", "Running", "").await;
    let running = ground.phase(DataDownload, "dd", "InProgress").await;
    ground.pod_is("dd", "Succeeded", result).await;
    format!("pvc-{}", running["metadata"]["uid"].as_str().unwrap())
}

#[tokio::test]
async fn a_volume_filled_as_a_device_is_delivered_with_its_file_system() {
    let mut ground = Ground::start().await;
    let name = fill_device(&mut ground, json!({"csi.storage.k8s.io/fstype": "xfs"}), RESULT).await;
    let volumes = resources::volumes();
    let made = ground.until(&volumes, None, &name, |found| found.is_some()).await.unwrap();
    assert_eq!(made["spec"]["volumeMode"], "Filesystem");
    assert_eq!(made["spec"]["csi"], json!({"driver": "d", "volumeHandle": "vol-1", "fsType": "xfs"}));
    ground.until(&volumes, None, "pv-1", |found| found.is_none()).await;
    let is_asked_for = |claim: Option<&Value>| claim.is_some_and(|claim| claim["spec"]["volumeName"] == *name);
    ground.until(&resources::claims(), Some("shop"), "data", is_asked_for).await;
    ground.status(&resources::claims(), "shop", "data", json!({"phase": "Bound"})).await;
    assert_eq!(ground.ended(DataDownload, "dd", "Completed").await, "");
    let left = ground.kube.get(ObjectName { resource: &volumes, namespace: None, name: &name }).await.unwrap().unwrap();
    assert_eq!(left["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    let target = ground.there(&resources::claims(), "shop", "data").await;
    assert_eq!(left["spec"]["claimRef"]["uid"], target["metadata"]["uid"]);
}

#[tokio::test]
async fn a_device_is_mounted_as_what_it_has_and_not_as_its_class_says() {
    let mut ground = Ground::start().await;
    let result = r#"{"target":{"byPath":"/u","volumeMode":"Block"},"totalBytes":7,"fsType":"xfs"}"#;
    let name = fill_device(&mut ground, json!({"fstype": "ext4"}), result).await;
    let made = ground.until(&resources::volumes(), None, &name, |found| found.is_some()).await.unwrap();
    assert_eq!(made["spec"]["csi"], json!({"driver": "d", "volumeHandle": "vol-1", "fsType": "xfs"}));
    let is_asked_for = |claim: Option<&Value>| claim.is_some_and(|claim| claim["spec"]["volumeName"] == *name);
    ground.until(&resources::claims(), Some("shop"), "data", is_asked_for).await;
    ground.status(&resources::claims(), "shop", "data", json!({"phase": "Bound"})).await;
    let told = "the restored volume has the file system xfs, as it was saved, and is mounted as xfs, although its storage class fast says ext4";
    assert_eq!(ground.ended(DataDownload, "dd", "Completed").await, told);
}

impl Ground {
    /// Makes a download in blocks with this delivery, the claim that is to have it, and the volume that was filled.
    async fn delivering_device(&self, delivery: &str) -> Value {
        self.target_claim(json!({})).await;
        let download = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload",
            "metadata": {"name": "dd", "namespace": "velero", "annotations": {"lifeboat.io/delivery": delivery}},
            "spec": {
                "targetVolume": {"pvc": "data", "pv": "", "namespace": "shop"}, "datamover": "velero-block",
                "backupStorageLocation": "default", "snapshotID": "k1", "sourceNamespace": "shop",
                "operationTimeout": "10m0s",
            },
            "status": {"phase": "InProgress", "node": NODE, "acceptedByNode": NODE},
        });
        let device = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
            "spec": {
                "volumeMode": "Block", "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "velero", "name": "dd", "uid": "gone"},
                "csi": {"driver": "d", "volumeHandle": "vol-1", "fsType": "ext4"},
            },
        });
        self.create(&resources::volumes(), device).await;
        self.create(&DataDownload.resource(), download).await
    }
}

#[tokio::test]
async fn a_delivery_of_an_older_agent_is_given_the_volume_for_the_file_system() {
    let mut ground = Ground::start().await;
    let delivery = r#"{"volume":"pv-1","reclaimPolicy":"Delete","totalBytes":9,"begun":"2026-11-28T11:59:00Z"}"#;
    let made = ground.delivering_device(delivery).await;
    ground.agent();
    let (volumes, name) = (resources::volumes(), format!("pvc-{}", made["metadata"]["uid"].as_str().unwrap()));
    let made = ground.until(&volumes, None, &name, |found| found.is_some()).await.unwrap();
    assert_eq!((&made["spec"]["volumeMode"], &made["spec"]["csi"]["fsType"]), (&json!("Filesystem"), &json!("ext4")));
    ground.until(&volumes, None, "pv-1", |found| found.is_none()).await;
    ground.status(&resources::claims(), "shop", "data", json!({"phase": "Bound"})).await;
    assert_eq!(ground.ended(DataDownload, "dd", "Completed").await, "");
}

#[tokio::test]
async fn a_volume_stays_while_the_one_that_replaces_it_is_refused() {
    let mut ground = Ground::start().await;
    // The cluster refuses one that is to be made with a version, by 400.
    let manifest = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pvc-1", "resourceVersion": "1"},
        "spec": {"volumeMode": "Filesystem", "csi": {"driver": "d", "volumeHandle": "vol-1"}},
    });
    let delivery = json!({
        "volume": "pv-1", "reclaimPolicy": "Delete", "totalBytes": 9, "begun": "2026-11-28T11:59:00Z",
        "remade": {"name": "pvc-1", "manifest": manifest},
    });
    ground.delivering_device(&delivery.to_string()).await;
    ground.agent();
    let is_told = |found: Option<&Value>| {
        let message = found.and_then(|found| found["status"]["message"].as_str()).unwrap_or_default();
        message.starts_with("the restored volume cannot be brought to its claim yet: ")
            && message.contains("resourceVersion should not be set")
    };
    ground.until(&DataDownload.resource(), Some("velero"), "dd", is_told).await;
    assert_eq!(volume(&ground).await["metadata"].get("deletionTimestamp"), None);
}

#[tokio::test]
async fn restored_data_has_a_volume_before_a_failed_download_goes() {
    let mut ground = Ground::start().await;
    let manifest = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pvc-1"},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "d", "volumeHandle": "vol-1"}},
    });
    let delivery = json!({
        "volume": "pv-1", "reclaimPolicy": "Delete", "totalBytes": 9, "begun": "2026-11-28T11:59:00Z",
        "remade": {"name": "pvc-1", "manifest": manifest},
    });
    ground.delivering_device(&delivery.to_string()).await;
    // An agent has given it up, and another one removes the volume after that.
    let failed = json!({
        "metadata": {"finalizers": [DataDownload.finalizer()]}, "status": {"phase": "Failed", "message": "given up"},
    });
    ground.patch(&DataDownload.resource(), "velero", "dd", failed).await;
    ground.kube.0.delete(&resources::volumes(), None, "pv-1").await.unwrap();
    ground.agent();
    let told = "given up; the PersistentVolume pvc-1 has the restored data and is kept (reclaim policy Retain): remove its spec.claimRef and name it in spec.volumeName of a claim, or delete it and the volume in the storage";
    assert_eq!(ground.ended(DataDownload, "dd", "Failed").await, told);
    let volumes = resources::volumes();
    let kept = ground.kube.get(ObjectName { resource: &volumes, namespace: None, name: "pvc-1" }).await.unwrap();
    assert_eq!(kept.unwrap()["spec"], manifest["spec"]);
}
