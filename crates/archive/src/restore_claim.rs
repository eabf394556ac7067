//! `restores/<name>/lifeboat-claim.json`: whose restore the files of a name belong to (docs/formats/claim.md).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Value of [`RestoreClaim::format`].
pub const RESTORE_CLAIM_FORMAT: &str = "lifeboat.io/restore-claim/v1";

/// The restore to which the files of a name belong. It is put before any other file, and only when there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreClaim {
    /// [`RESTORE_CLAIM_FORMAT`].
    pub format: String,
    /// UID of the cluster's namespace `kube-system`; empty when it could not be read.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// UID of the Restore.
    #[serde(rename = "restoreUID")]
    pub restore_uid: String,
    /// Namespace of the server that restores; empty when no server does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The time when the claim was put.
    pub claimed: Timestamp,
    /// The time until which the originals of objects that were recreated or removed stay, also when the restore is
    /// deleted.
    pub keep_replaced_until: Timestamp,
    /// Set by a command that has told its user that a server removes the files when their time is over. Those before have told that
    /// nothing does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub swept: bool,
    /// Name of the backup that it restores from; empty in claims of versions before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub backup: String,
    /// UID of that backup, as its record has it.
    #[serde(default, rename = "backupUID", skip_serializing_if = "String::is_empty")]
    pub backup_uid: String,
    /// The time until which it reads that backup, unless it gives another sign of life before; absent when it reads it no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_until: Option<Timestamp>,
}

impl RestoreClaim {
    /// Returns true if the server of this namespace of this cluster has put the claim, or, with an empty namespace, a
    /// command of this cluster: a name is there once, so that of two such restores the later one has the name. Clusters
    /// whose UID could not be read count as one, as long as no restore there reads its backup; other than for the claim of a
    /// backup, where an empty UID or namespace is nobody's.
    #[must_use]
    pub fn is_of_server(&self, cluster_uid: &str, namespace: &str) -> bool {
        self.cluster_uid == cluster_uid && self.namespace == namespace
    }

    /// Returns true if a command without a server has put the claim, in this cluster; of an unknown cluster none has.
    #[must_use]
    pub fn is_of_command(&self, cluster_uid: &str) -> bool {
        !cluster_uid.is_empty() && self.cluster_uid == cluster_uid && self.namespace.is_empty()
    }

    /// Returns true if it is of this very restore.
    #[must_use]
    pub fn is_of(&self, cluster_uid: &str, restore_uid: &str) -> bool {
        self.cluster_uid == cluster_uid && self.restore_uid == restore_uid
    }
}
