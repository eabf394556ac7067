//! The context in which objects are restored while the cluster serves the same types.

use crate::object::desired::ObjectBuilder;
use crate::plan::confirmed::ConfirmedPlan;
use crate::state::env::Env;
use crate::state::reader::BackupReader;
use crate::state::restore_state::RestoreState;
use crate::state::stop::Stop;
use crate::walk::existence::ExistingObjects;
use crate::walk::preparation::PreparedRestore;
use crate::walk::read::Facts;
use crate::walk::scope::RestoreScope;
use lifeboat_archive::index::Row;
use lifeboat_cluster::Cluster;
use std::sync::Arc;

/// All that the parts of a restore work with: what is restored, how objects are made, what has happened, and the cluster.
#[derive(Clone)]
pub(crate) struct RestoreContext {
    pub(crate) env: Env,
    pub(crate) scope: Arc<RestoreScope>,
    /// Makes the objects to be written.
    pub(crate) builder: Arc<ObjectBuilder>,
    pub(crate) state: Arc<RestoreState>,
    /// The plan that the restore is held to.
    pub(crate) plan: Option<Arc<ConfirmedPlan>>,
    /// Set when nothing more is to be begun.
    pub(crate) stop: Arc<Stop>,
    pub(crate) reader: Arc<BackupReader>,
    /// The cluster, with the patience that all writes of objects have together.
    pub(crate) writes: Cluster,
}

impl RestoreContext {
    /// The context in which a restore begins.
    pub(crate) fn new(prepared: &PreparedRestore, state: Arc<RestoreState>, plan: Option<Arc<ConfirmedPlan>>) -> Self {
        let PreparedRestore { env, scope, builder, stop, .. } = prepared;
        Self {
            env: env.clone(),
            scope: Arc::clone(scope),
            builder: Arc::clone(builder),
            state,
            plan,
            stop: Arc::clone(stop),
            reader: Arc::new(BackupReader::new(scope.archive.clone(), Arc::clone(stop))),
            writes: env.cluster.with_common_patience(),
        }
    }

    /// The same context with the types that the cluster serves by now.
    pub(crate) fn serving(&self, prepared: &PreparedRestore) -> Self {
        Self { scope: Arc::clone(&prepared.scope), builder: Arc::clone(&prepared.builder), ..self.clone() }
    }

    /// A row of the archive.
    pub(crate) fn row(&self, number: usize) -> Option<&Row> {
        self.scope.archive.row(number)
    }

    /// Returns true if an object stays as it is, given the results of the existence check.
    pub(crate) fn stays(&self, row: &Row, one: Facts, presence: &ExistingObjects) -> bool {
        let target = self.scope.target_of(&row.key());
        self.builder.stays(&self.scope, &target, presence.look(&target, one.state))
    }
}
