//! Writing of contents: each once, into packs that an index follows (kopia: repo/content/content_manager.go).
//!
//! A content is hashed, looked up, compressed, encrypted and added to the open pack of its kind; a pack that is full is put
//! beside that. A flush takes everything since the one before: the packs are put, then the index that tells of them, and then
//! the marker of the session goes. Whatever is cut off leaves packs that nothing refers to.
//!
//! # Memory
//!
//! The bytes of a file are copied once by the kernel, into pieces, and once by us, out of them to their place in the pack, where
//! they are encrypted. A snapshot of one long file with Velero's parameters (chunks of 2 to 8 MiB, packs of 20 MiB) on two cores
//! has in memory, at most and at one time:
//!
//! | buffers | MiB | bounded by |
//! |---|---|---|
//! | pieces that are read and wait for the splitter | 3 | the channel of a file, 4 pieces of 512 KiB, one before and one behind it |
//! | the chunk that is being cut | 8 | the longest chunk |
//! | chunks that wait for their hash, are hashed (4 at once), or wait for their turn to be encrypted | 36 | [`WriteOptions::memory`], without the packs |
//! | parts of pieces whose other chunk is done | 5 | a piece for each chunk |
//! | the open pack of data, and two that are put | 72 (84) | [`WriteOptions::memory`], half of which is for packs that are put; each ends with the chunk that fills it |
//! | the open pack of metadata | 1 | it is written only where it is filled |
//! | entries of the index that is not flushed | 1 | 200 bytes for each of 200,000 entries |
//!
//! Pieces and packs that are done are kept for the next ones, no more than were in use before.

mod batch;
mod buffers;
mod context;
mod copy;
mod entry;
mod flush;
mod index;
mod lanes;
mod pack;
mod parts;
mod pauses;
mod read;
mod session;
mod shares;
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
use bytes::Bytes;
use context::Context;
use entry::{Pending, next_timestamp};
use shares::Shares;
use state::{Claim, State, lock};
use std::sync::{Arc, Mutex};
use threads::{Threads, ToSeal};

pub(crate) use lanes::Ticket;
pub(crate) use parts::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use buffers::PIECE;
pub use context::Written;

/// The bytes that one permit of the memory stands for.
const UNIT: u64 = 1 << 10;

/// A writer of contents. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct ContentWriter {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<Context>,
    threads: Arc<Threads>,
    /// Of contents that are not in a pack yet.
    memory: Arc<Semaphore>,
    /// All permits of it.
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
    pub(crate) bytes: Parts,
    pub(crate) compression: Option<Compression>,
    /// Where the bytes wait for their hash already.
    pub(crate) ticket: Option<Ticket>,
}

/// A content that is not there.
struct New {
    claim: Claim,
    bytes: Parts,
    compression: Option<Compression>,
    /// The entry of one that is deleted.
    known: Option<Pending>,
    memory: Memory,
}

/// The memory of a content in flight.
pub(crate) type Memory = OwnedSemaphorePermit;

impl ContentWriter {
    pub(crate) fn new(contents: &Contents, options: WriteOptions, retention: Option<Retention>) -> Self {
        let shares = Shares::of(&options, &contents.inner.guard.format());
        let largest = u32::try_from(shares.contents / UNIT).unwrap_or(u32::MAX / 4);
        let threads = Arc::new(Threads::new(contents.inner.crypto.clone(), options.threads));
        let context = Arc::new(Context::new(contents.clone(), options, retention));
        let state = State::new(context.now());
        let inner = Inner {
            context,
            threads,
            memory: Arc::new(Semaphore::new(largest as usize)),
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
        u32::try_from(bytes as u64 / UNIT + 1).unwrap_or(u32::MAX).min(self.inner.largest)
    }

    /// Lets bytes wait for their hash, together with others.
    pub(crate) fn enqueue(&self, plain: &Parts) -> Option<Ticket> {
        self.inner.threads.enqueue(plain)
    }

    /// Begins to hash what waits, as when nothing more comes for a while.
    pub fn hurry(&self) {
        self.inner.threads.hurry();
    }

    /// An empty buffer for a piece of a file. One of [`PIECE`] bytes is used again when its bytes are in contents.
    pub fn piece_buffer(&self, bytes: usize) -> Vec<u8> {
        self.inner.threads.pieces.take(bytes)
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
        self.store(Plain { prefix, bytes: plain.into(), compression, ticket: None }, memory).await
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
            Some(ticket) => ticket.hash().await?,
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
            bytes.give_back(&self.inner.threads.pieces);
            return Ok(id);
        }
        // An index of version 1 cannot tell it.
        compression = compression.filter(|_| context.format().index_version >= 2);
        let new = New { claim, bytes, compression, known, memory };
        let writer = self.clone();
        context.packs.wait().await;
        self.inner.threads.run(new.bytes.len(), move || writer.seal(id, new)).await?;
        self.flush_when_due().await?;
        Ok(id)
    }

    /// Compresses and encrypts a content that is not there, and adds it to a pack.
    fn seal(&self, id: ContentId, new: New) -> Result<(), KopiaError> {
        let New { claim, bytes, compression, known, memory } = new;
        let (context, threads) = (&self.inner.context, &self.inner.threads);
        let refused = |why| KopiaError::refused(format!("store content {id}"), why);
        let length = bytes.len();
        let ToSeal { plain, compression } = threads.compress(bytes, compression).map_err(refused)?;
        let entry = |stored: usize| Pending {
            timestamp: next_timestamp(context.now(), known.as_ref()),
            is_deleted: false,
            pack: Arc::default(),
            offset: 0,
            packed_length: u32::try_from(stored).unwrap_or(u32::MAX),
            original_length: u32::try_from(length).unwrap_or(u32::MAX),
            compression,
            format_version: u8::try_from(context.format().version).unwrap_or(u8::MAX),
            key: 0,
        };
        let stored = if let Some(stored) = threads.length_at_its_place(plain.len()) {
            context.check()?;
            let mut region = lock(&self.inner.state).batch.split(context, id, entry(stored))?;
            let sealed = threads.seal_at_its_place(&id, plain, context.nonce(), &mut region.bytes).map_err(refused);
            if let Err(error) = &sealed {
                // Its entry is among those that wait for an index.
                context.fail(error);
            }
            sealed?;
            region.end();
            stored
        } else {
            let stored = threads.seal(&id, plain, context.nonce()).map_err(refused)?;
            let ready = Ready { id, stored: &stored, entry: entry(stored.len()) };
            self.push(&claim, ready)?;
            stored.len()
        };
        drop(memory);
        context.count(|written| {
            written.new_contents += 1;
            written.new_bytes += length as u64;
            written.stored_bytes += stored as u64;
        });
        Ok(())
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
