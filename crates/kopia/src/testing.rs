//! Repositories in memory for tests: a clock that tests set, random bytes from a seed, keys that are derived once.

pub(crate) mod faulty;

use crate::content::IndexSource;
use crate::crypto::{Crypto, HashAlgorithm, Password};
use crate::format::blob_name::{BLOB_CONFIG, FORMAT};
use crate::format::repository::{FormatRandom, NewRepository, RepositoryBlobs, RepositoryFormat, create_format};
use crate::format::time::UnixNanos;
use crate::options::random_bytes;
use crate::{Clock, OpenOptions, Random, Repository, WriteOptions};
use lifeboat_bucket::{BlobStore, Entry, ListOptions, Memory, PutOptions};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The time at which every test begins.
pub(crate) const BEGIN: i64 = 1_795_000_000_000_000_000;

/// A clock that stands still until a test moves it.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<AtomicI64>);

impl Default for TestClock {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(BEGIN)))
    }
}

impl TestClock {
    pub(crate) fn clock(&self) -> Clock {
        let time = self.0.clone();
        Arc::new(move || UnixNanos(time.load(Ordering::SeqCst)))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
    }
}

/// Numbers without pattern, the same for the same seed.
pub(crate) fn seeded(seed: u64) -> Random {
    let state = Mutex::new(seed.wrapping_mul(2) | 1);
    Arc::new(move |bytes| {
        let mut state = state.lock().unwrap();
        for byte in bytes {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (*state >> 56) as u8;
        }
    })
}

/// So many bytes without pattern.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    seeded(seed)(&mut bytes);
    bytes
}

pub(crate) fn password() -> Password {
    Password::new("a password of tests".to_owned())
}

/// A repository whose keys are known, so that no password has to be stretched.
#[derive(Clone)]
pub(crate) struct Fixture {
    made: Arc<RepositoryBlobs>,
    pub(crate) clock: TestClock,
    scratch: Arc<tempfile::TempDir>,
}

impl Fixture {
    /// The parameters of Velero, with small packs.
    pub(crate) fn usual() -> Self {
        static MADE: OnceLock<Arc<RepositoryBlobs>> = OnceLock::new();
        let new = NewRepository { max_pack_size: 10 << 20, ..NewRepository::default() };
        Self::of(MADE.get_or_init(|| Arc::new(make(&new))).clone())
    }

    pub(crate) fn new(new: &NewRepository) -> Self {
        Self::of(Arc::new(make(new)))
    }

    fn of(made: Arc<RepositoryBlobs>) -> Self {
        Self { made, clock: TestClock::default(), scratch: Arc::new(tempfile::tempdir().unwrap()) }
    }

    /// The same repository with packs of so many bytes, fewer than kopia allows.
    pub(crate) fn with_packs(mut self, bytes: u64) -> Self {
        let mut made = self.made.as_ref().clone();
        made.format.max_pack_size = bytes;
        self.made = Arc::new(made);
        self
    }

    pub(crate) fn format(&self) -> &RepositoryFormat {
        &self.made.format
    }

    /// The keys of the repository, with another hash.
    pub(crate) fn crypto(&self, hash: HashAlgorithm) -> Arc<Crypto> {
        Arc::new(Crypto::new(&RepositoryFormat { hash, ..self.made.format.clone() }).unwrap())
    }

    /// A bucket with the new repository.
    pub(crate) async fn store(&self) -> Arc<Memory> {
        let store = Arc::new(Memory::default());
        self.fill(&store).await;
        store
    }

    /// Puts the new repository into a bucket.
    pub(crate) async fn fill(&self, store: &Memory) {
        for (name, bytes) in [(BLOB_CONFIG, &self.made.blob_config), (FORMAT, &self.made.format_blob)] {
            store.put(name, bytes.clone().into(), PutOptions::default()).await.unwrap();
        }
    }

    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions {
            scratch: self.scratch.path().to_owned(),
            clock: self.clock.clock(),
            memory: 16 << 20,
            threads: 2,
            indexes: IndexSource::IndexBlobs,
        }
    }

    pub(crate) async fn open(&self, store: Arc<dyn BlobStore>) -> Result<Repository, crate::KopiaError> {
        self.open_with(store, self.options()).await
    }

    pub(crate) async fn open_with(
        &self,
        store: Arc<dyn BlobStore>,
        options: OpenOptions,
    ) -> Result<Repository, crate::KopiaError> {
        Repository::open_known(store, &self.made.format_blob, &self.made.format, options).await
    }

    pub(crate) fn write_options(&self, seed: u64) -> WriteOptions {
        WriteOptions {
            user: "default".to_owned(),
            host: "default".to_owned(),
            random: seeded(seed),
            threads: 2,
            memory: 64 << 20,
            uploads: 4,
        }
    }
}

fn make(new: &NewRepository) -> RepositoryBlobs {
    let random = seeded(1);
    let random = FormatRandom {
        unique_id: random_bytes(&random),
        secret: random_bytes(&random),
        master_key: random_bytes(&random),
        format_nonce: random_bytes(&random),
        config_nonce: random_bytes(&random),
    };
    create_format(new, &password(), &random).unwrap()
}

/// The keys of a bucket that begin with a text.
pub(crate) async fn keys(store: &dyn BlobStore, prefix: &str) -> Vec<String> {
    let options = ListOptions { prefix: prefix.to_owned(), page_size: 100_000, ..ListOptions::default() };
    let key = |entry| match entry {
        Entry::Object(listed) => listed.key,
        Entry::Prefix(prefix) => prefix,
    };
    store.list(options).await.unwrap().entries.into_iter().map(key).collect()
}
