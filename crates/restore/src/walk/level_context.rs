//! Context in which levels are restored while the cluster serves the same types.

use crate::end::outcome::RestoreError;
use crate::hooks::commands::PodCommands;
use crate::object::additional::{Additional, ReportedOnce};
use crate::object::desired::ObjectBuilder;
use crate::object::item::{AttemptMemory, Restorer};
use crate::object::namespaces::Namespaces;
use crate::object::required_namespaces::RequiredNamespaces;
use crate::object::write::ClusterWriter;
use crate::plan::confirmed::ConfirmedPlan;
use crate::state::checkpoint::Checkpoint;
use crate::state::claimed_rows::ClaimedRows;
use crate::state::defined::Defined;
use crate::state::env::Env;
use crate::state::messages::Messages;
use crate::state::operations::Operations;
use crate::state::reader::BackupReader;
use crate::state::renamed::Renamed;
use crate::state::stop::Stop;
use crate::state::terminating::TerminationWaits;
use crate::state::wait_slots::WaitSlots;
use crate::volumes::snapshot_groups::SnapshotGroups;
use crate::walk::existence::{ExistenceLookup, ExistingObjects};
use crate::walk::preparation::PreparedRestore;
use crate::walk::read::Facts;
use crate::walk::scope::RestoreScope;
use lifeboat_api::Time;
use lifeboat_archive::index::Row;
use lifeboat_cluster::Cluster;
use lifeboat_object::ObjectKey;
use std::sync::Arc;

/// Context for restoring levels: handles of the lower stages, each of which keeps its own state.
pub(crate) struct LevelContext {
    pub(crate) mapping: Arc<RestoreScope>,
    pub(crate) namespaces: Arc<RequiredNamespaces>,
    pub(crate) restorer: Arc<Restorer>,
    pub(crate) builder: Arc<ObjectBuilder>,
    pub(crate) begun: Arc<ClaimedRows>,
    pub(crate) wait_slots: Arc<WaitSlots>,
    /// Set when nothing more is to be begun.
    pub(crate) stop: Arc<Stop>,
    /// Set when resuming a restore of which an earlier run was cut off.
    pub(crate) is_resumed: bool,
    pub(crate) env: Env,
}

/// State that lasts over all levels of a restore, whatever types the cluster serves.
pub(crate) struct RestoreState {
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) begun: Arc<ClaimedRows>,
    pub(crate) commands: Arc<PodCommands>,
    pub(crate) renamed: Arc<Renamed>,
    /// The types that the restore defines.
    pub(crate) defined: Arc<Defined>,
    /// The groups of snapshots that are restored.
    pub(crate) groups: Arc<SnapshotGroups>,
    messages: Arc<Messages>,
    reader: Arc<BackupReader>,
    wait_slots: Arc<WaitSlots>,
    told_missing: Arc<ReportedOnce>,
    pub(crate) remembered: AttemptMemory,
    pinned: Option<Arc<ConfirmedPlan>>,
    is_resumed: bool,
    /// The cluster, with the patience that all writes have together.
    cluster: Cluster,
}

impl RestoreState {
    /// Of a restore that begins, or that goes on where an earlier run was cut off.
    ///
    /// # Errors
    /// The cluster serves no namespaces.
    pub(crate) fn new(
        prepared: &PreparedRestore,
        operations: Arc<Operations>,
        pinned: Option<Arc<ConfirmedPlan>>,
        checkpoint: &Checkpoint,
    ) -> Result<Self, RestoreError> {
        let is_resumed = checkpoint.is_resumed();
        let timeout = prepared.terminating_timeout;
        let began = prepared.restore.metadata.creation_timestamp.filter(|_| is_resumed).map(Time::timestamp);
        let terminating = Arc::new(TerminationWaits::new(timeout));
        let messages = Arc::new(Messages::new(&prepared.env.operation.journal));
        Ok(Self {
            groups: Arc::new(SnapshotGroups::new(prepared.groups.clone(), Arc::clone(&messages), &prepared.env)),
            namespaces: Arc::new(
                Namespaces::new(prepared.namespaces()?, timeout, began, pinned.clone()).noting(checkpoint.namespaces()),
            ),
            begun: Arc::new(ClaimedRows::new(prepared.archive.rows().len())),
            commands: Arc::new(PodCommands::new(
                Arc::clone(&prepared.hooks),
                prepared.restore.spec.item_operation_timeout.to_std(),
                &prepared.env,
            )),
            renamed: Arc::default(),
            defined: Arc::default(),
            messages,
            reader: Arc::new(BackupReader::new(prepared.archive.clone(), Arc::clone(&prepared.stop))),
            wait_slots: Arc::default(),
            told_missing: Arc::default(),
            remembered: AttemptMemory {
                operations,
                kept: Arc::default(),
                lost_claims: Arc::default(),
                terminating,
                left_to_jobs: Arc::default(),
            },
            pinned,
            is_resumed,
            cluster: prepared.env.cluster.with_common_patience(),
        })
    }
}

