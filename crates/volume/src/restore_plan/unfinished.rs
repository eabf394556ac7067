//! Volumes of a backup that never came to its end, because its cluster was lost while operations of actions went on.

use crate::restore_plan::recorded::claim;
use lifeboat_api::{OperationPhase, OperationStatus};
use lifeboat_archive::operations::BackupOperation;
use lifeboat_archive::volume_info::{BackupVolumeInfo, CSI_SNAPSHOT, FAILED, SUCCEEDED, UPLOAD_INFO};
use lifeboat_object::ObjectKey;
use std::collections::HashMap;

/// A volume whose operation had not ended well when the backup was written last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedVolume {
    /// Its claim.
    pub claim: ObjectKey,
    /// The data that is perhaps there: a snapshot that the storage has by a name and that was not known to be ready. Of any other nothing
    /// is restored, and its record says why.
    pub is_tried: bool,
    /// The reason.
    pub why: String,
}

/// Brings into the volume information of such a backup that the data of a volume is not there, unless the backup proves it: a snapshot of
/// which it has the handle is tried, and data in a repository is found by the end of the backup alone.
#[must_use]
pub fn settle_unfinished(infos: &mut [BackupVolumeInfo], operations: &[BackupOperation]) -> Vec<UnfinishedVolume> {
    let known: HashMap<&str, &OperationStatus> =
        operations.iter().map(|one| (one.spec.operation_id.as_str(), &one.status)).collect();
    let is_open = |info: &&mut BackupVolumeInfo| info.backup_method == CSI_SNAPSHOT && info.result != SUCCEEDED;
    infos.iter_mut().filter(is_open).filter_map(|info| settle(info, &known)).collect()
}

fn settle(info: &mut BackupVolumeInfo, known: &HashMap<&str, &OperationStatus>) -> Option<UnfinishedVolume> {
    let moved = info.other.get(UPLOAD_INFO).filter(|_| info.snapshot_data_moved);
    let text = |field: &str| moved.and_then(|moved| moved[field].as_str()).unwrap_or_default().to_owned();
    let snapshot = info.csi_snapshot_info.as_ref();
    let id = match moved {
        Some(_) => text("operationID"),
        None => snapshot.map_or_else(String::new, |snapshot| snapshot.operation_id.clone()),
    };
    let phase = known.get(id.as_str()).and_then(|status| status.phase);
    let how = match (id.is_empty(), phase) {
        (true, _) => "the backup never ended".to_owned(),
        (false, Some(OperationPhase::Completed)) => format!("its operation {id} had ended, but the backup never did"),
        (false, Some(OperationPhase::Failed)) => {
            let error = known.get(id.as_str()).map_or("", |status| &status.error);
            format!("its operation {id} had failed: {error}")
        }
        (false, _) => format!("its operation {id} had not ended"),
    };
    let claim = claim(&info.pvc_namespace, &info.pvc_name);
    if info.snapshot_data_moved {
        // The snapshot in the repository is recorded when the backup ends.
        if !text("snapshotHandle").is_empty() {
            return None;
        }
        let why =
            format!("it was being moved into a repository, and the backup does not say what lies there, because {how}");
        return Some(lost(info, claim, why));
    }
    let has_handle = snapshot.is_some_and(|snapshot| !snapshot.snapshot_handle.is_empty());
    match (has_handle, phase) {
        (false, _) if !info.message.is_empty() => None,
        (false, _) => Some(lost(
            info,
            claim,
            format!("its snapshot was being taken, and has no handle in the backup, because {how}"),
        )),
        (true, Some(OperationPhase::Completed)) => None,
        (true, _) => Some(UnfinishedVolume { claim, is_tried: true, why: how }),
    }
}

