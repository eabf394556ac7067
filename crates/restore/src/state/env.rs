//! Dependencies that a restore is given by its caller.

use lifeboat_action::Actions;
use lifeboat_cluster::Cluster;
use lifeboat_operation::Operation;
use lifeboat_store::Store;

/// Everything the engine uses that is not its own: no clock, environment or randomness comes from elsewhere.
#[derive(Clone)]
pub struct Env {
    /// The cluster to write to.
    pub cluster: Cluster,
    /// Where the backup lies.
    pub store: Store,
    /// Actions that are not the engine's own, which come before them.
    pub actions: Actions,
    /// Operation of this restore: its clock, log and cancellation. Its records hold the checkpoint, and its scratch
    /// folder the copy of an archive without index.
    pub operation: Operation,
}
