//! The records of volumes whose data comes from a repository. Pure.

use lifeboat_api::Restore;
use lifeboat_api::well_known::ANNOTATION_OVERWRITE_VOLUMES;
use lifeboat_archive::volume_info::{
    CSI_SNAPSHOT, DataMovementInfo, POD_VOLUME_RESTORE, PodVolumeRestoreInfo, RestoreVolumeInfo,
};
use lifeboat_object::ObjectKey;
use lifeboat_volume::MovedSnapshot;
use lifeboat_volume::fs_backup::{FileEnd, FileOutcome};

/// The state of the files that come from repositories.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FilesReport<'a> {
    /// A preview takes all of them for restored.
    Planned,
    /// These outcomes are known.
    Outcomes(&'a [FileOutcome]),
}

/// Records the outcome for a claim whose files come through a pod, with a message. The claim is named as in the backup.
pub(crate) fn filled(record: &mut RestoreVolumeInfo, claim: &str, source: &str, files: FilesReport<'_>) -> String {
    let outcomes = match files {
        FilesReport::Planned => return "the claim gets its files from a repository".to_owned(),
        FilesReport::Outcomes(outcomes) => outcomes,
    };
    let is_of = |one: &&FileOutcome| one.claim.as_deref() == Some(claim) && one.source_namespace == source;
    match outcomes.iter().find(is_of) {
        Some(outcome) => {
            let said = told(record, outcome);
            format!("{said}, through the pod {}/{}", outcome.namespace, outcome.pod)
        }
        None => "its files are not restored: the pod that mounts it was not made by this restore".to_owned(),
    }
}

/// Returns true if files were written, or would be, into a claim of the backup that was in the cluster before.
pub(crate) fn is_overwritten(claim: &ObjectKey, restore: &Restore, files: FilesReport<'_>) -> bool {
    let FilesReport::Outcomes(outcomes) = files else {
        return restore.metadata.says_true(ANNOTATION_OVERWRITE_VOLUMES);
    };
    let source = claim.namespace.as_deref().unwrap_or_default();
    outcomes.iter().any(|one| one.claim.as_deref() == Some(&*claim.name) && one.source_namespace == source)
}

/// The record of a volume of a pod without a claim. Velero has none.
pub(crate) fn of_pod_volume(outcome: &FileOutcome) -> RestoreVolumeInfo {
    let mut record = RestoreVolumeInfo::default();
    record.message = told(&mut record, outcome);
    record.pvr_info = Some(info(outcome));
    record
}

/// Records the outcome for a volume, with a message.
fn told(record: &mut RestoreVolumeInfo, outcome: &FileOutcome) -> String {
    match &outcome.end {
        FileEnd::Restored { bytes } => {
            POD_VOLUME_RESTORE.clone_into(&mut record.restore_method);
            record.pvr_info = Some(info(outcome));
            format!("its files are restored ({bytes} bytes)")
        }
        FileEnd::Failed(why) => format!("its files are not restored: {why}"),
    }
}

fn info(outcome: &FileOutcome) -> PodVolumeRestoreInfo {
    let size = match outcome.end {
        FileEnd::Restored { bytes } => bytes,
        FileEnd::Failed(_) => 0,
    };
    PodVolumeRestoreInfo {
        snapshot_handle: outcome.files.snapshot_id.clone(),
        size,
        uploader_type: "kopia".to_owned(),
        volume_name: outcome.volume.clone(),
        pod_name: outcome.pod.clone(),
        pod_namespace: outcome.namespace.clone(),
        phase: String::new(),
    }
}

/// Records that a data mover brings the data of a claim, with a message.
pub(crate) fn moved(record: &mut RestoreVolumeInfo, moved: &MovedSnapshot, operation_id: String) -> String {
    CSI_SNAPSHOT.clone_into(&mut record.restore_method);
    record.snapshot_data_moved = true;
    let data_mover = if moved.data_mover.is_empty() { "velero" } else { &moved.data_mover };
    let said = format!("the data mover {data_mover} brings its data from a repository: the operation {operation_id}");
    record.snapshot_data_movement_info = Some(DataMovementInfo {
        data_mover: data_mover.to_owned(),
        uploader_type: "kopia".to_owned(),
        snapshot_handle: moved.snapshot_id.clone(),
        operation_id,
        ..DataMovementInfo::default()
    });
    said
}

