//! Reading through a writer, which sees what is not flushed.

use super::ContentWriter;
use super::entry::Pending;
use super::state::lock;
use crate::KopiaError;
use crate::blobs::is_not_found;
use crate::content::decode::range;
use crate::content::missing;
use crate::format::content_id::ContentId;
use crate::format::index::Entry;
use bytes::Bytes;

impl ContentWriter {
    /// The entry that counts for a content, pending ones included.
    ///
    /// # Errors
    /// Errors of the scratch space.
    pub fn find(&self, id: &ContentId) -> Result<Option<Entry>, KopiaError> {
        if lock(&self.inner.state).pending(id).is_some() {
            return Ok(self.known(id)?.map(|known| known.entry(id)));
        }
        self.inner.context.contents.find(id)
    }

    /// Reads a content, pending ones included.
    ///
    /// # Errors
    /// A content that is missing or damaged; those of the bucket.
    pub async fn read(&self, id: &ContentId) -> Result<Bytes, KopiaError> {
        let pending = lock(&self.inner.state).pending(id).cloned();
        let Some(pending) = pending else { return self.inner.context.contents.read(id).await };
        let stored = match self.stored_at(id, &pending).await {
            // Maintenance has moved it.
            Err(error) if is_not_found(&error) => return self.inner.context.contents.read(id).await,
            stored => stored?,
        };
        let (id, threads) = (*id, self.inner.threads.clone());
        self.inner.threads.run(stored.len(), move || threads.decode(&pending.record(&id), &stored)).await
    }

    /// The bytes of a content as they are stored, and its entry, which is another where maintenance has moved it.
    pub(super) async fn stored(&self, id: &ContentId, entry: Pending) -> Result<(Pending, Bytes), KopiaError> {
        match self.stored_at(id, &entry).await {
            Err(error) if is_not_found(&error) => {
                self.inner.context.contents.refresh().await?;
                let now = self.known(id)?.ok_or_else(|| missing(id))?;
                let gone = || KopiaError::Missing { what: format!("pack {} with content {id}", now.pack) };
                if now == entry {
                    return Err(gone());
                }
                let stored = self.stored_at(id, &now).await;
                let stored = stored.map_err(|e| if is_not_found(&e) { gone() } else { e })?;
                Ok((now, stored))
            }
            stored => Ok((entry, stored?)),
        }
    }

    async fn stored_at(&self, id: &ContentId, entry: &Pending) -> Result<Bytes, KopiaError> {
        let range = range(&entry.record(id))?;
        if let Some(stored) = lock(&self.inner.state).batch.stored(id, entry) {
            return Ok(stored);
        }
        let context = &self.inner.context;
        if let Some(pack) = context.packs.kept(&entry.pack).await {
            let from = usize::try_from(range.start).unwrap_or(usize::MAX);
            let to = usize::try_from(range.end).unwrap_or(usize::MAX);
            if to <= pack.len() {
                return Ok(pack.slice(from..to));
            }
        }
        context.blobs().read_range(&entry.pack, range).await
    }
}
