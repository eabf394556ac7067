//! Contents: found through the indexes, read from packs.
//!
//! The indexes that count are found by the rules of epochs ([`epochs`]) or of the legacy manager ([`legacy`]), or, where
//! index blobs are lost, in the packs themselves ([`recovery`]); their union lies sorted on scratch ([`index_set`]), never
//! in the heap as a whole. What is to be read is planned by packs ([`read_plan`]).

use crate::KopiaError;
use crate::blobs::{Blobs, is_not_found};
use crate::crypto::Crypto;
use crate::format::content_id::ContentId;
use crate::format::index::Entry;
use crate::format::time::{MINUTE, UnixNanos};
use crate::guard::{Clock, FormatGuard};
use crate::tasks::blocking;
use bytes::Bytes;
use cache::ContentCache;
use index_set::{IndexMemory, IndexSet, Location, Record};
use pack_blocks::{PackBlocks, PackRange};
use read_plan::wanted::ReadLimits;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

mod cache;
mod decode;
pub mod epochs;
pub mod index_set;
pub mod legacy;
mod load;
mod pack_blocks;
pub mod read_plan;
pub mod recovery;
pub mod writer;

pub(crate) use decode::{decode, decompress_object};

/// The age at which the indexes are loaded again, in nanoseconds.
const REFRESH_AFTER: i64 = 15 * MINUTE;
/// The attempts of loading when blobs vanish meanwhile.
const ATTEMPTS: u32 = 10;
/// The pause after the first attempt; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Where the indexes are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexSource {
    /// The index blobs, as every client takes them.
    #[default]
    IndexBlobs,
    /// The packs themselves, where index blobs are lost. Every pack is asked; deletions that came alone are lost.
    Packs,
}

/// The contents of a repository, as of the last refresh. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Contents {
    inner: Arc<Inner>,
}

struct Inner {
    blobs: Blobs,
    crypto: Arc<Crypto>,
    guard: Arc<FormatGuard>,
    clock: Clock,
    indexes: Indexes,
    cache: ContentCache,
    blocks: PackBlocks,
    limits: ReadLimits,
}

/// The indexes of a repository, as of the last load.
struct Indexes {
    source: IndexSource,
    set: RwLock<Arc<IndexSet>>,
    loaded: tokio::sync::Mutex<Loaded>,
    state: RwLock<Option<LoadState>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").field("blobs", &self.blobs).finish_non_exhaustive()
    }
}

/// The blobs whose entries are in the set.
#[derive(Debug, Default)]
struct Loaded {
    blobs: HashSet<String>,
}

/// The state of the indexes at a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoadState {
    /// The beginning of the load.
    begun: UnixNanos,
    /// The epoch into which writers write; 0 without epochs.
    write_epoch: u64,
    /// True where the indexes were chosen by epochs.
    has_epochs: bool,
}

/// The parts of an open repository from which its contents are read.
pub(crate) struct Parts<'a> {
    pub(crate) blobs: Blobs,
    pub(crate) crypto: Arc<Crypto>,
    pub(crate) guard: Arc<FormatGuard>,
    pub(crate) clock: Clock,
    pub(crate) source: IndexSource,
    pub(crate) scratch: &'a Path,
    pub(crate) memory: u64,
    pub(crate) threads: usize,
}

