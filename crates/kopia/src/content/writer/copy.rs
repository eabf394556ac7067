//! Copies of contents, for maintenance.

use super::ContentWriter;
use super::batch::Ready;
use super::entry::{Pending, next_timestamp};
use super::state::Claim;
use crate::KopiaError;
use crate::content::missing;
use crate::format::content_id::ContentId;

impl ContentWriter {
    /// Copies a content as it is stored into a new pack, after its bytes were verified. A deleted one stays deleted.
    ///
    /// # Errors
    /// A content that is missing or damaged; an earlier failure of the writer.
    pub async fn rewrite(&self, id: &ContentId) -> Result<(), KopiaError> {
        self.copy(id, false).await
    }

    /// Copies a deleted content as [`ContentWriter::rewrite`] does and marks it as live. One that is live stays as it is.
    ///
    /// # Errors
    /// As [`ContentWriter::rewrite`].
    pub async fn undelete(&self, id: &ContentId) -> Result<(), KopiaError> {
        self.copy(id, true).await
    }

    async fn copy(&self, id: &ContentId, is_undeletion: bool) -> Result<(), KopiaError> {
        let context = &self.inner.context;
        context.check()?;
        context.contents.refresh_when_old().await?;
        let known = self.known(id)?.ok_or_else(|| missing(id))?;
        // Packed and plain.
        let bytes = u64::from(known.packed_length).saturating_add(u64::from(known.original_length));
        let memory = self.reserve(usize::try_from(bytes).unwrap_or(usize::MAX)).await?;
        let claim = Claim::take(&self.inner.state, *id).await;
        let known = self.known(id)?.ok_or_else(|| missing(id))?;
        if is_undeletion && !known.is_deleted {
            return Ok(());
        }
        let (known, stored) = self.stored(id, known).await?;
        context.packs.wait().await;
        let (id, writer) = (*id, self.clone());
        let threads = self.inner.threads.clone();
        self.inner
            .threads
            .run(stored.len(), move || {
                let context = &writer.inner.context;
                threads.decode(&known.record(&id), &stored)?;
                let timestamp = next_timestamp(context.now(), Some(&known));
                let is_deleted = known.is_deleted && !is_undeletion;
                let entry = Pending { timestamp, is_deleted, ..known };
                let length = stored.len() as u64;
                writer.push(&claim, Ready { id, stored: &stored, entry })?;
                drop((stored, memory));
                context.count(|written| {
                    written.rewritten_contents += 1;
                    written.rewritten_bytes += length;
                });
                Ok(())
            })
            .await?;
        self.flush_when_due().await
    }
}
