//! Performs the steps of plans: each is a task that reads, writes, and returns its changes.

pub(crate) mod backup;
mod bucket_id;
mod claim;
pub(crate) mod deletion;
pub(crate) mod download;
pub(crate) mod expiry;
pub(crate) mod finalizer;
pub(crate) mod keep;
mod kept_snapshots;
pub(crate) mod leftover;
pub(crate) mod location;
mod merge;
mod next_backups;
mod own_files;
pub(crate) mod pending;
mod probe;
mod reading_restores;
pub(crate) mod repository;
pub(crate) mod restore;
pub(crate) mod running;
pub(crate) mod schedule;
pub(crate) mod status;
pub(crate) mod sweep;
pub(crate) mod sync;
pub(crate) mod unreadable;

use crate::buckets::{Buckets, Purpose};
use crate::event::{emit, warning};
use crate::extensions::located;
use crate::fence::Fenced;
use crate::http::download::Signer;
use crate::location_notes::LocationNotes;
use crate::metrics::Metrics;
use crate::options::{Env, Options};
use crate::running_jobs::RunningJobs;
use crate::world::{Leftover, Meta, MirroredKind, MirroredObject, World};
use jiff::Timestamp;
use lifeboat_action::Actions;
use lifeboat_api::NamespacedName;
use lifeboat_api::{BackupStorageLocation, VolumeSnapshotLocation};
use lifeboat_bucket::BlobStore;
use lifeboat_client::{Client, ObjectIdentity};
use lifeboat_cluster::ClusterError;
use lifeboat_object::chain;
use lifeboat_operation::Journal;
use lifeboat_reconcile::Leadership;
use lifeboat_store::{Store, StoreError};
use std::error::Error;
use std::sync::{Arc, OnceLock};

/// The means and settings that every task is given.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) env: Env,
    pub(crate) options: Options,
    pub(crate) leadership: Leadership,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) buckets: Arc<Buckets>,
    /// Signs URLs of our own port, when there is one.
    pub(crate) signer: Option<Signer>,
    pub(crate) notes: Arc<ServerNotes>,
}

/// Facts that the server remembers from one step to the next, and finds out anew after a restart.
#[derive(Debug, Default)]
pub(crate) struct ServerNotes {
    /// The UID of the cluster, once it was read.
    pub(crate) cluster_uid: OnceLock<String>,
    /// Facts about locations.
    pub(crate) locations: LocationNotes,
    /// The maintenance Jobs that run.
    pub(crate) maintenance_jobs: RunningJobs,
}

/// Something that a task has changed, ahead of the mirrors.
#[derive(Debug)]
pub(crate) enum Effect {
    /// The object is like this now.
    Stored(MirroredObject),
    /// This object is gone.
    Gone(MirroredKind, ObjectIdentity),
    /// Files that a Backup left which is gone.
    Left(Box<Leftover>),
    /// This location could not be synced, for this reason, though it was validated.
    NotSynced(NamespacedName, Box<StepError>),
}

impl Effect {
    /// An object is like this now.
    pub(crate) fn stored(object: impl Into<MirroredObject>) -> Self {
        Self::Stored(object.into())
    }

    pub(crate) fn apply(self, world: &mut World) {
        match self {
            Self::Stored(object) => world.put(object),
            Self::Gone(kind, object) => world.remove(kind, &object),
            Self::Left(left) => world.left.push(*left),
            // Remembered as a failure; nothing in the world has changed.
            Self::NotSynced(..) => {}
        }
    }
}

/// A step that could not be finished; it is tried again later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    /// The API server.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// There is nothing to do yet: to be looked at again after this time.
    #[error("not before {} s", .0.as_secs())]
    NotYet(std::time::Duration),
    /// Anything else, for people.
    #[error("{0}")]
    Because(String),
}

impl StepError {
    /// An error with all its causes.
    pub(crate) fn because(error: &(dyn Error + 'static)) -> Self {
        Self::Because(chain(error))
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self::because(&error)
    }
}

/// The result of a task.
pub(crate) type StepResult = Result<Vec<Effect>, StepError>;

/// The snapshot locations whose snapshotters an operation is given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SnapshotLocations<'a> {
    /// The locations of these names, in this order. Missing ones are left out, and the engine reports them.
    Named(&'a [String]),
    /// All of the namespace: which of them is needed stands in the files of a backup.
    All,
}

impl Context {
    /// Writes an event that warns of something about an object.
    pub(crate) async fn warn_of<T: Meta>(&self, object: &T, reason: &str, message: &str) {
        let warning = warning(object, reason, message);
        emit(&self.client, warning.event(&self.options.identity, self.env.now())).await;
    }

