//! Data of CSI snapshots that was moved into a repository: brought back into new claims by a data mover
//! (velero: pkg/restore/actions/csi).
//!
//! The claim is made with a selector that no volume fits, so that nobody provisions one. A DataDownload asks a data mover for the
//! volume. It is an asynchronous operation of the restore, and found by its name in each later process.

use crate::method::child::{child_name, child_of_restore, list, resource_type, uploader_settings};
use crate::method::data_movement::progress::MoverState;
use crate::method::definition::Definitions;
use crate::method::fs_backup::cancel::cancel as cancel_resource;
use crate::method::fs_backup::repository::NeededRepository;
use crate::restore_plan::MovedSnapshot;
use bytes::Bytes;
use lifeboat_action::{ActionError, OperationProgress};
use lifeboat_api::well_known::{
    ANNOTATION_TARGET_CLAIM_UID, LABEL_ASYNC_OPERATION_ID, LABEL_DYNAMIC_PV_RESTORE, LABEL_RESTORE_UID,
};
use lifeboat_api::{
    DataDownload, DataDownloadSpec, DataPathPhase, Duration, ObjectMeta, Resource, Restore, TargetVolumeSpec,
    label_value,
};
use lifeboat_cluster::{Cluster, ClusterError, MergePatch, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration as StdDuration;
use tokio::time::{Instant, sleep};

/// The longest time for a DataDownload that is replaced to go.
const REPLACING: StdDuration = StdDuration::from_secs(60);
/// The pause between two looks at it.
const PAUSE: StdDuration = StdDuration::from_millis(200);
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
    /// Its UID in the cluster.
    pub uid: &'a str,
    /// True when it has a volume there.
    pub has_volume: bool,
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
    /// The definitions of the cluster.
    pub definitions: Definitions,
}

/// Asks a data mover for the volume of a claim, unless an earlier run has asked. Returns the name of the operation.
///
/// A request of an earlier run counts as long as the claim is the same. A DataDownload that goes on for a claim that was made
/// anew serves that one: the data mover finds the target by its name when the data is there. One that has ended is replaced.
///
/// # Errors
/// The reason for people.
pub async fn begin(
    claim: ClaimToFill<'_>,
    restore: &Restore,
    settings: &DownloadSettings,
    cluster: &Cluster,
) -> Result<String, String> {
    let download = data_download(claim, restore, settings);
    let namespace = &download.metadata.namespace;
    if !claim.moved.is_foreign() {
        let volume_namespace = &download.spec.source_namespace;
        let needed = NeededRepository { namespace, volume_namespace, location: &settings.location };
        // The data mover waits for it.
        needed.find_or_make(cluster).await.map_err(|e| e.to_string())?;
    }
    let make = |body| make_or_take_up_download(cluster, &download.metadata, claim, body);
    settings.definitions.make(cluster, &download, make).await?;
    Ok(operation_id(&restore.metadata.uid, claim.source_uid))
}

/// Makes a DataDownload, or takes up the one that an earlier run has made.
async fn make_or_take_up_download(
    cluster: &Cluster,
    metadata: &ObjectMeta,
    claim: ClaimToFill<'_>,
    body: Bytes,
) -> Result<(), String> {
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    let deadline = Instant::now() + REPLACING;
    loop {
        match cluster.create(&kind(), Some(namespace), name, WriteBody::of(body.clone())).await {
            Ok(_) => return Ok(()),
            Err(e) if e.is_already_exists() => {}
            Err(e) => return Err(e.to_string()),
        }
        let found = cluster.get(&kind(), Some(namespace), name).await.map_err(|e| e.to_string())?;
        let Some(found) = found else { continue };
        let found: DataDownload =
            serde_json::from_slice(&found).map_err(|e| format!("the DataDownload {name} cannot be read: {e}"))?;
        match EarlierDownload::of(&found, claim) {
            EarlierDownload::Same => return Ok(()),
            EarlierDownload::GoesOn => {
                let body = json!({"metadata": {"resourceVersion": found.metadata.resource_version,
                    "annotations": {ANNOTATION_TARGET_CLAIM_UID: claim.uid}}});
                match cluster.patch(&kind(), Some(namespace), name, MergePatch::of(body.to_string().into())).await {
                    Ok(_) => return Ok(()),
                    Err(e) if e.is_conflict() || e.is_not_found() => {}
                    Err(e) => return Err(e.to_string()),
                }
            }
            EarlierDownload::Over => {
                let uid = &found.metadata.uid;
                cluster.delete_exactly(&kind(), Some(namespace), name, uid).await.map_err(|e| e.to_string())?;
            }
            EarlierDownload::Leaving => {}
        }
        if Instant::now() > deadline {
            return Err(format!(
                "the DataDownload {namespace}/{name}, which an earlier run has made for another claim of the name, does not go away: look at its \
                 finalizers"
            ));
        }
        sleep(PAUSE).await;
    }
}