impl Contents {
    /// Contents without an index yet; [`Contents::refresh`] loads it.
    pub(crate) fn new(parts: Parts<'_>) -> Self {
        let hash_length = parts.crypto.hash(b"").as_bytes().len();
        let set = IndexSet::empty(hash_length, parts.scratch, IndexMemory::within(parts.memory / 2));
        let inner = Inner {
            blobs: parts.blobs,
            crypto: parts.crypto,
            guard: parts.guard,
            clock: parts.clock,
            indexes: Indexes {
                source: parts.source,
                set: RwLock::new(Arc::new(set)),
                loaded: tokio::sync::Mutex::default(),
                state: RwLock::new(None),
            },
            cache: ContentCache::new(parts.memory / 8),
            blocks: PackBlocks::new(parts.memory / 8),
            // Of the half that indexes have, half again is free when they are loaded.
            limits: ReadLimits::new(parts.memory / 8 * 3, parts.threads),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Lists and loads the indexes that count now; of those that were loaded before nothing is read. Called by itself when
    /// the last refresh is more than 15 minutes old and contents are read.
    ///
    /// # Errors
    /// Errors of the bucket and of the scratch space; an index that is damaged; an upgrade that has begun.
    pub async fn refresh(&self) -> Result<(), KopiaError> {
        let mut loaded = self.inner.indexes.loaded.lock().await;
        self.load(&mut loaded).await
    }

    /// True where an index blob counts, as of the last refresh.
    pub(crate) async fn has_index_blobs(&self) -> bool {
        !self.inner.indexes.loaded.lock().await.blobs.is_empty()
    }

    /// The source of its indexes.
    pub(crate) fn source(&self) -> IndexSource {
        self.inner.indexes.source
    }

    /// Limits of a plan of reads within the memory that was given for contents.
    pub fn limits(&self) -> ReadLimits {
        self.inner.limits
    }

    /// Refreshes when the last refresh is more than 15 minutes old, and looks for an upgrade that has begun.
    pub(crate) async fn refresh_when_old(&self) -> Result<(), KopiaError> {
        if !self.is_old() {
            return self.inner.guard.check().await;
        }
        let mut loaded = self.inner.indexes.loaded.lock().await;
        // Somebody else may have done it while this one waited.
        if self.is_old() { self.load(&mut loaded).await } else { Ok(()) }
    }

    fn is_old(&self) -> bool {
        self.load_state().is_none_or(|state| !self.is_younger(state.begun, REFRESH_AFTER))
    }

    /// The state at the last load.
    fn load_state(&self) -> Option<LoadState> {
        *self.inner.indexes.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time by the clock of the repository.
    pub(crate) fn now(&self) -> UnixNanos {
        (self.inner.clock)()
    }

    /// True where `then` is at most `age` nanoseconds ago. A clock that was set back says nothing of the age.
    fn is_younger(&self, then: UnixNanos, age: i64) -> bool {
        (0..=age).contains(&(self.inner.clock)().0.saturating_sub(then.0))
    }

    /// The sorted entries as of the last refresh. They stay as they are while others refresh.
    pub fn index_set(&self) -> Arc<IndexSet> {
        self.inner.indexes.set.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finds the entry that counts for a content, as of the last refresh; deleted ones too, until the watermark has passed
    /// them.
    ///
    /// # Errors
    /// Errors of the scratch space.
    pub fn find(&self, id: &ContentId) -> Result<Option<Entry>, KopiaError> {
        self.index_set().find(id)
    }

    /// Walks all entries in the order of IDs: those with a prefix, `Some(0)` for those without one, `None` for all.
    pub fn scan(&self, prefix: Option<u8>) -> index_set::Scan {
        self.index_set().scan(prefix)
    }

    /// Reads one content: decrypted, decompressed, its length and hash compared. Contents with a prefix are kept for a
    /// while, up to the memory given.
    ///
    /// # Errors
    /// A content that is missing or damaged; those of the bucket.
    pub async fn read(&self, id: &ContentId) -> Result<Bytes, KopiaError> {
        self.refresh_when_old().await?;
        if let Some(bytes) = self.inner.cache.get(id) {
            return Ok(bytes);
        }
        let location = self.locate(id)?;
        let bytes = match self.read_at(&location.record).await {
            // Maintenance has moved it meanwhile, or deleted its pack.
            Err(error) if is_not_found(&error) => {
                self.refresh().await?;
                let now = self.locate(id)?;
                if now.record == location.record {
                    return Err(self.missing_pack(&location));
                }
                self.read_at(&now.record)
                    .await
                    .map_err(|e| if is_not_found(&e) { self.missing_pack(&now) } else { e })?
            }
            bytes => bytes?,
        };
        if id.prefix().is_some() {
            self.inner.cache.keep(id, &bytes);
        }
        Ok(bytes)
    }

    pub(crate) fn locate(&self, id: &ContentId) -> Result<Location, KopiaError> {
        self.index_set().locate(id)?.ok_or_else(|| missing(id))
    }

    async fn read_at(&self, record: &Record) -> Result<Bytes, KopiaError> {
        let record = *record;
        let range = decode::range(&record)?;
        let set = self.index_set();
        let (name, known_end) = (set.pack_name(record.pack), set.known_end(record.pack));
        let mut stored = None;
        // Who reads a directory reads its neighbours next.
        if record.id.prefix().is_some() {
            let wanted = PackRange { pack: record.pack, name: &name, range: range.clone(), known_end };
            stored = self.inner.blocks.read(&self.inner.blobs, &wanted).await?;
        }
        let stored = match stored {
            Some(stored) => stored,
            None => self.inner.blobs.read_range(&name, range).await?,
        };
        let crypto = self.inner.crypto.clone();
        blocking(move || decode(&crypto, &record, &stored)).await
    }

    fn missing_pack(&self, location: &Location) -> KopiaError {
        let pack = self.index_set().pack_name(location.record.pack);
        KopiaError::Missing { what: format!("pack {pack} with content {}", location.record.id) }
    }
}

/// The error of a content that no index has.
pub(crate) fn missing(id: &ContentId) -> KopiaError {
    KopiaError::Missing { what: format!("content {id}") }
}
