//! Settings of the backup of volumes by their files.

use lifeboat_api::Backup;
use std::sync::Arc;
use std::time::Duration;

/// The backup whose volumes are saved, and its limits.
#[derive(Clone, Debug)]
pub struct FileBackupSettings {
    /// The backup, with its storage location.
    pub backup: Arc<Backup>,
    /// Longest time for all volumes, unless bytes of them are moved.
    pub whole: Duration,
    /// Longest wait for a repository, and for a reader pod to run.
    pub resource_timeout: Duration,
    /// The image of the server, which reader pods have; empty when it is not known.
    pub image: String,
}