/// A DataDownload of the name that is there already, as it concerns a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EarlierDownload {
    /// It is for this very claim.
    Same,
    /// It was begun for another claim of the name, and goes on.
    GoesOn,
    /// It has ended, and this claim has nothing of it.
    Over,
    /// It is being deleted.
    Leaving,
}

impl EarlierDownload {
    fn of(found: &DataDownload, claim: ClaimToFill<'_>) -> Self {
        let phase = found.status.phase;
        let has_ended =
            matches!(phase, Some(DataPathPhase::Completed | DataPathPhase::Canceled | DataPathPhase::Failed));
        match found.metadata.annotations.get(ANNOTATION_TARGET_CLAIM_UID) {
            _ if found.metadata.deletion_timestamp.is_some() => Self::Leaving,
            Some(uid) if uid == claim.uid => Self::Same,
            // An earlier version has noted none.
            None if has_ended && claim.has_volume => Self::Same,
            _ if has_ended => Self::Over,
            _ => Self::GoesOn,
        }
    }
}

fn data_download(claim: ClaimToFill<'_>, restore: &Restore, settings: &DownloadSettings) -> DataDownload {
    let id = operation_id(&restore.metadata.uid, claim.source_uid);
    let mut metadata = child_of_restore(restore, &name_of(restore, &id));
    metadata.labels.insert(LABEL_ASYNC_OPERATION_ID.to_owned(), id);
    metadata.annotations.insert(ANNOTATION_TARGET_CLAIM_UID.to_owned(), claim.uid.to_owned());
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
    let body = body.ok_or_else(|| {
        ActionError::item(format!("the DataDownload of operation {id} was deleted: make another Restore"))
    })?;
    let found: DataDownload = serde_json::from_slice(&body)
        .map_err(|e| ActionError::item(format!("the DataDownload of the operation cannot be read: {e}")))?;
    let mut progress = progress_of(&found);
    if progress.completed && progress.error.is_empty() {
        let target = &found.spec.target_volume;
        let claims = ApiResource::persistent_volume_claims();
        let claim = cluster.get(&claims, Some(&target.namespace), &target.pvc).await.map_err(|e| action_error(&e))?;
        let claim = claim.map(|body| serde_json::from_slice::<Value>(&body).unwrap_or_default());
        if let Some(why) = undelivered(&found, claim.as_ref()) {
            progress.error = why;
        }
    }
    Ok(progress)
}

/// The reason why the target of a completed DataDownload does not have its data; `None` when it has.
fn undelivered(download: &DataDownload, claim: Option<&Value>) -> Option<String> {
    let DataDownload { metadata, spec, .. } = download;
    let TargetVolumeSpec { namespace, pvc, .. } = &spec.target_volume;
    let expected = metadata.annotations.get(ANNOTATION_TARGET_CLAIM_UID).map(String::as_str);
    let why = match claim {
        None => "is not in the cluster any more",
        Some(claim) if expected.is_some_and(|uid| claim["metadata"]["uid"] != uid) => {
            "was made anew after the data had gone to the one before"
        }
        Some(claim) if claim["spec"]["volumeName"].as_str().is_none_or(str::is_empty) => "has no volume",
        Some(_) => return None,
    };
    let next = "delete the claim and make another Restore";
    Some(format!("the DataDownload {} is Completed, but the claim {namespace}/{pvc} {why}: {next}", metadata.name))
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
        annotations: &download.metadata.annotations,
    };
    state.progress()
}

