//! Signs of life in the claim of a backup that is being written.

use crate::write::encode_claim;
use crate::{Store, StoreError};
use jiff::Timestamp;
use lifeboat_archive::layout::BackupFile;
use lifeboat_bucket::PutOptions;

impl Store {
    /// Notes in the claim of this very backup that it is being written at this time. Nothing is changed when the claim is
    /// of another backup, or there is none.
    ///
    /// Only the writer of the backup may call it, and only while it holds the right to write for longer than this
    /// takes: no other writer may take the claim over between its reading and its storing.
    ///
    /// # Errors
    /// [`StoreError::Bucket`], [`StoreError::Sidecar`] when the claim cannot be read.
    pub async fn refresh_claim(&self, name: &str, backup_uid: &str, now: Timestamp) -> Result<(), StoreError> {
        let Some(mut claim) = self.claim_of(name).await?.filter(|claim| claim.backup_uid == backup_uid) else {
            return Ok(());
        };
        claim.refreshed = Some(now);
        let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
        self.put(&BackupFile::Claim.key(name), encode_claim(&claim)?.into(), options).await
    }
}
