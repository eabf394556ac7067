//! The parts of a writer that its tasks share.

use super::buffers::Buffers;
use super::pauses::{Pauses, is_too_long};
use super::shares::{Shares, pack_buffer};
use crate::KopiaError;
use crate::blobs::Blobs;
use crate::content::Contents;
use crate::crypto::Crypto;
use crate::crypto::aead::NONCE_LENGTH;
use crate::format::repository::{RepositoryFormat, Retention};
use crate::format::time::UnixNanos;
use crate::object_lock::{lock_until, object_lock};
use crate::options::{WriteOptions, random_bytes};
use bytes::Bytes;
use lifeboat_bucket::PutOptions;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, Semaphore, watch};

/// Counts of a writer, from one flush to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Contents that were stored.
    pub new_contents: u64,
    /// Their plain bytes.
    pub new_bytes: u64,
    /// Their bytes in packs: compressed and encrypted.
    pub stored_bytes: u64,
    /// Contents that were there already.
    pub reused_contents: u64,
    /// Their plain bytes.
    pub reused_bytes: u64,
    /// Contents that were marked deleted.
    pub deleted_contents: u64,
    /// Contents that were copied into another pack.
    pub rewritten_contents: u64,
    /// Their bytes in packs.
    pub rewritten_bytes: u64,
    /// Packs that were put.
    pub packs: u64,
    /// Their bytes.
    pub pack_bytes: u64,
    /// Index blobs that were put.
    pub index_blobs: u64,
    /// Their bytes.
    pub index_bytes: u64,
}

impl std::ops::AddAssign for Written {
    fn add_assign(&mut self, more: Self) {
        self.new_contents += more.new_contents;
        self.new_bytes += more.new_bytes;
        self.stored_bytes += more.stored_bytes;
        self.reused_contents += more.reused_contents;
        self.reused_bytes += more.reused_bytes;
        self.deleted_contents += more.deleted_contents;
        self.rewritten_contents += more.rewritten_contents;
        self.rewritten_bytes += more.rewritten_bytes;
        self.packs += more.packs;
        self.pack_bytes += more.pack_bytes;
        self.index_blobs += more.index_blobs;
        self.index_bytes += more.index_bytes;
    }
}

/// Buffers of packs with data and with metadata that are kept for the next ones.
const IDLE_PACKS: [usize; 2] = [2, 1];
/// The most markers whose deletion is tried again.
const MAX_MARKERS: usize = 4000;

/// The repository and the options of a writer.
pub(super) struct Context {
    pub(super) contents: Contents,
    pub(super) options: WriteOptions,
    retention: Option<Retention>,
    pub(super) packs: PacksInMemory,
    written: Mutex<Written>,
    pauses: ManifestPauses,
    /// The markers of ended sessions that could not be deleted yet.
    markers: Mutex<BTreeSet<String>>,
    /// The first failure of the writer.
    failure: Mutex<Option<KopiaError>>,
}

/// The packs of a writer until they are stored.
pub(super) struct PacksInMemory {
    /// Turns of puts.
    pub(super) uploads: Semaphore,
    /// Of packs with data, and of those with metadata, which are mostly much shorter.
    pub(super) buffers: [Buffers; 2],
    /// Packs that are on their way, as soon as all their contents are there: these are read here.
    on_their_way: Mutex<HashMap<Arc<str>, watch::Receiver<Option<Bytes>>>>,
    /// Told when one of them is gone.
    gone: Notify,
    /// The most packs that are on their way before new contents wait for them.
    most: usize,
}

impl PacksInMemory {
    fn new(options: &WriteOptions, format: &RepositoryFormat) -> Self {
        let pack = pack_buffer(format);
        Self {
            uploads: Semaphore::new(options.uploads.clamp(1, Semaphore::MAX_PERMITS)),
            buffers: IDLE_PACKS.map(|most| Buffers::new(pack, most)),
            on_their_way: Mutex::default(),
            gone: Notify::new(),
            most: Shares::of(options, format).packs,
        }
    }

    /// Keeps a pack readable until it is stored; its bytes are sent as soon as they are there.
    pub(super) fn keep(&self, name: Arc<str>) -> watch::Sender<Option<Bytes>> {
        let (send, kept) = watch::channel(None);
        lock(&self.on_their_way).insert(name, kept);
        send
    }

    pub(super) fn forget(&self, name: &str) {
        lock(&self.on_their_way).remove(name);
        self.gone.notify_waiters();
    }

    /// Waits as long as too many packs are on their way. Each ends by itself.
    pub(super) async fn wait(&self) {
        loop {
            let gone = self.gone.notified();
            if lock(&self.on_their_way).len() < self.most {
                return;
            }
            gone.await;
        }
    }

