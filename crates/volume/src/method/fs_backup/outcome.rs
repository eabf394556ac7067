//! Outcomes of the restore of files.

use crate::restore_plan::SavedFiles;

/// The outcome for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOutcome {
    /// The namespace of its pod in the backup.
    pub source_namespace: String,
    /// The namespace of its pod in the cluster.
    pub namespace: String,
    /// The name of its pod.
    pub pod: String,
    /// Its name in the pod.
    pub volume: String,
    /// Its claim.
    pub claim: Option<String>,
    /// Its files.
    pub files: SavedFiles,
    /// The end of its restore.
    pub end: FileEnd,
}

/// The end of the restore of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// Its files are there.
    Restored {
        /// Their bytes.
        bytes: i64,
    },
    /// They are not, for this reason.
    Failed(String),
}

/// The state of the claims that are filled through a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimsFilled {
    /// All have their files.
    Yes,
    /// Some are still being filled.
    NotYet,
    /// At least one was not filled, for this reason.
    No(String),
}
