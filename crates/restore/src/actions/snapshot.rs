//! Objects of CSI snapshots that a backup holds for its claims.

use lifeboat_action::{ActionError, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::well_known::{ANNOTATION_VSC_DELETION_POLICY, LABEL_BACKUP_NAME};

/// Leaves out what stands for the data of a claim: this version makes no claims from snapshots, and as it stands in the backup a
/// VolumeSnapshot would let the driver take a new snapshot of the claim that comes back empty. Users' own snapshots are restored.
pub(super) fn restore(input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
    let metadata = &input.item_from_backup["metadata"];
    let is_of_backup = metadata["annotations"].get(ANNOTATION_VSC_DELETION_POLICY).is_some()
        || metadata["labels"].get(LABEL_BACKUP_NAME).is_some();
    Ok(if is_of_backup { RestoreItemOutput::skip() } else { RestoreItemOutput::with(input.item) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;
    use serde_json::json;

    #[test]
    fn snapshots_of_a_backup_stay_out_and_those_of_users_come_back() {
        for (metadata, is_skipped) in [
            (json!({"name": "a"}), false),
            (json!({"name": "a", "labels": {"app": "x"}, "annotations": {"note": "mine"}}), false),
            (json!({"name": "a", "annotations": {"velero.io/csi-vsc-deletion-policy": "Delete"}}), true),
            (json!({"name": "a", "labels": {"velero.io/backup-name": "b"}}), true),
        ] {
            let object = json!({"kind": "VolumeSnapshot", "metadata": metadata});
            let expected = if is_skipped { RestoreItemOutput::skip() } else { RestoreItemOutput::with(object.clone()) };
            assert_eq!(run(restore, &object).unwrap(), expected, "{object}");
        }
    }
}
