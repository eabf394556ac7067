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
    /// This restore: its clock, its log, what stops it. Its checkpoint is among its records, and the copy of an archive
    /// without index in its scratch folder.
    pub operation: Operation,
}
