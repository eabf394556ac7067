//! Context in which levels are restored while the cluster serves the same types.

use crate::additional::{Additional, ReportedOnce};
use crate::checkpoint::Checkpoint;
use crate::claimed_rows::ClaimedRows;
use crate::confirmed_plan::ConfirmedPlan;
use crate::defined::Defined;
use crate::desired::ObjectBuilder;
use crate::env::Env;
use crate::existence::{ExistenceLookup, ExistingObjects};
use crate::item::{AttemptMemory, Restorer};
use crate::messages::Messages;
use crate::namespaces::Namespaces;
use crate::operations::Operations;
use crate::outcome::RestoreError;
use crate::pod_commands::PodCommands;
use crate::preparation::PreparedRestore;
use crate::read::Facts;
use crate::reader::BackupReader;
use crate::renamed::Renamed;
use crate::required_namespaces::RequiredNamespaces;
use crate::scope::RestoreScope;
use crate::snapshot_groups::SnapshotGroups;
use crate::stop::Stop;
use crate::terminating::TerminationWaits;
use crate::wait_slots::WaitSlots;
use crate::write::ClusterWriter;
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
    pub(crate) maker: Arc<ObjectBuilder>,
    pub(crate) begun: Arc<ClaimedRows>,
    pub(crate) aside: Arc<WaitSlots>,
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
    aside: Arc<WaitSlots>,
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
        walk: &PreparedRestore,
        operations: Arc<Operations>,
        pinned: Option<Arc<ConfirmedPlan>>,
        checkpoint: &Checkpoint,
    ) -> Result<Self, RestoreError> {
        let is_resumed = checkpoint.is_resumed();
        let timeout = walk.terminating_timeout;
        let began = walk.restore.metadata.creation_timestamp.filter(|_| is_resumed).map(Time::timestamp);
        let leaving = Arc::new(TerminationWaits::new(timeout));
        let messages = Arc::new(Messages::new(&walk.env.operation.journal));
        Ok(Self {
            groups: Arc::new(SnapshotGroups::new(walk.groups.clone(), Arc::clone(&messages), &walk.env)),
            namespaces: Arc::new(
                Namespaces::new(walk.namespaces()?, timeout, began, pinned.clone()).noting(checkpoint.namespaces()),
            ),
            begun: Arc::new(ClaimedRows::new(walk.archive.rows().len())),
            commands: Arc::new(PodCommands::new(
                Arc::clone(&walk.hooks),
                walk.restore.spec.item_operation_timeout.to_std(),
                &walk.env,
            )),
            renamed: Arc::default(),
            defined: Arc::default(),
            messages,
            reader: Arc::new(BackupReader::new(walk.archive.clone(), Arc::clone(&walk.stop))),
            aside: Arc::default(),
            told_missing: Arc::default(),
            remembered: AttemptMemory {
                operations,
                kept: Arc::default(),
                lost_claims: Arc::default(),
                leaving,
                left_to_jobs: Arc::default(),
            },
            pinned,
            is_resumed,
            cluster: walk.env.cluster.with_common_patience(),
        })
    }
}

impl LevelContext {
    /// While the cluster serves the types that are known.
    ///
    /// # Errors
    /// It serves no namespaces, or the restore selects with what is no selector.
    pub(crate) fn new(lasting: &RestoreState, walk: &PreparedRestore) -> Result<Self, RestoreError> {
        let (stop, env) = (Arc::clone(&walk.stop), walk.env.clone());
        let maker = Arc::new(walk.maker()?);
        let mapping = Arc::clone(&maker.mapping);
        let namespaces = Arc::new(RequiredNamespaces {
            mapping: Arc::clone(&mapping),
            namespaces: Arc::clone(&lasting.namespaces),
            reader: Arc::clone(&lasting.reader),
            env: env.clone(),
        });
        let additional = Additional {
            mapping: Arc::clone(&mapping),
            messages: Arc::clone(&lasting.messages),
            begun: Arc::clone(&lasting.begun),
            aside: Arc::clone(&lasting.aside),
            stop: Arc::clone(&stop),
            told_missing: Arc::clone(&lasting.told_missing),
            timeout: walk.resource_timeout,
            env: env.clone(),
        };
        let writer = ClusterWriter {
            mapping: Arc::clone(&mapping),
            maker: Arc::clone(&maker),
            messages: Arc::clone(&lasting.messages),
            commands: Arc::clone(&lasting.commands),
            pinned: lasting.pinned.clone(),
            renamed: Arc::clone(&lasting.renamed),
            defined: Arc::clone(&lasting.defined),
            is_resumed: lasting.is_resumed,
            timeout: walk.resource_timeout,
            cluster: lasting.cluster.clone(),
            env: env.clone(),
        };
        let restorer = Arc::new(Restorer {
            mapping: Arc::clone(&mapping),
            messages: Arc::clone(&lasting.messages),
            begun: Arc::clone(&lasting.begun),
            reader: Arc::clone(&lasting.reader),
            maker: Arc::clone(&maker),
            namespaces: Arc::clone(&namespaces),
            additional,
            natives: Arc::clone(&walk.natives),
            writer,
            remembered: lasting.remembered.clone(),
            groups: Arc::clone(&lasting.groups),
            stop: Arc::clone(&stop),
        });
        let (begun, aside) = (Arc::clone(&lasting.begun), Arc::clone(&lasting.aside));
        Ok(Self { mapping, namespaces, restorer, maker, begun, aside, stop, is_resumed: lasting.is_resumed, env })
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
        self.maker.stays(&target, presence.look(&target, one.state))
    }

    /// The input of the existence check.
    pub(crate) fn lookout(&self) -> ExistenceLookup<'_> {
        self.mapping.lookout(&self.env)
    }
}