fn lost(info: &mut BackupVolumeInfo, claim: ObjectKey, why: String) -> UnfinishedVolume {
    FAILED.clone_into(&mut info.result);
    info.message.clone_from(&why);
    UnfinishedVolume { claim, is_tried: false, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_archive::operations::BackupOperationSpec;
    use lifeboat_archive::volume_info::CsiSnapshotInfo;
    use serde_json::json;

    fn operation(id: &str, phase: OperationPhase) -> BackupOperation {
        let status = OperationStatus { phase: Some(phase), error: "no space".to_owned(), ..OperationStatus::default() };
        BackupOperation { spec: BackupOperationSpec { operation_id: id.to_owned(), ..Default::default() }, status }
    }

    fn info(name: &str, result: &str) -> BackupVolumeInfo {
        BackupVolumeInfo {
            pvc_namespace: "n".into(),
            pvc_name: name.into(),
            pv_name: name.into(),
            backup_method: CSI_SNAPSHOT.into(),
            result: result.into(),
            ..BackupVolumeInfo::default()
        }
    }

    fn snapshot(name: &str, handle: &str, operation: &str, result: &str) -> BackupVolumeInfo {
        let snapshot = CsiSnapshotInfo {
            snapshot_handle: handle.into(),
            operation_id: operation.into(),
            ..CsiSnapshotInfo::default()
        };
        BackupVolumeInfo { csi_snapshot_info: Some(snapshot), ..info(name, result) }
    }

    fn moved(name: &str, handle: &str, operation: &str) -> BackupVolumeInfo {
        let upload = json!({"snapshotHandle": handle, "operationID": operation});
        let other = [(UPLOAD_INFO.to_owned(), upload)].into_iter().collect();
        BackupVolumeInfo { snapshot_data_moved: true, other, ..info(name, "") }
    }

    #[test]
    fn data_of_a_backup_that_never_ended_is_there_only_where_it_is_proved() {
        use OperationPhase as P;
        let operations =
            [operation("goes", P::InProgress), operation("ended", P::Completed), operation("bad", P::Failed)];
        let repository = "it was being moved into a repository, and the backup does not say what lies there, because";
        let not_ended = "its operation goes had not ended";
        let failed = "its operation bad had failed: no space";
        let ended = "its operation ended had ended, but the backup never did";
        let no_handle = "its snapshot was being taken, and has no handle in the backup, because";
        for (info, expected) in [
            (snapshot("c", "h", "ended", ""), None),
            (snapshot("c", "h", "goes", ""), Some((true, not_ended.to_owned()))),
            // Velero writes each as failed until its end.
            (snapshot("c", "h", "goes", FAILED), Some((true, not_ended.to_owned()))),
            (snapshot("c", "h", "bad", ""), Some((true, failed.to_owned()))),
            (snapshot("c", "h", "goes", SUCCEEDED), None),
            (snapshot("c", "", "goes", ""), Some((false, format!("{no_handle} {not_ended}")))),
            (moved("c", "", "goes"), Some((false, format!("{repository} {not_ended}")))),
            (moved("c", "", "ended"), Some((false, format!("{repository} {ended}")))),
            (moved("c", "", "none"), Some((false, format!("{repository} its operation none had not ended")))),
            (moved("c", "k", "goes"), None),
            (BackupVolumeInfo { message: "no space".into(), ..info("c", FAILED) }, None),
            (BackupVolumeInfo { backup_method: "PodVolumeBackup".into(), ..info("c", "") }, None),
        ] {
            let mut infos = [info.clone()];
            let found = settle_unfinished(&mut infos, &operations);
            let volume = |(is_tried, why)| UnfinishedVolume { claim: claim("n", "c"), is_tried, why };
            assert_eq!(found, expected.clone().map(volume).into_iter().collect::<Vec<_>>(), "{info:?}");
            let lost = expected.filter(|(is_tried, _)| !is_tried);
            let settled = match lost {
                Some((_, message)) => BackupVolumeInfo { result: FAILED.into(), message, ..info.clone() },
                None => info.clone(),
            };
            assert_eq!(infos, [settled], "{info:?}");
        }
    }
}
