//! The names of the actions of CSI snapshots (velero: pkg/cmd/server/plugin/plugin.go), and of objects that a restore
//! makes.

use sha2::{Digest, Sha256};

/// The name of the action for claims of a backup.
pub const CLAIM_BACKUP_ACTION: &str = "velero.io/csi-pvc-backupper";
/// The name of the action for claims of a restore.
pub const CLAIM_RESTORE_ACTION: &str = "velero.io/csi-pvc-restorer";
/// The names of the actions of a backup, in the order in which they are called.
pub const BACKUP_ACTIONS: [&str; 4] = [
    CLAIM_BACKUP_ACTION,
    "velero.io/csi-volumesnapshot-backupper",
    "velero.io/csi-volumesnapshotclass-backupper",
    "velero.io/csi-volumesnapshotcontent-backupper",
];
/// The names of the actions of a restore; the last is an addition of Lifeboat.
pub const RESTORE_ACTIONS: [&str; 5] = [
    CLAIM_RESTORE_ACTION,
    "velero.io/csi-volumesnapshot-restorer",
    "velero.io/csi-volumesnapshotclass-restorer",
    "velero.io/csi-volumesnapshotcontent-restorer",
    "lifeboat.io/csi-volumegroupsnapshot-restorer",
];
/// The name of the action of a deletion.
pub const DELETE_ACTIONS: [&str; 1] = ["velero.io/csi-volumesnapshotcontent-delete"];

/// The name that a VolumeSnapshot of the backup and its content get in a restore.
///
/// compat: Velero's leaves the namespace out of it, so that snapshots of one name in two namespaces are taken for one.
#[must_use]
pub fn restored_name(restore_uid: &str, namespace: &str, snapshot: &str) -> String {
    hex::encode(Sha256::digest(format!("{restore_uid}/{namespace}/{snapshot}")))
}
