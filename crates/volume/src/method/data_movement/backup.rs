//! Data of CSI snapshots that a data mover carries into a repository.
//!
//! A DataUpload asks a data mover for it, once the snapshot is taken. It is an asynchronous operation of the backup, and found by its
//! name by an attempt after this one. The data mover takes the objects of the snapshot over and deletes them; what it leaves is
//! removed when the backup ends.

use crate::method::child::{list, make_or_take_up, resource_type};
pub use crate::method::data_movement::upload::goes_well;
use crate::method::data_movement::upload::{
    SnapshotToMove, data_upload, is_same, operation_id, progress_of, snapshot_of,
};
use crate::method::definition::Definitions;
use crate::method::fs_backup::cancel::{cancel, cancel_each};
use crate::method::fs_backup::repository::NeededRepository;
use lifeboat_action::{ActionError, OperationProgress};
use lifeboat_api::well_known::{LABEL_ASYNC_OPERATION_ID, LABEL_BACKUP_UID, LABEL_PVC_UID};
use lifeboat_api::{Backup, DataMover, DataPathPhase, DataUpload, GROUP, Resource};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_operation::Operation;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{Mutex, OnceCell};

/// The DataUploads of one backup.
pub(crate) struct DataUploads {
    cluster: Cluster,
    operation: Operation,
    /// The ones that were there when they were first asked for.
    listed: OnceCell<Result<Vec<DataUpload>, ActionError>>,
    /// The namespaces whose repositories are made.
    repositories: Mutex<BTreeSet<String>>,
    definitions: Definitions,
}

/// A DataUpload that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BegunUpload {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// The operation that it stands for.
    pub(crate) operation_id: String,
    /// The data mover; empty for the built-in one.
    pub(crate) data_mover: String,
}

impl BegunUpload {
    /// The key of the object.
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(GroupResource::new(GROUP, DataUpload::PLURAL), Some(&self.namespace), &self.name)
    }
}

impl DataUploads {
    /// Makes none yet.
    pub(crate) fn new(cluster: &Cluster, operation: &Operation) -> Self {
        Self {
            cluster: cluster.clone(),
            operation: operation.clone(),
            listed: OnceCell::new(),
            repositories: Mutex::default(),
            definitions: Definitions::default(),
        }
    }

    /// Finds out before a snapshot is taken that the cluster takes the DataUpload of it.
    ///
    /// # Errors
    /// The reason for people.
    pub(crate) async fn check_definition(&self, of: SnapshotToMove<'_>, backup: &Backup) -> Result<(), String> {
        self.definitions.body_of(&self.cluster, &data_upload(backup, of)).await.map(drop)
    }

    /// Asks a data mover for the data of a snapshot, unless an earlier attempt has asked for it. The repository is made when it is
    /// missing; a data mover of somebody else has its own.
    ///
    /// # Errors
    /// The reason for people.
    pub(crate) async fn begin(&self, of: SnapshotToMove<'_>, backup: &Backup) -> Result<BegunUpload, String> {
        (self.operation.fence)()?;
        if DataMover::of(of.data_mover).is_of_velero() {
            self.repository(of.namespace, backup).await?;
        }
        let wanted = data_upload(backup, of);
        let is_usable = |found: &DataUpload| goes_well(found) && is_same(found, &wanted);
        let make = |body| make_or_take_up::<DataUpload>(&self.cluster, &wanted.metadata, body, &is_usable);
        self.definitions.make(&self.cluster, &wanted, make).await?;
        let operation_id = operation_id(&backup.metadata.uid, of.claim_uid);
        let (namespace, name) = (wanted.metadata.namespace, wanted.metadata.name);
        Ok(BegunUpload { namespace, name, operation_id, data_mover: of.data_mover.to_owned() })
    }

    /// Makes the repository of a namespace, unless it is there. The data mover waits until it is ready.
    async fn repository(&self, volume_namespace: &str, backup: &Backup) -> Result<(), String> {
        let mut made = self.repositories.lock().await;
        if made.contains(volume_namespace) {
            return Ok(());
        }
        let (namespace, location) = (&backup.metadata.namespace, &backup.spec.storage_location);
        let needed = NeededRepository { namespace, volume_namespace, location };
        needed.find_or_make(&self.cluster).await.map_err(|e| format!("error to ensure repository: {e}"))?;
        made.insert(volume_namespace.to_owned());
        Ok(())
    }

