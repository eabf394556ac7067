//! Writing of contents: each once, into packs that an index follows (kopia: repo/content/content_manager.go).
//!
//! A content is hashed, looked up, compressed, encrypted and added to the open pack of its kind; a pack that is full is put
//! beside that. A flush takes everything since the one before: the packs are put, then the index that tells of them, and then
//! the marker of the session goes. Whatever is cut off leaves packs that nothing refers to.

mod batch;
mod buffers;
mod context;
mod copy;
mod entry;
mod flush;
mod index;
mod pack;
mod pauses;
mod read;
mod session;
mod state;
mod threads;

use crate::KopiaError;
use crate::compression::Compression;
use crate::content::{Contents, missing};
use crate::format::content_id::ContentId;
use crate::format::index::MAX_LENGTH;
use crate::format::repository::{RepositoryFormat, Retention};
use crate::format::time::UnixNanos;
use crate::options::WriteOptions;
use batch::{Batch, Ready};
use buffers::MIN_KEPT;
use bytes::Bytes;
use context::Context;
use entry::{Pending, next_timestamp};
use pack::UNIT;
use state::{Claim, State, lock};
use std::sync::{Arc, Mutex};
use threads::{Threads, ToSeal};

pub(crate) use threads::{LANES, Ticket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use context::Written;

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

/// A content to be stored.
pub(crate) struct Plain {
    pub(crate) prefix: Option<u8>,
    pub(crate) bytes: Bytes,
    pub(crate) compression: Option<Compression>,
    /// Where the bytes wait for their hash already.
    pub(crate) ticket: Option<Ticket>,
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
        let state = State::new(context.now());
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

    /// The contents that are stored, without those that are not flushed.
    pub(crate) fn stored_contents(&self) -> &Contents {
        &self.inner.context.contents
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

    /// The time until which blobs that are put now are kept; `None` where the repository has no object lock.
    pub(crate) fn kept_until(&self) -> Option<lifeboat_bucket::Retention> {
        self.inner.context.kept_until()
    }

    /// Notes that the process runs: what looks at long runs of zeros, or at nothing new, does not store for a while.
    pub(crate) fn note_use(&self) {
        self.inner.context.note_use();
    }

    /// Begins to store manifests, which refer to what was stored or found before. Gives the pauses until then.
    pub(crate) fn begin_manifests(&self) -> i64 {
        self.inner.context.begin_manifests()
    }

    /// Ends what [`ContentWriter::begin_manifests`] began: they are flushed.
    pub(crate) fn end_manifests(&self, pauses: i64) {
        self.inner.context.end_manifests(pauses);
    }

    /// Refuses to go on where what was stored or found since `kept`, the time of the last manifest or of the beginning, must
    /// not be referred to any more: maintenance may have deleted it.
    ///
    /// # Errors
    /// More than four hours have passed.
    pub fn check_kept(&self, kept: UnixNanos) -> Result<(), KopiaError> {
        self.inner.context.check_kept(kept)
    }

    /// The number of markers of ended sessions that could not be deleted yet. They do no harm: after four days maintenance
    /// takes them for abandoned and deletes them.
    pub fn undeleted_markers(&self) -> usize {
        self.inner.context.undeleted_markers().len()
    }

    /// Fails as the writer has failed before.
    pub(crate) fn check(&self) -> Result<(), KopiaError> {
        self.inner.context.check()
    }

    /// Takes the memory of a content, as soon as there is so much.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Memory, KopiaError> {
        let units = self.units(bytes);
        self.inner.memory.clone().acquire_many_owned(units).await.map_err(|_| KopiaError::Cancelled)
    }

    /// Takes the memory of a content, where there is so much just now.
    pub(crate) fn try_reserve(&self, bytes: usize) -> Option<Memory> {
        self.inner.memory.clone().try_acquire_many_owned(self.units(bytes)).ok()
    }

    /// True where there is memory for some contents that only wait.
    pub(crate) fn has_room(&self) -> bool {
        self.inner.memory.available_permits() >= self.inner.largest as usize / 4
    }

    fn units(&self, bytes: usize) -> u32 {
        // A long buffer is of a power of two.
        let bytes = if bytes < MIN_KEPT { bytes } else { bytes.checked_next_power_of_two().unwrap_or(bytes) };
        u32::try_from(bytes as u64 / UNIT + 1).unwrap_or(u32::MAX).min(self.inner.largest)
    }

    /// Lets bytes wait for their hash, together with others.
    pub(crate) fn enqueue(&self, plain: &Bytes) -> Option<Ticket> {
        self.inner.threads.enqueue(plain)
    }

    /// An empty buffer for the bytes of a content.
    pub(crate) fn buffer(&self, bytes: usize) -> Vec<u8> {
        self.inner.threads.buffers.take(bytes)
    }

    /// An empty buffer for a piece of a file. It is used again when its bytes are in contents.
    pub fn piece_buffer(&self, bytes: usize) -> Vec<u8> {
        self.inner.threads.pieces.take(bytes)
    }

    /// Takes back a piece whose bytes are no longer needed.
    pub(crate) fn give_piece(&self, bytes: Bytes) {
        self.inner.threads.pieces.give_bytes(bytes);
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
        self.store(Plain { prefix, bytes: plain, compression, ticket: None }, memory).await
    }

    /// Stores bytes as [`ContentWriter::write`] does, in memory that was taken before.
    pub(crate) async fn store(&self, content: Plain, memory: Memory) -> Result<ContentId, KopiaError> {
        let context = &self.inner.context;
        context.check()?;
        let Plain { prefix, bytes, mut compression, ticket } = content;
        let length = u32::try_from(bytes.len()).ok().filter(|length| *length < MAX_LENGTH).ok_or_else(|| {
            KopiaError::refused(
                format!("store {} bytes as a content", bytes.len()),
                "no index can tell 256 MiB or more",
            )
        })?;
        context.contents.refresh_when_old().await?;
        let hash = match ticket {
            Some(ticket) => self.inner.threads.hashed(ticket).await?,
            None => self.inner.threads.hash(&bytes).await?,
        };
        let id = ContentId::new(prefix, hash)
            .ok_or_else(|| KopiaError::refused("store a content", "its prefix is no letter g to z"))?;
        let claim = Claim::take(&self.inner.state, id).await;
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
            .run(bytes.len(), move || {
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
                threads.buffers.give_bytes(bytes);
                writer.push(&claim, Ready { id, stored: &sealed.stored, entry, memory: Some(memory) })?;
                threads.buffers.give(sealed.stored);
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
    fn push(&self, _claim: &Claim, ready: Ready<'_>) -> Result<(), KopiaError> {
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
        let claim = Claim::take(&self.inner.state, *id).await;
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
}
