//! Writing of contents: each once, into packs that an index follows (kopia: repo/content/content_manager.go).
//!
//! A content is hashed, looked up, compressed, encrypted and added to the open pack of its kind; a pack that is full is put
//! beside that. A flush takes everything since the one before: the packs are put, then the index that tells of them, and then
//! the marker of the session goes. Whatever is cut off leaves packs that nothing refers to.

mod batch;
mod context;
mod entry;
mod index;
mod pack;
mod session;
mod threads;

use crate::KopiaError;
use crate::blobs::is_not_found;
use crate::compression::Compression;
use crate::content::{Contents, missing};
use crate::format::content_id::ContentId;
use crate::format::index::{Entry, MAX_LENGTH};
use crate::format::repository::{RepositoryFormat, Retention};
use crate::format::time::UnixNanos;
use crate::options::WriteOptions;
use crate::tasks::join;
use batch::{Batch, Ready};
use bytes::Bytes;
use context::Context;
use entry::{Pending, next_timestamp};
use pack::UNIT;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use threads::{Threads, ToSeal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use context::Written;

/// The time after which entries are flushed, in nanoseconds.
const FLUSH_AFTER: i64 = 10 * 60 * 1_000_000_000;
/// The number of entries that are flushed at once: they take some 40 MiB until then.
const FLUSH_ENTRIES: usize = 200_000;
/// The most bytes of two chunks of every splitter.
const TWO_CHUNKS: u64 = 32 << 20;

/// A writer of contents. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct ContentWriter {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<Context>,
    threads: Arc<Threads>,
    memory: Arc<Semaphore>,
    /// The most permits that one content takes: without those of two open packs, which wait for others to be full.
    largest: u32,
    state: Arc<Mutex<State>>,
    /// The batch that is flushed. A flush that was cut off is taken up by the next.
    flushing: tokio::sync::Mutex<Option<Batch>>,
}

impl std::fmt::Debug for ContentWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContentWriter").field("options", &self.inner.context.options).finish_non_exhaustive()
    }
}

struct State {
    batch: Batch,
    /// The entries that are flushed just now.
    flushing: Arc<BTreeMap<ContentId, Pending>>,
    /// Contents that a task is about to change; the others wait.
    claims: HashMap<ContentId, watch::Receiver<()>>,
    flushed_at: UnixNanos,
}

impl State {
    /// The entry of this writer that counts.
    fn pending(&self, id: &ContentId) -> Option<&Pending> {
        // The later one is in the batch.
        self.batch.entries.get(id).or_else(|| self.flushing.get(id))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to change a content, until it is dropped.
struct Claim {
    id: ContentId,
    state: Arc<Mutex<State>>,
    _end: watch::Sender<()>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.state).claims.remove(&self.id);
    }
}

/// A content to be stored.
pub(crate) struct Plain {
    pub(crate) prefix: Option<u8>,
    pub(crate) bytes: Bytes,
    pub(crate) compression: Option<Compression>,
}

/// The memory of a content in flight.
pub(crate) type Memory = OwnedSemaphorePermit;

impl ContentWriter {
    pub(crate) fn new(contents: &Contents, options: WriteOptions, retention: Option<Retention>) -> Self {
        let format = contents.inner.guard.format();
        let packs = format.max_pack_size.saturating_mul(2);
        let units = |bytes: u64| u32::try_from(bytes / UNIT).unwrap_or(u32::MAX / 4);
        let memory = units(options.memory.max(packs.saturating_add(TWO_CHUNKS)));
        let largest = memory.saturating_sub(units(packs).saturating_add(2)).max(1);
        let threads = Arc::new(Threads::new(contents.inner.crypto.clone(), options.threads));
        let context = Arc::new(Context::new(contents.clone(), options, retention));
        let state = State {
            batch: Batch::default(),
            flushing: Arc::default(),
            claims: HashMap::new(),
            flushed_at: context.now(),
        };
        let inner = Inner {
            context,
            threads,
            memory: Arc::new(Semaphore::new(memory as usize)),
            largest,
            state: Arc::new(Mutex::new(state)),
            flushing: tokio::sync::Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The format of the repository.
    pub(crate) fn format(&self) -> Arc<RepositoryFormat> {
        self.inner.context.format()
    }

    /// The time by the clock of the repository.
    pub(crate) fn now(&self) -> UnixNanos {
        self.inner.context.now()
    }

    /// The options of the writer.
    pub fn options(&self) -> &WriteOptions {
        &self.inner.context.options
    }

    /// Stores a blob of maintenance, kept from deletion where the repository wants that.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub(crate) async fn put_blob(&self, name: &str, bytes: Bytes) -> Result<(), KopiaError> {
        self.inner.context.put(name, bytes).await
    }

    /// Fails as the writer has failed before.
    pub(crate) fn check(&self) -> Result<(), KopiaError> {
        self.inner.context.check()
    }

    /// Takes the memory of a content, as soon as there is so much.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Memory, KopiaError> {
        let units = u32::try_from(bytes as u64 / UNIT + 1).unwrap_or(u32::MAX).min(self.inner.largest);
        self.inner.memory.clone().acquire_many_owned(units).await.map_err(|_| KopiaError::Cancelled)
    }

