//! Repositories made, finished and opened in a bucket in memory.

use super::{
    CLIENT_NAME, DeletedSnapshot, DeletedSnapshots, EnsureOptions, RepositoryError, SnapshotOwner, WriterOptions,
    blobs_of, delete_snapshots, ensure, open,
};
use lifeboat_bucket::faults::Deadly;
use lifeboat_bucket::{BlobStore, Entry, ListOptions, Memory, PutOptions, collect};
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Source, Stats};
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::{KopiaError, OpenOptions, Random, Repository, WriteOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MARKER: &str = "kopia/shop/udmrepo.Repository";
const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

struct Ground {
    bucket: Arc<Memory>,
    scratch: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        Self { bucket: Arc::new(Memory::default()), scratch: tempfile::tempdir().unwrap() }
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        blobs_of(self.bucket.clone(), "shop")
    }

    fn open_options(&self) -> OpenOptions {
        OpenOptions {
            scratch: self.scratch.path().to_owned(),
            clock: Arc::new(|| NOW),
            memory: 32 << 20,
            threads: 2,
            indexes: IndexSource::IndexBlobs,
        }
    }

    fn writer_options(&self, random: Random) -> WriterOptions {
        WriterOptions { random, open: self.open_options() }
    }

    fn options(&self) -> EnsureOptions {
        EnsureOptions { may_create: true, full_maintenance: None, writer: self.writer_options(seeded(1)) }
    }

    async fn ensure(&self) -> Result<(), RepositoryError> {
        ensure(self.blobs(), &password(), &self.options()).await
    }

    async fn keys(&self) -> Vec<String> {
        let page = self.bucket.list(ListOptions { page_size: 1000, ..ListOptions::default() }).await.unwrap();
        let key = |entry| match entry {
            Entry::Object(listed) => listed.key,
            Entry::Prefix(prefix) => prefix,
        };
        page.entries.into_iter().map(key).collect()
    }

    async fn get(&self, key: &str) -> String {
        let bytes = collect(self.bucket.get(key, None).await.unwrap(), 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    async fn put(&self, key: &str, text: &str) {
        self.bucket.put(key, text.as_bytes().to_vec().into(), PutOptions::default()).await.unwrap();
    }

    async fn opened(&self) -> Repository {
        open(self.blobs(), password(), self.open_options()).await.unwrap()
    }
}

fn password() -> Password {
    Password::new("static-passw0rd".to_owned())
}

/// Numbers without pattern, the same for the same seed.
fn seeded(seed: u64) -> Random {
    let state = Mutex::new(seed.wrapping_mul(2) | 1);
    Arc::new(move |bytes| {
        let mut state = state.lock().unwrap();
        for byte in bytes {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (*state >> 56) as u8;
        }
    })
}

#[tokio::test]
async fn a_missing_repository_is_made_as_velero_makes_it() {
    let ground = Ground::new();
    let options = EnsureOptions { full_maintenance: Some(Duration::from_secs(6 * 3600)), ..ground.options() };
    ensure(ground.blobs(), &password(), &options).await.unwrap();
    let format: serde_json::Value = serde_json::from_str(&ground.get("kopia/shop/kopia.repository").await).unwrap();
    let id = format["uniqueID"].as_str().unwrap();
    assert_eq!(ground.get(MARKER).await, format!("{{\"uniqueID\":\"{id}\"}}"));
    let repository = ground.opened().await;
    let parameters = repository.maintenance_parameters().await.unwrap();
    assert_eq!((parameters.owner.as_str(), parameters.full.interval), ("default@default", 6 * 3600 * 1_000_000_000));
    assert_eq!(repository.format().version, 3);
    let before = ground.keys().await;
    ground.ensure().await.unwrap();
    assert_eq!(ground.keys().await, before, "nothing is written into one that is finished");
}

#[tokio::test(start_paused = true)]
async fn a_creation_killed_at_any_put_is_finished_by_the_next() {
    let whole = {
        let ground = Ground::new();
        ground.ensure().await.unwrap();
        ground.keys().await.len()
    };
    let mut finished = 0;
    for puts in 0..whole + 3 {
        for takes_last in [false, true] {
            let ground = Ground::new();
            let deadly = blobs_of(Arc::new(Deadly::new(ground.bucket.clone(), puts, takes_last)), "shop");
            finished += usize::from(ensure(deadly, &password(), &ground.options()).await.is_ok());
            let again = EnsureOptions { writer: ground.writer_options(seeded(2)), ..ground.options() };
            ensure(ground.blobs(), &password(), &again).await.unwrap();
            let parameters = ground.opened().await.maintenance_parameters().await.unwrap();
            assert_eq!(parameters.owner, "default@default", "after {puts} puts");
            assert!(ground.keys().await.contains(&MARKER.to_owned()), "after {puts} puts");
        }
    }
    assert!(finished > 0, "the last of them were not killed");
}

#[tokio::test]
async fn a_repository_of_an_older_velero_gets_the_marker() {
    let ground = Ground::new();
    ground.ensure().await.unwrap();
    ground.bucket.delete(&[MARKER.to_owned()]).await.unwrap();
    let read_only = EnsureOptions { may_create: false, ..ground.options() };
    ensure(ground.blobs(), &password(), &read_only).await.unwrap();
    assert!(!ground.keys().await.contains(&MARKER.to_owned()), "nothing is written into a read-only location");
    let before = ground.keys().await.len();
    ground.ensure().await.unwrap();
    assert_eq!(ground.keys().await.len(), before + 1, "the parameters were there already");
}

#[tokio::test]
async fn a_read_only_location_without_repository_gets_none() {
    let ground = Ground::new();
    let read_only = EnsureOptions { may_create: false, ..ground.options() };
    let error = ensure(ground.blobs(), &password(), &read_only).await.unwrap_err();
    assert!(matches!(error, RepositoryError::ReadOnly { .. }), "{error}");
    assert_eq!(ground.keys().await, [""; 0]);
}

#[tokio::test]
async fn data_that_is_no_repository_and_foreign_markers_are_left_alone() {
    let ground = Ground::new();
    ground.put("kopia/shop/p0123", "x").await;
    let error = ground.ensure().await.unwrap_err();
    assert!(matches!(&error, RepositoryError::NotEmpty { found, .. } if found == "p0123"), "{error}");
    assert_eq!(ground.keys().await, ["kopia/shop/p0123"]);

    let ground = Ground::new();
    ground.ensure().await.unwrap();
    ground.put(MARKER, r#"{"uniqueID":"AAAA"}"#).await;
    let error = ground.ensure().await.unwrap_err();
    assert!(matches!(error, RepositoryError::ForeignMarker { .. }), "{error}");
    ground.put(MARKER, "no JSON").await;
    let error = ground.ensure().await.unwrap_err().to_string();
    assert!(error.starts_with("blob udmrepo.Repository is damaged: "), "{error}");
}

#[tokio::test]
async fn white_space_around_the_password_does_not_count() {
    let ground = Ground::new();
    let padded = Password::new("\n static-passw0rd \t\n".to_owned());
    ensure(ground.blobs(), &padded, &ground.options()).await.unwrap();
    ground.ensure().await.unwrap();
    open(ground.blobs(), padded, ground.open_options()).await.unwrap();
    let wrong = Password::new("wrong".to_owned());
    let error = ensure(ground.blobs(), &wrong, &ground.options()).await.unwrap_err();
    assert!(error.is_wrong_password(), "{error}");
}

/// Saves a pinned snapshot of a backup with this UID, and gives its ID.
async fn saved(ground: &Ground, backup_uid: &str) -> String {
    let seed = u64::try_from(ground.keys().await.len()).unwrap();
    let (user, host) = (CLIENT_NAME.to_owned(), CLIENT_NAME.to_owned());
    let write = WriteOptions { user, host, random: seeded(seed), threads: 1, memory: 32 << 20, uploads: 1 };
    let tags = [("backup", "b"), ("backup-uid", backup_uid)].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let document = SnapshotDocument {
        source: Source { host: CLIENT_NAME.to_owned(), user: CLIENT_NAME.to_owned(), path: backup_uid.to_owned() },
        description: "Kopia Uploader".to_owned(),
        start: NOW,
        end: NOW,
        stats: Stats::default(),
        incomplete: None,
        root: None,
        tags: BTreeMap::from(tags),
        pins: vec!["velero-pin".to_owned()],
    };
    let writer = ground.opened().await.writer(write).await.unwrap();
    let id = writer.save_snapshot(&document).unwrap();
    writer.flush().await.unwrap();
    id
}

impl Ground {
    async fn delete(&self, ids: &[String]) -> Result<DeletedSnapshots, RepositoryError> {
        let owner = SnapshotOwner { backup: "b", backup_uid: "u-1" };
        let options = WriterOptions { random: seeded(9), open: self.open_options() };
        delete_snapshots(self.blobs(), password(), ids, owner, options).await
    }
}

#[tokio::test]
async fn snapshots_of_a_deleted_backup_go_and_those_of_others_stay() {
    let ground = Ground::new();
    ground.ensure().await.unwrap();
    let own = saved(&ground, "u-1").await;
    let others = saved(&ground, "u-2").await;
    // Of an attempt that was cut off: no record has its ID.
    saved(&ground, "u-1").await;
    let ids = [own.clone(), "0123".to_owned(), others.clone()];
    let of_another = DeletedSnapshot::OfAnother("the backup \"b\" with the UID u-2".to_owned());
    let ends = ground.delete(&ids).await.unwrap();
    let expected = vec![DeletedSnapshot::Deleted, DeletedSnapshot::Missing, of_another.clone()];
    assert_eq!(ends, DeletedSnapshots { ends: expected, unnamed: 1 });
    let left: Vec<String> = ground.opened().await.snapshots().await.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(left, [others]);
    // Again there is nothing to do, and nothing is written.
    let before = ground.keys().await;
    let ends = ground.delete(&ids).await.unwrap();
    let expected = vec![DeletedSnapshot::Missing, DeletedSnapshot::Missing, of_another];
    assert_eq!(ends, DeletedSnapshots { ends: expected, unnamed: 0 });
    assert_eq!(ground.keys().await, before);
}

#[tokio::test]
async fn a_repository_that_is_gone_has_no_snapshots_and_a_damaged_one_says_so() {
    let ground = Ground::new();
    let missing = DeletedSnapshots { ends: vec![DeletedSnapshot::Missing], unnamed: 0 };
    assert_eq!(ground.delete(&["a".to_owned()]).await.unwrap(), missing);
    ground.put("kopia/shop/p0123", "x").await;
    let error = ground.delete(&["a".to_owned()]).await.unwrap_err();
    assert!(matches!(error, RepositoryError::Kopia(KopiaError::NotARepository { .. })), "{error}");
}
