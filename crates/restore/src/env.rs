//! What a restore is given.

use crate::checkpoint::CheckpointStore;
use lifeboat_action::Progress;
use lifeboat_archive::journal::{Clock, Journal};
use lifeboat_cluster::Cluster;
use lifeboat_store::Store;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Everything the engine uses that is not its own: no clock, environment or randomness comes from elsewhere.
#[derive(Clone)]
pub struct Env {
    /// The cluster to write to.
    pub cluster: Cluster,
    /// Where the backup lies.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The log of this restore.
    pub journal: Journal,
    /// How far it is, for the next run when this one is cut off.
    pub checkpoint: Arc<dyn CheckpointStore>,
    /// How far it is, for who watches.
    pub progress: Arc<Progress>,
    /// Set to stop: seen between steps and in every wait.
    pub cancel: CancellationToken,
    /// A folder for the copy of an archive without index.
    pub scratch: PathBuf,
}