    /// The DataUpload of an earlier attempt that moves this snapshot of the claim of this UID, or has moved it.
    ///
    /// # Errors
    /// [`ActionError`].
    pub(crate) async fn taken_up(
        &self,
        claim_uid: &str,
        snapshot: &str,
        backup: &Backup,
    ) -> Result<Option<&DataUpload>, ActionError> {
        let is_it = |upload: &&DataUpload| {
            upload.metadata.labels.get(LABEL_PVC_UID).is_some_and(|uid| uid == claim_uid)
                && snapshot_of(upload) == snapshot
                && goes_well(upload)
        };
        Ok(self.listed(backup).await?.iter().find(is_it))
    }

    /// The progress of an operation.
    ///
    /// # Errors
    /// [`ActionError`]: that its DataUpload is not there, or that there are several.
    pub(crate) async fn progress(&self, id: &str, backup: &Backup) -> Result<OperationProgress, ActionError> {
        match self.of_operation(id, backup).await?[..] {
            [] => Err(ActionError::item(format!("the DataUpload of operation {id} was deleted: make another backup"))),
            [upload] => Ok(progress_of(upload)),
            ref several => {
                let names: Vec<&str> = several.iter().map(|upload| upload.metadata.name.as_str()).collect();
                Err(ActionError::item(format!(
                    "there is more than one DataUpload of operation {id}: {}; keep the newest and delete the others",
                    names.join(", ")
                )))
            }
        }
    }

    /// Asks an operation to end.
    ///
    /// # Errors
    /// [`ActionError`].
    pub(crate) async fn cancel(&self, id: &str, backup: &Backup) -> Result<(), ActionError> {
        let kind = resource_type::<DataUpload>();
        for upload in self.of_operation(id, backup).await? {
            let metadata = &upload.metadata;
            cancel(&self.cluster, &kind, &metadata.namespace, &metadata.name).await.map_err(|e| action_error(&e))?;
        }
        Ok(())
    }

    async fn of_operation(&self, id: &str, backup: &Backup) -> Result<Vec<&DataUpload>, ActionError> {
        let is_it =
            |upload: &&DataUpload| upload.metadata.labels.get(LABEL_ASYNC_OPERATION_ID).is_some_and(|of| of == id);
        Ok(self.listed(backup).await?.iter().filter(is_it).collect())
    }

    /// All DataUploads of the backup, read once for as many as ask.
    async fn listed(&self, backup: &Backup) -> Result<&Vec<DataUpload>, ActionError> {
        let look = || async { uploads_of(backup, &self.cluster).await.map_err(|e| action_error(&e)) };
        // An error too: as many as ask would ask again.
        self.listed.get_or_init(look).await.as_ref().map_err(Clone::clone)
    }
}

/// The number of data movers that still work for a backup: a snapshot that one of them finishes now is in no record yet.
///
/// # Errors
/// [`ClusterError`].
pub async fn working_uploads(backup: &Backup, cluster: &Cluster) -> Result<usize, ClusterError> {
    use DataPathPhase as P;
    let works = |upload: &&DataUpload| {
        matches!(upload.status.phase, Some(P::Accepted | P::Prepared | P::InProgress | P::Canceling))
            && DataMover::of(&upload.spec.data_mover).is_of_velero()
    };
    Ok(uploads_of(backup, cluster).await?.iter().filter(works).count())
}

/// The DataUploads of a backup. A cluster that serves none has none.
///
/// # Errors
/// [`ClusterError`].
pub async fn uploads_of(backup: &Backup, cluster: &Cluster) -> Result<Vec<DataUpload>, ClusterError> {
    let of = &backup.metadata;
    if of.uid.is_empty() || of.namespace.is_empty() {
        return Ok(Vec::new());
    }
    match list(cluster, &of.namespace, format!("{LABEL_BACKUP_UID}={}", of.uid)).await {
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        found => found,
    }
}

/// Asks the data movers of a backup to stop, but those whose DataUpload is wanted, by its name.
///
/// # Errors
/// [`ClusterError`]: not all of them were asked.
pub async fn stop_uploads(
    backup: &Backup,
    is_wanted: impl Fn(&str) -> bool,
    cluster: &Cluster,
) -> Result<(), ClusterError> {
    let of = &backup.metadata;
    if of.uid.is_empty() || of.namespace.is_empty() {
        return Ok(());
    }
    let all = ListRequest::all(Arc::new(resource_type::<DataUpload>())).in_namespace(Some(of.namespace.clone()));
    cancel_each(all.labelled(format!("{LABEL_BACKUP_UID}={}", of.uid)), |name| !is_wanted(name), cluster).await
}

fn action_error(error: &ClusterError) -> ActionError {
    if error.can_pass() { ActionError::passing(error.to_string()) } else { ActionError::item(error.to_string()) }
}
