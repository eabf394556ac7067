//! Data of CSI snapshots that was moved into a repository: brought back into new claims by a data mover (restore.md 6.8).
//!
//! The claim is made with a selector that no volume fits, so that nobody provisions one. A DataDownload asks a data mover for the
//! volume. It is an asynchronous operation of the restore, and found by its name in each later process.

use crate::method::child::{child_name, child_of_restore, resource_type, uploader_settings};
use crate::method::data_movement::progress::MoverState;
use crate::method::fs_backup::cancel::cancel as cancel_resource;
use crate::method::fs_backup::repository::NeededRepository;
use crate::restore_plan::MovedSnapshot;
use lifeboat_action::{ActionError, OperationProgress};
use lifeboat_api::well_known::{LABEL_ASYNC_OPERATION_ID, LABEL_DYNAMIC_PV_RESTORE};
use lifeboat_api::{DataDownload, DataDownloadSpec, Duration, Resource, Restore, TargetVolumeSpec, label_value};
use lifeboat_cluster::{Cluster, ClusterError, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Bytes of the hash in a selector.
const HASH: usize = 3;

/// The name of the operation that brings the data of a claim back, by the UID of the claim in the backup.
#[must_use]
pub fn operation_id(restore_uid: &str, claim_uid: &str) -> String {
    label_value(&format!("dd-{restore_uid}.{claim_uid}"))
}

/// Lets a claim wait for the volume that a data mover brings.
///
/// compat: Velero's label ends with five random characters; these follow from the restore, so that a run again makes the same claim.
pub(crate) fn await_volume(claim: &mut Value, restore: &Restore, namespace: &str, name: &str) {
    let hash = Sha256::digest(format!("{}/{namespace}/{name}", restore.metadata.uid));
    let label = label_value(&format!("{namespace}.{name}.{}", hex::encode(&hash[..HASH])));
    if let Some(spec) = claim["spec"].as_object_mut() {
        spec.remove("volumeName");
    }
    if !claim["spec"]["selector"].is_object() {
        claim["spec"]["selector"] = json!({});
    }
    if !claim["spec"]["selector"]["matchLabels"].is_object() {
        claim["spec"]["selector"]["matchLabels"] = json!({});
    }
    claim["spec"]["selector"]["matchLabels"][LABEL_DYNAMIC_PV_RESTORE] = label.into();
}

/// A claim that is to be filled with data that was moved.
#[derive(Clone, Copy, Debug)]
pub struct ClaimToFill<'a> {
    /// Its namespace in the cluster.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its namespace in the backup.
    pub source_namespace: &'a str,
    /// Its UID in the backup.
    pub source_uid: &'a str,
    /// Its data.
    pub moved: &'a MovedSnapshot,
}

/// The location of a backup, and its limit of the preparations of each download.
#[derive(Clone, Debug, Default)]
pub struct DownloadSettings {
    /// The storage location.
    pub location: String,
    /// The limit.
    pub operation_timeout: Duration,
}

/// Asks a data mover for the volume of a claim, unless an earlier run has asked. Returns the name of the operation.
///
/// # Errors
/// [`ClusterError`].
pub async fn begin(
    claim: ClaimToFill<'_>,
    restore: &Restore,
    settings: &DownloadSettings,
    cluster: &Cluster,
) -> Result<String, ClusterError> {
    let download = data_download(claim, restore, settings);
    let (namespace, name) = (&download.metadata.namespace, &download.metadata.name);
    if !claim.moved.is_foreign() {
        let volume_namespace = &download.spec.source_namespace;
        let needed = NeededRepository { namespace, volume_namespace, location: &settings.location };
        // The data mover waits for it.
        needed.find_or_make(cluster).await?;
    }
    // Numbers and texts: encoding cannot fail.
    let body = serde_json::to_vec(&download).unwrap_or_default();
    match cluster.create(&kind(), Some(namespace), name, WriteBody::of(body.into())).await {
        Err(e) if !e.is_already_exists() => Err(e),
        _ => Ok(operation_id(&restore.metadata.uid, claim.source_uid)),
    }
}

fn data_download(claim: ClaimToFill<'_>, restore: &Restore, settings: &DownloadSettings) -> DataDownload {
    let id = operation_id(&restore.metadata.uid, claim.source_uid);
    let mut metadata = child_of_restore(restore, &name_of(restore, &id));
    metadata.labels.insert(LABEL_ASYNC_OPERATION_ID.to_owned(), id);
    let moved = claim.moved;
    let source_namespace =
        if moved.source_namespace.is_empty() { claim.source_namespace } else { &moved.source_namespace };
    let spec = DataDownloadSpec {
        target_volume: TargetVolumeSpec {
            pvc: claim.name.to_owned(),
            namespace: claim.namespace.to_owned(),
            fs_type: moved.fs_type.clone(),
            ..TargetVolumeSpec::default()
        },
        backup_storage_location: settings.location.clone(),
        data_mover: moved.data_mover.clone(),
        snapshot_id: moved.snapshot_id.clone(),
        source_namespace: source_namespace.to_owned(),
        data_mover_config: uploader_settings(restore),
        operation_timeout: settings.operation_timeout,
        node_os: serde_json::from_value(moved.node_os.as_str().into()).ok(),
        snapshot_size: moved.size,
        ..DataDownloadSpec::default()
    };
    DataDownload { metadata, spec, ..DataDownload::default() }
}