    /// Stores bytes, unless they are there already or another task is storing them. They are durable after the next flush.
    ///
    /// # Errors
    /// A prefix that is no letter `g` to `z`; bytes beyond what an index can tell; an earlier failure of the writer.
    pub async fn write(
        &self,
        prefix: Option<u8>,
        plain: Bytes,
        compression: Option<Compression>,
    ) -> Result<ContentId, KopiaError> {
        let memory = self.reserve(plain.len()).await?;
        self.store(Plain { prefix, bytes: plain, compression }, memory).await
    }

    /// Stores bytes as [`ContentWriter::write`] does, in memory that was taken before.
    pub(crate) async fn store(&self, content: Plain, memory: Memory) -> Result<ContentId, KopiaError> {
        let context = &self.inner.context;
        context.check()?;
        let Plain { prefix, bytes, mut compression } = content;
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length < MAX_LENGTH).ok_or_else(|| {
            KopiaError::refused(
                format!("store {} bytes as a content", bytes.len()),
                "no index can tell 256 MiB or more",
            )
        })?;
        context.contents.refresh_when_old().await?;
        let hash = self.inner.threads.hash(bytes.clone()).await?;
        let id = ContentId::new(prefix, hash)
            .ok_or_else(|| KopiaError::refused("store a content", "its prefix is no letter g to z"))?;
        let claim = self.claim(id).await?;
        let known = self.known(&id)?;
        if known.as_ref().is_some_and(|known| !known.is_deleted) {
            context.count(|written| {
                written.reused_contents += 1;
                written.reused_bytes += u64::from(length);
            });
            return Ok(id);
        }
        let format = context.format();
        // An index of version 1 cannot tell it.
        compression = compression.filter(|_| format.index_version >= 2);
        let (threads, writer) = (self.inner.threads.clone(), self.clone());
        self.inner
            .threads
            .run(move || {
                let context = &writer.inner.context;
                let to_seal = ToSeal { id: &id, plain: &bytes, compression, nonce: context.nonce() };
                let sealed = threads.seal(&to_seal)?;
                let stored_length = sealed.stored.len() as u64;
                let entry = Pending {
                    timestamp: next_timestamp(context.now(), known.as_ref()),
                    is_deleted: false,
                    pack: Arc::default(),
                    offset: 0,
                    packed_length: u32::try_from(sealed.stored.len()).unwrap_or(u32::MAX),
                    original_length: length,
                    compression: sealed.compression,
                    format_version: u8::try_from(format.version).unwrap_or(u8::MAX),
                    key: 0,
                };
                drop(bytes);
                writer.push(&claim, Ready { id, stored: sealed.stored, entry, memory: Some(memory) })?;
                context.count(|written| {
                    written.new_contents += 1;
                    written.new_bytes += u64::from(length);
                    written.stored_bytes += stored_length;
                });
                Ok(())
            })
            .await?;
        self.flush_when_due().await?;
        Ok(id)
    }

    /// Waits until nobody else is about to change a content.
    async fn claim(&self, id: ContentId) -> Result<Claim, KopiaError> {
        loop {
            let mut other = {
                let mut state = lock(&self.inner.state);
                match state.claims.get(&id) {
                    Some(other) => other.clone(),
                    None => {
                        let (end, ends) = watch::channel(());
                        state.claims.insert(id, ends);
                        return Ok(Claim { id, state: self.inner.state.clone(), _end: end });
                    }
                }
            };
            // Nothing is sent: it ends.
            while other.changed().await.is_ok() {}
        }
    }

    /// The entry that counts, also one whose deletion the watermark has passed. The content is claimed, so that none of this
    /// writer comes meanwhile.
    fn known(&self, id: &ContentId) -> Result<Option<Pending>, KopiaError> {
        let pending = lock(&self.inner.state).pending(id).cloned();
        let committed = Pending::committed(&self.inner.context.contents.index_set(), id)?;
        Ok(match (pending, committed) {
            (Some(pending), Some(committed)) => Some(if committed.wins_over(&pending) { committed } else { pending }),
            (pending, committed) => pending.or(committed),
        })
    }

    /// Adds a content to a pack.
    fn push(&self, _claim: &Claim, ready: Ready) -> Result<(), KopiaError> {
        self.inner.context.check()?;
        lock(&self.inner.state).batch.push(&self.inner.context, ready)
    }

    /// Marks a content deleted. One that is deleted already stays as it is.
    ///
    /// # Errors
    /// A content that does not exist; an earlier failure of the writer.
    pub async fn delete(&self, id: &ContentId) -> Result<(), KopiaError> {
        let context = &self.inner.context;
        context.check()?;
        context.contents.refresh_when_old().await?;
        let claim = self.claim(*id).await?;
        let known = self.known(id)?.ok_or_else(|| missing(id))?;
        if known.is_deleted {
            return Ok(());
        }
        let timestamp = next_timestamp(context.now(), Some(&known));
        let entry = Pending { timestamp, is_deleted: true, ..known };
        entry.check(id)?;
        lock(&self.inner.state).batch.delete(context, *id, entry);
        context.count(|written| written.deleted_contents += 1);
        drop(claim);
        self.flush_when_due().await
    }

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
        let claim = self.claim(*id).await?;
        let known = self.known(id)?.ok_or_else(|| missing(id))?;
        if is_undeletion && !known.is_deleted {
            return Ok(());
        }
        let (known, stored) = self.stored(id, known).await?;
        let (id, writer) = (*id, self.clone());
        let threads = self.inner.threads.clone();
        self.inner
            .threads
            .run(move || {
                let context = &writer.inner.context;
                threads.decode(&known.record(&id), &stored)?;
                let timestamp = next_timestamp(context.now(), Some(&known));
                let is_deleted = known.is_deleted && !is_undeletion;
                let entry = Pending { timestamp, is_deleted, ..known };
                let length = stored.len() as u64;
                writer.push(&claim, Ready { id, stored: stored.into(), entry, memory: Some(memory) })?;
                context.count(|written| {
                    written.rewritten_contents += 1;
                    written.rewritten_bytes += length;
                });
                Ok(())
            })
            .await?;
        self.flush_when_due().await
    }

    /// The bytes of a content as they are stored, and its entry, which is another where maintenance has moved it.
    async fn stored(&self, id: &ContentId, entry: Pending) -> Result<(Pending, Bytes), KopiaError> {
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
        let range = super::decode::range(&entry.record(id))?;
        if let Some(stored) = lock(&self.inner.state).batch.stored(id, entry) {
            return Ok(Bytes::copy_from_slice(stored));
        }
        let context = &self.inner.context;
        if let Some(pack) = context.kept_pack(&entry.pack) {
            let from = usize::try_from(range.start).unwrap_or(usize::MAX);
            let to = usize::try_from(range.end).unwrap_or(usize::MAX);
            if to <= pack.len() {
                return Ok(pack.slice(from..to));
            }
        }
        context.blobs().read_range(&entry.pack, range).await
    }

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
        self.inner.threads.run(move || threads.decode(&pending.record(&id), &stored)).await
    }

    /// Writes what is pending: packs, then the index, and then the marker of the session goes. What it gives is counted from
    /// the call before.
    ///
    /// # Errors
    /// Errors of the bucket. What was not flushed is lost then, and every later call fails for the same reason.
    pub async fn flush(&self) -> Result<Written, KopiaError> {
        let mut flushing = self.inner.flushing.lock().await;
        if flushing.is_some() {
            // It was cut off.
            self.flush_once(&mut flushing).await?;
        }
        self.flush_once(&mut flushing).await?;
        Ok(self.inner.context.take_counts())
    }

    /// Flushes by time and by number of entries.
    async fn flush_when_due(&self) -> Result<(), KopiaError> {
        if !self.is_due() {
            return Ok(());
        }
        let mut flushing = self.inner.flushing.lock().await;
        // Somebody else may have done it while this one waited.
        if self.is_due() { self.flush_once(&mut flushing).await } else { Ok(()) }
    }

    fn is_due(&self) -> bool {
        let state = lock(&self.inner.state);
        let is_old = || !self.inner.context.contents.is_younger(state.flushed_at, FLUSH_AFTER);
        state.batch.entries.len() >= FLUSH_ENTRIES || is_old() && !state.batch.entries.is_empty()
    }

    async fn flush_once(&self, flushing: &mut Option<Batch>) -> Result<(), KopiaError> {
        let context = &self.inner.context;
        context.check()?;
        let result = self.flush_batch(flushing).await;
        if let Err(error) = &result {
            context.fail(error);
        }
        result
    }

    /// Takes the batch, unless one was cut off, and writes it. Every step can be done again.
    async fn flush_batch(&self, flushing: &mut Option<Batch>) -> Result<(), KopiaError> {
        let context = &self.inner.context;
        if flushing.is_none() {
            let mut state = lock(&self.inner.state);
            if state.batch.entries.is_empty() {
                state.flushed_at = context.now();
                return Ok(());
            }
            state.batch.close(context)?;
            let mut batch = std::mem::take(&mut state.batch);
            state.flushing = Arc::new(std::mem::take(&mut batch.entries));
            *flushing = Some(batch);
        }
        let Some(batch) = flushing else { return Ok(()) };
        while let Some(done) = batch.uploads.join_next().await {
            join(done)?;
        }
        // A pack may have failed before.
        context.check()?;
        let entries = lock(&self.inner.state).flushing.clone();
        let entries = entries.iter().map(|(id, entry)| entry.entry(id)).collect();
        let session = batch.session(context);
        index::write_index(context, &session.id, entries).await?;
        session.end(context).await?;
        let mut state = lock(&self.inner.state);
        state.flushing = Arc::default();
        state.flushed_at = context.now();
        *flushing = None;
        Ok(())
    }
}
