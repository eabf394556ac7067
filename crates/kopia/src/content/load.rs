//! Loading of the indexes that count.

use super::index_set::{Builder, IndexSet};
use super::{ATTEMPTS, Contents, FIRST_PAUSE, IndexSource, Inner, LoadState, Loaded, epochs, legacy, recovery};
use crate::KopiaError;
use crate::blobs::{BlobInfo, is_not_found};
use crate::format::index::Index;
use crate::format::time::UnixNanos;
use crate::tasks::blocking;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use tokio::sync::Semaphore;

/// Requests at once.
const REQUESTS: usize = 16;
/// KiB of index blobs in flight.
const MEMORY: u32 = 64 << 10;
/// The most bytes of an index blob: 16 million entries, the most that kopia puts into one, take about 600 MB.
const MAX_INDEX: u64 = 1 << 30;
/// The most bytes of the log of a compaction.
const MAX_LOG: u64 = 64 << 20;

/// The index blobs that count.
struct Chosen {
    blobs: Vec<BlobInfo>,
    watermark: u64,
    write_epoch: u64,
    /// True where a blob that was loaded is gone, and no compaction has its entries.
    is_withdrawn: bool,
}

impl Contents {
    /// Loads what is new, and again when a blob of the listing is gone before it was read: maintenance has replaced it by
    /// another then.
    pub(super) async fn load(&self, loaded: &mut Loaded) -> Result<(), KopiaError> {
        self.inner.guard.check().await?;
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let begun = (self.inner.clock)();
            let has_epochs = self.inner.guard.has_epochs();
            let result = self.load_once(loaded).await;
            let valid_until = self.inner.guard.refresh_frequency().map(|age| epochs::valid_until(begun, age));
            match result {
                Ok(write_epoch) => {
                    let state = LoadState { begun, write_epoch, has_epochs };
                    *self.inner.indexes.state.write().unwrap_or_else(PoisonError::into_inner) = Some(state);
                    // It took longer than a choice of blobs is good for.
                    let is_late = valid_until.is_some_and(|end| (self.inner.clock)() > end);
                    if !is_late || attempt >= ATTEMPTS {
                        return Ok(());
                    }
                }
                Err(e) if is_not_found(&e) && attempt < ATTEMPTS => {}
                Err(e) => return Err(e),
            }
            attempt += 1;
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Loads what is new; gives the epoch into which writers write.
    async fn load_once(&self, loaded: &mut Loaded) -> Result<u64, KopiaError> {
        let chosen = self.inner.choose(&loaded.blobs, None).await?;
        let base = self.index_set();
        // Entries of an index that was withdrawn must not be relied on: all are read anew.
        let is_known = |blob: &&BlobInfo| !chosen.is_withdrawn && loaded.blobs.contains(&blob.name);
        let new: Vec<BlobInfo> = chosen.blobs.iter().filter(|blob| !is_known(blob)).cloned().collect();
        let builder = if chosen.is_withdrawn { base.begin_again() } else { base.add() };
        let builder = self.inner.fetch(new, builder).await?;
        let set = blocking(move || builder.finish(chosen.watermark)).await?;
        // The set and the names of what is in it change together.
        *self.inner.indexes.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        // What does not count any more is in a compaction that does; were it to count again it would be read again.
        loaded.blobs = chosen.blobs.into_iter().map(|blob| blob.name).collect::<HashSet<_>>();
        Ok(chosen.write_epoch)
    }
}

impl Contents {
    /// Loads the entries that counted at a time of the storage, by the index blobs that were stored until then, with the
    /// numbers of packs that the present set has. Deleted ones are among them, whatever the watermark says. `None` where the
    /// present entries are the same.
    ///
    /// # Errors
    /// Errors of the bucket and of the scratch space; an index that is damaged.
    pub(crate) async fn load_as_of(&self, time: UnixNanos) -> Result<Option<IndexSet>, KopiaError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.load_once_as_of(time).await {
                // Maintenance has deleted it between the listing and the reading.
                Err(e) if is_not_found(&e) => {}
                result => return result,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.load_once_as_of(time).await
    }

    async fn load_once_as_of(&self, time: UnixNanos) -> Result<Option<IndexSet>, KopiaError> {
        let present = self.inner.indexes.loaded.lock().await.blobs.clone();
        let chosen = self.inner.choose(&HashSet::new(), Some(time)).await?;
        if chosen.blobs.len() == present.len() && chosen.blobs.iter().all(|blob| present.contains(&blob.name)) {
            return Ok(None);
        }
        let builder = self.inner.fetch(chosen.blobs, self.index_set().begin_again()).await?;
        blocking(move || builder.finish(0)).await.map(Some)
    }