/// The progress of an operation.
///
/// # Errors
/// [`ActionError`]: that its DataDownload is not there, or cannot be read.
pub(crate) async fn progress(id: &str, restore: &Restore, cluster: &Cluster) -> Result<OperationProgress, ActionError> {
    let found = cluster.get(&kind(), Some(&restore.metadata.namespace), &name_of(restore, id)).await;
    let body = found.map_err(|e| action_error(&e))?;
    let body = body.ok_or_else(|| ActionError::item("didn't find DataDownload"))?;
    let found: DataDownload = serde_json::from_slice(&body)
        .map_err(|e| ActionError::item(format!("the DataDownload of the operation cannot be read: {e}")))?;
    Ok(progress_of(&found))
}

fn progress_of(download: &DataDownload) -> OperationProgress {
    let status = &download.status;
    let state = MoverState {
        kind: DataDownload::KIND,
        phase: status.phase,
        message: &status.message,
        progress: &status.progress,
        started: status.start_timestamp,
        ended: status.completion_timestamp,
    };
    state.progress()
}

/// Asks an operation to end.
///
/// # Errors
/// [`ActionError`].
pub(crate) async fn cancel(id: &str, restore: &Restore, cluster: &Cluster) -> Result<(), ActionError> {
    let name = name_of(restore, id);
    cancel_resource(cluster, &kind(), &restore.metadata.namespace, &name).await.map_err(|e| action_error(&e))
}

fn name_of(restore: &Restore, id: &str) -> String {
    child_name(&restore.metadata, &["data-download", id])
}

fn kind() -> ApiResource {
    resource_type::<DataDownload>()
}

fn action_error(error: &ClusterError) -> ActionError {
    if error.can_pass() { ActionError::passing(error.to_string()) } else { ActionError::item(error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::DataPathPhase;

    fn restore() -> Restore {
        let mut restore = Restore::default();
        restore.metadata.name = "r".to_owned();
        restore.metadata.namespace = "velero".to_owned();
        restore.metadata.uid = "9f5fbc26-7d20-4a3b-9bd9-5b1dbf5eaf17".to_owned();
        restore
    }

    const CLAIM_UID: &str = "0b0e7c52-0a0b-4a0b-8d8e-111111111111";

    #[test]
    fn a_download_has_the_fields_of_veleros_and_a_name_of_its_own() {
        let moved = MovedSnapshot {
            data_mover: "kubevirt".into(),
            snapshot_id: "m1".into(),
            size: 9,
            source_namespace: "shop".into(),
            node_os: "linux".into(),
            fs_type: "ext4".into(),
        };
        let restore = restore();
        let claim = ClaimToFill {
            namespace: "new",
            name: "data",
            source_namespace: "old",
            source_uid: CLAIM_UID,
            moved: &moved,
        };
        let settings = DownloadSettings { location: "default".into(), operation_timeout: Duration::from_secs(600) };
        let mut made = serde_json::to_value(data_download(claim, &restore, &settings)).unwrap();
        made.as_object_mut().unwrap().remove("status");
        let id = operation_id(&restore.metadata.uid, CLAIM_UID);
        assert_eq!((id.len(), &id[..12]), (63, "dd-9f5fbc26-"));
        let expected = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload",
            "metadata": {"name": name_of(&restore, &id), "namespace": "velero", "labels": {"velero.io/restore-name": "r",
                "velero.io/restore-uid": restore.metadata.uid, "velero.io/async-operation-id": id},
                "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Restore", "name": "r", "uid": restore.metadata.uid, "controller": true}]},
            "spec": {"targetVolume": {"pvc": "data", "pv": "", "namespace": "new", "fsType": "ext4"}, "backupStorageLocation": "default",
                "datamover": "kubevirt", "snapshotID": "m1", "snapshotSize": 9, "sourceNamespace": "shop", "operationTimeout": "10m0s",
                "nodeOS": "linux"},
        });
        assert_eq!(made, expected);
    }

    #[test]
    fn a_claim_that_waits_for_a_data_mover_fits_no_volume() {
        let mut claim = json!({"spec": {"volumeName": "pv", "selector": {"matchLabels": {"a": "b"}}}});
        await_volume(&mut claim, &restore(), "shop", "data");
        let label = claim["spec"]["selector"]["matchLabels"][LABEL_DYNAMIC_PV_RESTORE].as_str().unwrap().to_owned();
        assert!(label.starts_with("shop.data.") && label.len() == "shop.data.".len() + 6, "{label}");
        assert_eq!(
            claim,
            json!({"spec": {"selector": {"matchLabels": {"a": "b", "velero.io/dynamic-pv-restore": label}}}})
        );
    }

    #[test]
    fn the_progress_of_a_download_follows_from_its_phase() {
        let of = |phase: Option<DataPathPhase>, message: &str| {
            let mut download = DataDownload::default();
            (download.status.phase, download.status.message) = (phase, message.to_owned());
            (download.status.progress.bytes_done, download.status.progress.total_bytes) = (3, 9);
            progress_of(&download)
        };
        let expected = |phase: &str, completed, error: &str| OperationProgress {
            completed,
            error: error.to_owned(),
            n_completed: 3,
            n_total: 9,
            operation_units: "Bytes".to_owned(),
            description: phase.to_owned(),
            ..OperationProgress::default()
        };
        use DataPathPhase as P;
        assert_eq!([None, Some(P::New)].map(|phase| of(phase, "")), [(); 2].map(|()| OperationProgress::default()));
        for (phase, message, ended, error) in [
            (P::Accepted, "", false, ""),
            (P::InProgress, "", false, ""),
            (P::Canceling, "", false, ""),
            (P::Completed, "", true, ""),
            (P::Canceled, "", true, "DataDownload is canceled"),
            (P::Failed, "no space", true, "no space"),
        ] {
            assert_eq!(of(Some(phase), message), expected(phase.as_str(), ended, error), "{phase:?}");
        }
    }
}
