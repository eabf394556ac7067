//! Snapshots whose data a data mover carries away.

use crate::facts::{Claim, PersistentVolume};
use crate::method::csi::backup::outcomes::{Outcomes, TakenSnapshot};
use crate::method::csi::content::SnapshotContent;
use crate::method::csi::error::CsiError;
use crate::method::data_movement::backup::{BegunUpload, DataUploads};
use crate::method::data_movement::upload::SnapshotToMove;
use lifeboat_action::{ActionError, OperationProgress};
use lifeboat_api::{Backup, NamespacedName};

/// The movement of the data of snapshots of a backup.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotMoves<'a> {
    pub(crate) backup: &'a Backup,
    pub(crate) outcomes: &'a Outcomes,
    pub(crate) uploads: &'a DataUploads,
}

/// A claim whose data is to be moved.
#[derive(Clone, Copy)]
pub(crate) struct ClaimToMove<'a> {
    pub(crate) claim: &'a Claim,
    /// Its volume, where the backup has read it.
    pub(crate) volume: Option<&'a PersistentVolume>,
}

impl SnapshotMoves<'_> {
    /// Notes that the data of a claim is to be moved out of its snapshot.
    pub(crate) fn note(self, claim: &NamespacedName) {
        self.outcomes.note_moved(claim);
    }

    /// Finds out before the snapshot of a claim is taken that the cluster takes the DataUpload of it.
    pub(crate) async fn check(self, claim: &Claim) -> Result<(), CsiError> {
        let of = SnapshotToMove {
            namespace: &claim.key.namespace,
            claim: &claim.key.name,
            claim_uid: &claim.uid,
            storage_class: &claim.storage_class,
            fs_type: "",
            snapshot: "",
            snapshot_class: "",
            driver: "",
            data_mover: "",
        };
        let checked = self.uploads.check_definition(of, self.backup).await;
        checked.map_err(CsiError::CannotBeMoved)
    }

    /// Asks a data mover for the data of a claim, whose snapshot was taken. `None` when that failed, which is the outcome of the claim
    /// then.
    pub(crate) async fn begin(
        self,
        of: ClaimToMove<'_>,
        taken: &TakenSnapshot,
        data_mover: &str,
    ) -> Option<BegunUpload> {
        let claim = of.claim;
        let of = SnapshotToMove {
            namespace: &claim.key.namespace,
            claim: &claim.key.name,
            claim_uid: &claim.uid,
            storage_class: &claim.storage_class,
            fs_type: of.volume.map_or("", |volume| &volume.fs_type),
            snapshot: &taken.name,
            snapshot_class: &taken.class,
            driver: &taken.content.driver,
            data_mover,
        };
        let begun = self.uploads.begin(of, self.backup).await;
        self.outcomes.note_upload(&claim.key, begun.clone());
        begun.ok()
    }

    /// The snapshot of this name of a claim that an attempt before has taken and given to a data mover, whose work goes on or is done:
    /// the objects of the snapshot may be gone by then.
    pub(crate) async fn begun_before(self, claim: &Claim, name: &str) -> Result<Option<TakenSnapshot>, CsiError> {
        let upload = self.uploads.taken_up(&claim.uid, name, self.backup).await;
        let upload = upload.map_err(|e| CsiError::UploadsUnknown(e.message))?;
        let Some(snapshot) = upload.and_then(|upload| upload.spec.csi_snapshot.as_ref()) else { return Ok(None) };
        Ok(Some(TakenSnapshot {
            namespace: claim.key.namespace.clone(),
            name: name.to_owned(),
            class: snapshot.snapshot_class.clone(),
            content: SnapshotContent { driver: snapshot.driver.clone(), ..SnapshotContent::default() },
            at: None,
            group: None,
        }))
    }

    /// The progress of an operation that moves data.
    pub(crate) async fn progress(self, operation_id: &str) -> Result<OperationProgress, ActionError> {
        self.uploads.progress(operation_id, self.backup).await
    }

    /// Asks such an operation to end.
    pub(crate) async fn cancel(self, operation_id: &str) -> Result<(), ActionError> {
        self.uploads.cancel(operation_id, self.backup).await
    }
}