    /// Returns true if a pack is one of this repository: its keys open the index at its end.
    ///
    /// # Errors
    /// Errors of the bucket, but for a pack that is gone.
    pub(crate) async fn owns_pack(&self, pack: &BlobInfo) -> Result<bool, KopiaError> {
        match recovery::read_local_index(&self.inner.blobs, &self.inner.crypto, pack).await {
            Ok(_) => Ok(true),
            Err(KopiaError::Damaged { .. }) => Ok(false),
            Err(e) if is_not_found(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Reads the plain index of an index blob.
    ///
    /// # Errors
    /// A blob that is damaged or gone; those of the bucket.
    pub(crate) async fn read_index(&self, blob: &BlobInfo) -> Result<Bytes, KopiaError> {
        self.inner.read_index(blob).await
    }
}

/// True where a blob that was loaded does not count any more and was not compacted.
fn is_withdrawn(loaded: &HashSet<String>, chosen: &[BlobInfo], is_compacted: impl Fn(&str) -> bool) -> bool {
    let chosen: HashSet<&str> = chosen.iter().map(|blob| blob.name.as_str()).collect();
    loaded.iter().any(|name| !chosen.contains(name.as_str()) && !is_compacted(name))
}

impl Inner {
    /// Lists and chooses the blobs from which entries are taken, after those that were loaded; by what was stored until a
    /// time, where one is given. A blob without time was.
    async fn choose(&self, loaded: &HashSet<String>, until: Option<UnixNanos>) -> Result<Chosen, KopiaError> {
        match self.indexes.source {
            IndexSource::Packs => {
                let mut blobs = self.list("p", until).await?;
                blobs.extend(self.list("q", until).await?);
                Ok(Chosen { blobs, watermark: 0, write_epoch: 0, is_withdrawn: false })
            }
            IndexSource::IndexBlobs if self.guard.has_epochs() => {
                let state = epochs::state(&self.list("x", until).await?);
                let blobs = state.index_blobs();
                let is_withdrawn = is_withdrawn(loaded, &blobs, |name| state.has_compacted(name));
                let (watermark, write_epoch) = (state.watermark, state.write_epoch);
                Ok(Chosen { blobs, watermark, write_epoch, is_withdrawn })
            }
            IndexSource::IndexBlobs => {
                let listing = self.list("n", until).await?;
                let logs = self.list("m", until).await?;
                let logs = futures::stream::iter(logs).map(|log| self.read_log(log));
                let logs: Vec<_> = logs.buffered(REQUESTS).try_collect().await?;
                let blobs = legacy::index_blobs(&listing, &logs);
                let compacted: HashSet<&str> = logs.iter().flat_map(|log| &log.inputs).map(String::as_str).collect();
                let is_withdrawn = is_withdrawn(loaded, &blobs, |name| compacted.contains(name));
                Ok(Chosen { blobs, watermark: 0, write_epoch: 0, is_withdrawn })
            }
        }
    }

    /// Lists the blobs that were stored until a time, where one is given.
    async fn list(&self, prefix: &str, until: Option<UnixNanos>) -> Result<Vec<BlobInfo>, KopiaError> {
        let mut blobs = self.blobs.list_all(prefix).await?;
        let is_later = |stored: UnixNanos| until.is_some_and(|until| stored > until);
        blobs.retain(|blob| !blob.modified.is_some_and(is_later));
        Ok(blobs)
    }

    async fn read_log(&self, log: BlobInfo) -> Result<legacy::CompactionLog, KopiaError> {
        let stored = self.blobs.read(&log.name, MAX_LOG).await?;
        let damaged = |e| KopiaError::damaged(format!("blob {}", log.name), e);
        let plain = self.crypto.open_blob(&log.name, &stored).map_err(damaged)?;
        legacy::CompactionLog::parse(&plain).map_err(damaged)
    }

    /// Reads blobs and adds their entries. In which order they come does not matter.
    async fn fetch(&self, blobs: Vec<BlobInfo>, builder: Builder) -> Result<Builder, KopiaError> {
        let memory = Semaphore::new(MEMORY as usize);
        let memory = &memory;
        let reads = futures::stream::iter(blobs).map(|blob| async move {
            // Encrypted and plain, at most all of it.
            let size = u32::try_from(blob.length / 512 + 1).unwrap_or(MEMORY).min(MEMORY);
            let permit = memory.acquire_many(size).await.map_err(|_| KopiaError::Cancelled)?;
            let plain = match self.read_index(&blob).await {
                // What the other packs have is to be saved.
                Err(KopiaError::Damaged { .. }) if self.indexes.source == IndexSource::Packs => None,
                plain => Some(plain?),
            };
            Ok::<_, KopiaError>((plain, blob.name, permit))
        });
        let mut reads = std::pin::pin!(reads.buffer_unordered(REQUESTS));
        let mut builder = builder;
        while let Some((plain, name, _permit)) = reads.try_next().await? {
            let Some(plain) = plain else {
                builder.add_damaged_pack();
                continue;
            };
            let overhead = self.crypto.overhead();
            builder = blocking(move || {
                let index = Index::open(plain, overhead);
                let index = index.map_err(|e| KopiaError::damaged(format!("the index of blob {name}"), e))?;
                builder.add_index(&index)?;
                Ok(builder)
            })
            .await?;
        }
        Ok(builder)
    }

    /// Reads the plain index of an index blob or a pack.
    async fn read_index(&self, blob: &BlobInfo) -> Result<Bytes, KopiaError> {
        if self.indexes.source == IndexSource::Packs {
            return recovery::read_local_index(&self.blobs, &self.crypto, blob).await;
        }
        if blob.length > MAX_INDEX {
            return Err(KopiaError::Unsupported { what: format!("an index blob of {} bytes", blob.length) });
        }
        let stored = self.blobs.read(&blob.name, blob.length).await?;
        let (crypto, name) = (self.crypto.clone(), blob.name.clone());
        blocking(move || {
            let plain = crypto.open_blob(&name, &stored);
            Ok(plain.map_err(|e| KopiaError::damaged(format!("blob {name}"), e))?.into())
        })
        .await
    }
}