    /// A pack that is on its way.
    pub(super) async fn kept(&self, name: &str) -> Option<Bytes> {
        let mut kept = lock(&self.on_their_way).get(name)?.clone();
        kept.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// Pauses of this process, in which maintenance may drop what manifests refer to.
struct ManifestPauses {
    pauses: Mutex<Pauses>,
    /// True while manifests are among what is flushed.
    has_manifests: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    pub(super) fn new(contents: Contents, options: WriteOptions, retention: Option<Retention>) -> Self {
        let packs = PacksInMemory::new(&options, &contents.inner.guard.format());
        let pauses = Mutex::new(Pauses::begin((contents.inner.clock)()));
        Self {
            contents,
            options,
            retention,
            packs,
            written: Mutex::default(),
            pauses: ManifestPauses { pauses, has_manifests: AtomicBool::new(false) },
            markers: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    pub(super) fn blobs(&self) -> &Blobs {
        &self.contents.inner.blobs
    }

    pub(super) fn crypto(&self) -> &Arc<Crypto> {
        &self.contents.inner.crypto
    }

    pub(super) fn format(&self) -> Arc<RepositoryFormat> {
        self.contents.inner.guard.format()
    }

    /// The bytes of the format blob.
    pub(super) fn format_blob(&self) -> Bytes {
        self.contents.inner.guard.blob()
    }

    pub(super) fn now(&self) -> UnixNanos {
        (self.contents.inner.clock)()
    }

    pub(super) fn nonce(&self) -> [u8; NONCE_LENGTH] {
        random_bytes(&self.options.random)
    }

    /// Stores a blob, kept from deletion where the repository wants that.
    pub(super) async fn put(&self, name: &str, bytes: Bytes) -> Result<(), KopiaError> {
        let retention = object_lock(self.retention.as_ref(), name, self.now());
        self.blobs().put_with(name, bytes, PutOptions { retention, ..PutOptions::default() }).await
    }

    /// The lock of blobs that are put now; `None` where the repository has no object lock.
    pub(super) fn kept_until(&self) -> Option<lifeboat_bucket::Retention> {
        self.retention.as_ref().map(|retention| lock_until(retention, self.now()))
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Written)) {
        change(&mut lock(&self.written));
    }

    /// Gives the counts and begins anew.
    pub(super) fn take_counts(&self) -> Written {
        std::mem::take(&mut lock(&self.written))
    }

    pub(super) fn note_use(&self) {
        lock(&self.pauses.pauses).note(self.now());
    }

    pub(super) fn begin_manifests(&self) -> i64 {
        self.note_use();
        self.pauses.has_manifests.store(true, Ordering::SeqCst);
        lock(&self.pauses.pauses).total()
    }

    pub(super) fn end_manifests(&self, before: i64) {
        self.pauses.has_manifests.store(false, Ordering::SeqCst);
        lock(&self.pauses.pauses).forget(before);
    }

    /// Refuses manifests after a pause in which maintenance may have dropped what they refer to. A proof by the index would
    /// not do: a snapshot also refers to what it takes over from earlier ones, which no writer sees.
    pub(super) fn check_pauses(&self) -> Result<(), KopiaError> {
        self.note_use();
        if !self.pauses.has_manifests.load(Ordering::SeqCst) {
            return Ok(());
        }
        lock(&self.pauses.pauses).too_long().map_or(Ok(()), |minutes| {
            let why = format!(
                "this process stood still for {minutes} minutes since the last one that it saved, or the clock was set on: \
                 maintenance may have deleted meanwhile what it refers to. Run it again: what an earlier snapshot or \
                 checkpoint has is taken over"
            );
            Err(KopiaError::refused("save a manifest", why))
        })
    }

    /// Refuses manifests of what was stored or found since `kept`, where that is too long ago.
    pub(super) fn check_kept(&self, kept: UnixNanos) -> Result<(), KopiaError> {
        if !is_too_long(kept, self.now()) {
            return Ok(());
        }
        let why = format!(
            "nothing of it was kept in the repository since {kept}, and maintenance may have deleted meanwhile what it refers \
             to (the machine may have been asleep). Run it again: what an earlier snapshot or checkpoint has is taken over"
        );
        Err(KopiaError::refused("save a manifest", why))
    }

    /// The markers of ended sessions that are to be deleted.
    pub(super) fn undeleted_markers(&self) -> Vec<String> {
        lock(&self.markers).iter().cloned().collect()
    }

    /// Adds the marker of a session that has ended. Beyond some thousand the rest is left to maintenance.
    pub(super) fn add_marker(&self, name: &str) {
        let mut markers = lock(&self.markers);
        if markers.len() < MAX_MARKERS {
            markers.insert(name.to_owned());
        }
    }

    pub(super) fn forget_markers(&self, names: &[String]) {
        let mut markers = lock(&self.markers);
        markers.retain(|marker| !names.contains(marker));
    }

    /// The failure after which nothing is written any more. Every use of a writer begins with it.
    pub(super) fn check(&self) -> Result<(), KopiaError> {
        self.note_use();
        lock(&self.failure).as_ref().map_or(Ok(()), |error| Err(error.repeat()))
    }

    /// Ends the writer with a failure. The first one counts.
    pub(super) fn fail(&self, error: &KopiaError) {
        lock(&self.failure).get_or_insert_with(|| error.repeat());
    }
}