impl LevelContext {
    /// While the cluster serves the types that are known.
    ///
    /// # Errors
    /// It serves no namespaces, or the restore selects with what is no selector.
    pub(crate) fn new(state: &RestoreState, prepared: &PreparedRestore) -> Result<Self, RestoreError> {
        let (stop, env) = (Arc::clone(&prepared.stop), prepared.env.clone());
        let builder = Arc::new(prepared.builder()?);
        let mapping = Arc::clone(&builder.mapping);
        let namespaces = Arc::new(RequiredNamespaces {
            mapping: Arc::clone(&mapping),
            namespaces: Arc::clone(&state.namespaces),
            reader: Arc::clone(&state.reader),
            env: env.clone(),
        });
        let additional = Additional {
            mapping: Arc::clone(&mapping),
            messages: Arc::clone(&state.messages),
            begun: Arc::clone(&state.begun),
            wait_slots: Arc::clone(&state.wait_slots),
            stop: Arc::clone(&stop),
            told_missing: Arc::clone(&state.told_missing),
            timeout: prepared.resource_timeout,
            env: env.clone(),
        };
        let writer = ClusterWriter {
            mapping: Arc::clone(&mapping),
            builder: Arc::clone(&builder),
            messages: Arc::clone(&state.messages),
            commands: Arc::clone(&state.commands),
            pinned: state.pinned.clone(),
            renamed: Arc::clone(&state.renamed),
            defined: Arc::clone(&state.defined),
            is_resumed: state.is_resumed,
            timeout: prepared.resource_timeout,
            cluster: state.cluster.clone(),
            env: env.clone(),
        };
        let restorer = Arc::new(Restorer {
            mapping: Arc::clone(&mapping),
            messages: Arc::clone(&state.messages),
            begun: Arc::clone(&state.begun),
            reader: Arc::clone(&state.reader),
            builder: Arc::clone(&builder),
            namespaces: Arc::clone(&namespaces),
            additional,
            native_volumes: Arc::clone(&prepared.native_volumes),
            writer,
            remembered: state.remembered.clone(),
            groups: Arc::clone(&state.groups),
            stop: Arc::clone(&stop),
        });
        let (begun, wait_slots) = (Arc::clone(&state.begun), Arc::clone(&state.wait_slots));
        Ok(Self { mapping, namespaces, restorer, builder, begun, wait_slots, stop, is_resumed: state.is_resumed, env })
    }

    /// A row of the archive.
    pub(crate) fn row(&self, number: usize) -> Option<&Row> {
        self.mapping.archive.row(number)
    }

    /// Returns the key in the cluster of an object of the backup.
    pub(crate) fn target_of(&self, key: &ObjectKey) -> ObjectKey {
        self.mapping.target_of(key)
    }

    /// Returns true if an object stays as it is, given the results of the existence check.
    pub(crate) fn stays(&self, row: &Row, one: Facts, presence: &ExistingObjects) -> bool {
        let target = self.target_of(&row.key());
        self.builder.stays(&target, presence.look(&target, one.state))
    }

    /// The input of the existence check.
    pub(crate) fn lookup(&self) -> ExistenceLookup<'_> {
        self.mapping.lookup(&self.env)
    }
}