    /// The UID of the cluster; empty when it may not be read, which is asked again.
    pub(crate) async fn cluster_uid(&self) -> Result<String, ClusterError> {
        if let Some(known) = self.notes.cluster_uid.get() {
            return Ok(known.clone());
        }
        let uid = self.client.cluster.uid().await?;
        if !uid.is_empty() {
            // Another task may have been faster, with the same answer.
            let _ = self.notes.cluster_uid.set(uid.clone());
        }
        Ok(uid)
    }

    /// The time by the clock of this server or by that of the API server, whichever says less: what goes when its time is over does not come
    /// back, and one of both may be wrong.
    pub(crate) async fn earliest_now(&self) -> Result<Timestamp, ClusterError> {
        self.client.cluster.earlier_time(self.env.now()).await
    }

    /// The bucket of a location for an operation, below its prefix and behind the fence.
    pub(crate) async fn bucket(&self, location: &BackupStorageLocation) -> Result<Arc<dyn BlobStore>, String> {
        self.opened(location, Purpose::Operation).await
    }

    /// The bucket of a location for a visit, below its prefix and behind the fence.
    pub(crate) async fn visited_bucket(&self, location: &BackupStorageLocation) -> Result<Arc<dyn BlobStore>, String> {
        self.opened(location, Purpose::Visit).await
    }

    async fn opened(&self, location: &BackupStorageLocation, purpose: Purpose) -> Result<Arc<dyn BlobStore>, String> {
        let inner = self.buckets.open(&self.client, &*self.env.providers, location, purpose).await?;
        if self.env.providers.is_directory(location) {
            bucket_id::check(location, &*inner).await?;
        }
        Ok(Arc::new(Fenced { inner, leadership: self.leadership.clone() }))
    }

    /// The backups of a location, for an operation.
    pub(crate) async fn store(&self, location: &BackupStorageLocation) -> Result<Store, String> {
        Ok(self.patient(self.bucket(location).await?, location))
    }

    /// The backups of a location, for a visit.
    pub(crate) async fn visited_store(&self, location: &BackupStorageLocation) -> Result<Store, String> {
        Ok(self.patient(self.visited_bucket(location).await?, location))
    }

    /// The actions of the plugins for an operation, with the snapshotters of these snapshot locations, or of all.
    pub(crate) async fn actions(&self, journal: &Journal, which: SnapshotLocations<'_>) -> Result<Actions, String> {
        let extensions = &self.env.extensions;
        let failed = |why| format!("the plugins of this server cannot be used: {why}");
        let mut actions = extensions.actions(journal).await.map_err(failed)?;
        if !self.options.backup.features.csi {
            for name in actions.leave_out_csi() {
                let why = "An action is not called, because the feature EnableCSI is off";
                journal.info(why, &[("action", &name)]);
            }
        }
        for location in self.snapshot_locations(which).await? {
            actions.volume_snapshotters.push(located(&self.client, extensions, location, journal));
        }
        Ok(actions)
    }

    async fn snapshot_locations(&self, which: SnapshotLocations<'_>) -> Result<Vec<VolumeSnapshotLocation>, String> {
        if matches!(which, SnapshotLocations::Named([])) {
            return Ok(Vec::new());
        }
        let all = self.client.list::<VolumeSnapshotLocation>("").await;
        let mut all = all.map_err(|e| format!("error listing volume snapshot locations: {e}"))?;
        if let SnapshotLocations::Named(names) = which {
            let place = |location: &VolumeSnapshotLocation| names.iter().position(|n| *n == location.metadata.name);
            all.retain(|location| place(location).is_some());
            all.sort_by_key(place);
        }
        Ok(all)
    }

    /// The backups in the bucket of a location.
    fn patient(&self, bucket: Arc<dyn BlobStore>, location: &BackupStorageLocation) -> Store {
        let store = Store::new(bucket).with_patience(self.env.cluster.patience());
        store.with_conditional_puts(self.notes.locations.puts(location))
    }
}
