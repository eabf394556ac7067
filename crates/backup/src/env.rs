//! What a backup is given.

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
    /// The cluster to save.
    pub cluster: Cluster,
    /// Where to.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The log of this backup.
    pub journal: Journal,
    /// How far it is, for who watches.
    pub progress: Arc<Progress>,
    /// A folder for objects that the memory budget cannot hold.
    pub scratch: PathBuf,
    /// Set to stop: seen between steps and in every wait.
    pub cancel: CancellationToken,
}
