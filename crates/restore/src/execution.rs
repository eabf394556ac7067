//! Context in which levels are restored while the cluster serves the same types.

use crate::additional::{Additional, ToldMissing};
use crate::aside::Aside;
use crate::begun::Begun;
use crate::check::{Lookout, Presence};
use crate::checkpoint::Checkpoint;
use crate::defined::Defined;
use crate::desired::Maker;
use crate::ensure::NeededNamespaces;
use crate::env::Env;
use crate::item::{Remembered, Restorer};
use crate::leaving::LeavingWaits;
use crate::mapping::Mapping;
use crate::messages::Messages;
use crate::namespaces::Namespaces;
use crate::operations::Operations;
use crate::outcome::RestoreError;
use crate::pinned::Pinned;
use crate::pod_commands::PodCommands;
use crate::read::Facts;
use crate::reader::Reader;
use crate::renamed::Renamed;
use crate::snapshot_groups::SnapshotGroups;
use crate::stop::Stop;
use crate::walk::Walk;
use crate::write::Writer;
use lifeboat_api::Time;
use lifeboat_archive::index::Row;
use lifeboat_cluster::Cluster;
use lifeboat_object::ObjectKey;
use std::sync::Arc;

/// Context for restoring levels: handles of the lower stages, each of which keeps its own state.
pub(crate) struct Execution {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) namespaces: Arc<NeededNamespaces>,
    pub(crate) restorer: Arc<Restorer>,
    pub(crate) maker: Arc<Maker>,
    pub(crate) begun: Arc<Begun>,
    pub(crate) aside: Arc<Aside>,
    /// Set when nothing more is to be begun.
    pub(crate) stop: Arc<Stop>,
    /// Set when resuming a restore of which an earlier run was cut off.
    pub(crate) is_resumed: bool,
    pub(crate) env: Env,
}

/// State that lasts over all levels of a restore, whatever types the cluster serves.
pub(crate) struct Lasting {
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) begun: Arc<Begun>,
    pub(crate) commands: Arc<PodCommands>,
    pub(crate) renamed: Arc<Renamed>,
    /// The types that the restore defines.
    pub(crate) defined: Arc<Defined>,
    /// The groups of snapshots that are restored.
    pub(crate) groups: Arc<SnapshotGroups>,
    messages: Arc<Messages>,
    reader: Arc<Reader>,
    aside: Arc<Aside>,
    told_missing: Arc<ToldMissing>,
    pub(crate) remembered: Remembered,
    pinned: Option<Arc<Pinned>>,
    is_resumed: bool,
    /// The cluster, with the patience that all writes have together.
    cluster: Cluster,
}

impl Lasting {
    /// Of a restore that begins, or that goes on where an earlier run was cut off.
    ///
    /// # Errors
    /// The cluster serves no namespaces.
    pub(crate) fn new(
        walk: &Walk,
        operations: Arc<Operations>,
        pinned: Option<Arc<Pinned>>,
        checkpoint: &Checkpoint,
    ) -> Result<Self, RestoreError> {
        let is_resumed = checkpoint.is_resumed();
        let timeout = walk.terminating_timeout;
        let began = walk.restore.metadata.creation_timestamp.filter(|_| is_resumed).map(Time::timestamp);
        let leaving = Arc::new(LeavingWaits::new(timeout));
        let messages = Arc::new(Messages::new(&walk.env.operation.journal));
        Ok(Self {
            groups: Arc::new(SnapshotGroups::new(walk.groups.clone(), Arc::clone(&messages), &walk.env)),
            namespaces: Arc::new(
                Namespaces::new(walk.namespaces()?, timeout, began, pinned.clone()).noting(checkpoint.namespaces()),
            ),
            begun: Arc::new(Begun::new(walk.archive.rows().len())),
            commands: Arc::new(PodCommands::new(
                Arc::clone(&walk.hooks),
                walk.restore.spec.item_operation_timeout.to_std(),
                &walk.env,
            )),
            renamed: Arc::default(),
            defined: Arc::default(),
            messages,
            reader: Arc::new(Reader::new(walk.archive.clone(), Arc::clone(&walk.stop))),
            aside: Arc::default(),
            told_missing: Arc::default(),
            remembered: Remembered {
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

impl Execution {
    /// While the cluster serves the types that are known.
    ///
    /// # Errors
    /// It serves no namespaces, or the restore selects with what is no selector.
    pub(crate) fn new(lasting: &Lasting, walk: &Walk) -> Result<Self, RestoreError> {
        let (stop, env) = (Arc::clone(&walk.stop), walk.env.clone());
        let maker = Arc::new(walk.maker()?);
        let mapping = Arc::clone(&maker.mapping);
        let namespaces = Arc::new(NeededNamespaces {
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
        let writer = Writer {
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
    pub(crate) fn stays(&self, row: &Row, one: Facts, presence: &Presence) -> bool {
        let target = self.target_of(&row.key());
        self.maker.stays(&target, presence.look(&target, one.state))
    }

    /// The input of the existence check.
    pub(crate) fn lookout(&self) -> Lookout<'_> {
        self.mapping.lookout(&self.env)
    }
}