/// The completed DataDownloads of a restore of which the data mover has something to tell: entries that it passed over, or could not restore as
/// they were.
///
/// # Errors
/// [`ClusterError`].
pub async fn incomplete_downloads(restore: &Restore, cluster: &Cluster) -> Result<Vec<DataDownload>, ClusterError> {
    let of = &restore.metadata;
    let mut all: Vec<DataDownload> = list(cluster, &of.namespace, format!("{LABEL_RESTORE_UID}={}", of.uid)).await?;
    all.retain(|one| one.status.phase == Some(DataPathPhase::Completed) && !one.status.message.is_empty());
    Ok(all)
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
            uid: "cu",
            has_volume: false,
            source_namespace: "old",
            source_uid: CLAIM_UID,
            moved: &moved,
        };
        let settings = DownloadSettings {
            location: "default".into(),
            operation_timeout: Duration::from_secs(600),
            ..DownloadSettings::default()
        };
        let mut made = serde_json::to_value(data_download(claim, &restore, &settings)).unwrap();
        made.as_object_mut().unwrap().remove("status");
        let id = operation_id(&restore.metadata.uid, CLAIM_UID);
        assert_eq!((id.len(), &id[..12]), (63, "dd-9f5fbc26-"));
        let expected = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload",
            "metadata": {"name": name_of(&restore, &id), "namespace": "velero", "labels": {"velero.io/restore-name": "r",
                "velero.io/restore-uid": restore.metadata.uid, "velero.io/async-operation-id": id},
                "annotations": {"lifeboat.io/target-claim-uid": "cu"},
                "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Restore", "name": "r", "uid": restore.metadata.uid, "controller": true}]},
            "spec": {"targetVolume": {"pvc": "data", "pv": "", "namespace": "new", "fsType": "ext4"}, "backupStorageLocation": "default",
                "datamover": "kubevirt", "snapshotID": "m1", "snapshotSize": 9, "sourceNamespace": "shop", "operationTimeout": "10m0s",
                "nodeOS": "linux"},
        });
        assert_eq!(made, expected);
    }

    #[test]
    fn a_download_counts_for_the_claim_that_it_was_made_for() {
        use DataPathPhase as P;
        use EarlierDownload as E;
        let moved = MovedSnapshot::default();
        let of = |uid: Option<&str>, phase: Option<P>, has_volume: bool| {
            let mut found = DataDownload::default();
            found.status.phase = phase;
            let annotations = uid.map(|uid| (ANNOTATION_TARGET_CLAIM_UID.to_owned(), uid.to_owned()));
            found.metadata.annotations = annotations.into_iter().collect();
            let (namespace, name, uid) = ("shop", "data", "new");
            let (source_namespace, source_uid) = ("shop", CLAIM_UID);
            let claim = ClaimToFill { namespace, name, uid, has_volume, source_namespace, source_uid, moved: &moved };
            EarlierDownload::of(&found, claim)
        };
        for (uid, phase, has_volume, expected) in [
            (Some("new"), Some(P::Completed), false, E::Same),
            (Some("new"), Some(P::Failed), false, E::Same),
            (Some("old"), None, false, E::GoesOn),
            (Some("old"), Some(P::InProgress), false, E::GoesOn),
            (Some("old"), Some(P::Completed), false, E::Over),
            (Some("old"), Some(P::Canceled), true, E::Over),
            (None, Some(P::Completed), false, E::Over),
            (None, Some(P::Completed), true, E::Same),
            (None, Some(P::Accepted), false, E::GoesOn),
        ] {
            assert_eq!(of(uid, phase, has_volume), expected, "{uid:?} {phase:?} {has_volume}");
        }
    }

    #[test]
    fn a_pending_claim_is_never_told_as_restored() {
        let mut download = DataDownload::default();
        download.metadata.name = "dd".to_owned();
        download.metadata.annotations.insert(ANNOTATION_TARGET_CLAIM_UID.to_owned(), "cu".to_owned());
        download.spec.target_volume =
            TargetVolumeSpec { pvc: "data".into(), namespace: "shop".into(), ..TargetVolumeSpec::default() };
        let claim = |uid: &str, volume: &str| json!({"metadata": {"uid": uid}, "spec": {"volumeName": volume}});
        let said = |why: &str| {
            Some(format!(
                "the DataDownload dd is Completed, but the claim shop/data {why}: delete the claim and make another Restore"
            ))
        };
        for (claim, expected) in [
            (Some(claim("cu", "pv")), None),
            (Some(claim("cu", "")), said("has no volume")),
            (Some(claim("other", "pv")), said("was made anew after the data had gone to the one before")),
            (None, said("is not in the cluster any more")),
        ] {
            assert_eq!(undelivered(&download, claim.as_ref()), expected, "{claim:?}");
        }
        download.metadata.annotations.clear();
        assert_eq!(undelivered(&download, Some(&claim("any", "pv"))), None);
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