/// Records the outcome for a claim that a pod of the restore fills, with a message. A claim that was made is filled.
pub(crate) fn by_mover_pod(
    record: &mut RestoreVolumeInfo,
    moved: Option<&MovedSnapshot>,
    files: FilesReport<'_>,
) -> String {
    match moved {
        Some(_) => {
            CSI_SNAPSHOT.clone_into(&mut record.restore_method);
            record.snapshot_data_moved = true;
        }
        None => POD_VOLUME_RESTORE.clone_into(&mut record.restore_method),
    }
    match files {
        FilesReport::Planned => "a pod of the restore brings its data from a repository".to_owned(),
        FilesReport::Outcomes(_) => "a pod of the restore has brought its data from a repository".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_volume::SavedFiles;
    use serde_json::json;

    fn outcome(claim: Option<&str>, end: FileEnd) -> FileOutcome {
        FileOutcome {
            source_namespace: "shop".into(),
            namespace: "new".into(),
            pod: "web".into(),
            volume: "v".into(),
            claim: claim.map(str::to_owned),
            files: SavedFiles { snapshot_id: "k1".into(), ..SavedFiles::default() },
            end,
        }
    }

    #[test]
    fn a_volume_from_a_repository_has_veleros_record_and_its_outcome() {
        let done = outcome(Some("data"), FileEnd::Restored { bytes: 7 });
        let mut record = RestoreVolumeInfo::default();
        let said = filled(&mut record, "data", "shop", FilesReport::Outcomes(std::slice::from_ref(&done)));
        assert_eq!(said, "its files are restored (7 bytes), through the pod new/web");
        let info = json!({"snapshotHandle": "k1", "size": 7, "uploaderType": "kopia", "volumeName": "v", "podName": "web",
            "podNamespace": "new", "Phase": ""});
        let expected = json!({"restoreMethod": "PodVolumeRestore", "snapshotDataMoved": false, "pvrInfo": info});
        assert_eq!(serde_json::to_value(&record).unwrap(), expected);

        for (claim, source, expected) in [
            ("other", "shop", "its files are not restored: the pod that mounts it was not made by this restore"),
            ("data", "other", "its files are not restored: the pod that mounts it was not made by this restore"),
        ] {
            let mut none = RestoreVolumeInfo::default();
            let said = filled(&mut none, claim, source, FilesReport::Outcomes(std::slice::from_ref(&done)));
            assert_eq!((said.as_str(), none), (expected, RestoreVolumeInfo::default()));
        }
        let mut planned = RestoreVolumeInfo::default();
        let said = filled(&mut planned, "data", "shop", FilesReport::Planned);
        assert_eq!(said, "the claim gets its files from a repository");

        let failed = of_pod_volume(&outcome(None, FileEnd::Failed("no space".into())));
        let info = json!({"snapshotHandle": "k1", "uploaderType": "kopia", "volumeName": "v", "podName": "web",
            "podNamespace": "new", "Phase": ""});
        let expected =
            json!({"snapshotDataMoved": false, "pvrInfo": info, "message": "its files are not restored: no space"});
        assert_eq!(serde_json::to_value(&failed).unwrap(), expected);
    }

    #[test]
    fn moved_data_is_recorded_with_its_operation() {
        let mut record = RestoreVolumeInfo::default();
        let snapshot = MovedSnapshot { snapshot_id: "m1".into(), ..MovedSnapshot::default() };
        let said = moved(&mut record, &snapshot, "dd-1".to_owned());
        assert_eq!(said, "the data mover velero brings its data from a repository: the operation dd-1");
        let info = json!({"dataMover": "velero", "uploaderType": "kopia", "snapshotHandle": "m1", "operationID": "dd-1", "size": 0,
            "Phase": ""});
        let expected =
            json!({"restoreMethod": "CSISnapshot", "snapshotDataMoved": true, "snapshotDataMovementInfo": info});
        assert_eq!(serde_json::to_value(&record).unwrap(), expected);
    }
}
