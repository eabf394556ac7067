//! Maintenance: kopia goes on after ours, and ours after that of kopia.

use crate::ground::{PASSWORD, clock, contents, random, source, verify};
use crate::source::make;
use async_trait::async_trait;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{BlobStore, Body, BucketError, Directory, PutOptions};
use lifeboat_kopia::blobs::layout::Layout;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::maintenance::MaintenanceParameters;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::maintenance::plan::schedule::Mode;
use lifeboat_kopia::maintenance::{Maintenance, MaintenanceOptions, MaintenanceReport, Requested, set_parameters};
use lifeboat_kopia::{Clock, OpenOptions, Repository, RepositoryWriter, WriteOptions};
use lifeboat_mover::snapshot::{SnapshotOptions, snapshot};
use lifeboat_testbed::Kopia;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

const DAY: i64 = 24 * 3600 * 1_000_000_000;

/// A directory whose files have the times of a clock that is behind.
struct Dated {
    inner: Directory,
    root: PathBuf,
    behind: Arc<AtomicI64>,
}

impl Dated {
    fn clock(&self) -> Clock {
        let (real, behind) = (clock(), self.behind.clone());
        Arc::new(move || UnixNanos(real().0 - behind.load(Ordering::SeqCst)))
    }
}

impl fmt::Debug for Dated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dated")
    }
}

#[async_trait]
impl StoreDecorator for Dated {
    fn inner(&self) -> &dyn BlobStore {
        &self.inner
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        let size = self.inner.put(key, body, options).await?;
        let now = UNIX_EPOCH + Duration::from_nanos(u64::try_from((self.clock())().0).unwrap());
        File::options().write(true).open(self.root.join(key)).unwrap().set_modified(now).unwrap();
        Ok(size)
    }
}

fn options(store: &Dated, scratch: &Path) -> OpenOptions {
    let scratch = scratch.to_owned();
    OpenOptions { scratch, clock: store.clock(), memory: 64 << 20, threads: 2, indexes: IndexSource::IndexBlobs }
}

fn write_options() -> WriteOptions {
    let (user, host) = ("user".to_owned(), "host".to_owned());
    WriteOptions { user, host, random: random(), threads: 2, memory: 64 << 20, uploads: 4 }
}

async fn writer(store: &Arc<Dated>, scratch: &Path) -> RepositoryWriter {
    let password = Password::new(PASSWORD.to_owned());
    let repository = Repository::open(store.clone(), password, options(store, scratch)).await.unwrap();
    repository.writer(write_options()).await.unwrap()
}

async fn maintain(store: &Arc<Dated>, scratch: &Path) -> MaintenanceReport {
    let password = Password::new(PASSWORD.to_owned());
    let maintenance = Maintenance::open(store.clone(), password, options(store, scratch)).await.unwrap();
    let (requested, identity) = (Requested::Now(Mode::Full), "user@host".to_owned());
    let options = MaintenanceOptions { requested, identity, write: write_options() };
    let report = maintenance.run(&options, |_| {}).await.unwrap();
    assert!(report.steps.iter().all(|step| step.error.is_none()), "{report:?}");
    assert_eq!(report.plan.as_ref().unwrap().blockers, [""; 0]);
    report
}

/// Snapshots of six days, of which the first is forgotten; ours maintains the repository every day, then kopia does.
async fn kopia_goes_on_after_our_maintenance(version: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    make(&tree);
    std::fs::create_dir(&bucket).unwrap();
    let behind = Arc::new(AtomicI64::new(6 * DAY));
    let store = Arc::new(Dated { inner: Directory::open(&bucket).unwrap(), root: bucket.clone(), behind });
    let password = Password::new(PASSWORD.to_owned());
    let new = NewRepository::default();
    Repository::create(store.clone(), &password, &new, &random(), &Layout::sharded()).await.unwrap();
    let first = writer(&store, folder.path()).await;
    let parameters = MaintenanceParameters { owner: "user@host".to_owned(), ..MaintenanceParameters::default() };
    set_parameters(&first, &parameters).await.unwrap();
    let only_once = tree.join("only-once");
    std::fs::write(
        &only_once,
        vec![7; 3 << 20].iter().zip(0_u32..).map(|(a, n)| a ^ (n / 3) as u8).collect::<Vec<u8>>(),
    )
    .unwrap();
    let take = async |writer: &RepositoryWriter| {
        let options = SnapshotOptions::new(source(&tree), store.clock(), random());
        snapshot(writer, &tree, options, &Arc::default()).await.unwrap().id
    };
    let forgotten = take(&first).await;
    std::fs::remove_file(&only_once).unwrap();
    let before = contents(first.repository()).await;
    for day in (0..6).rev() {
        let writer = writer(&store, folder.path()).await;
        if day == 5 {
            writer.delete_manifest(&forgotten).unwrap();
        }
        take(&writer).await;
        maintain(&store, folder.path()).await;
        store.behind.store(day * DAY, Ordering::SeqCst);
        std::fs::write(tree.join(format!("day-{day}")), format!("day {day}").repeat(1000)).unwrap();
    }
    let kopia = Kopia::new(version, PASSWORD).unwrap();
    kopia.connect(&bucket).unwrap();
    let check = || {
        kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).unwrap();
        kopia.run(&["content", "verify", "--download-percent=100"]).unwrap();
    };
    check();
    let info = kopia.run(&["maintenance", "info"]).unwrap();
    assert!(info.contains("Owner: user@host") && info.contains("snapshot-gc"), "{info}");
    kopia.run(&["maintenance", "run", "--full"]).unwrap();
    check();
    kopia.run(&["snapshot", "create", tree.to_str().unwrap()]).unwrap();
    // Ours after kopia's.
    maintain(&store, folder.path()).await;
    check();
    let repository = writer(&store, folder.path()).await.repository().clone();
    let (report, problems) = verify(&repository).await;
    assert_eq!((problems, report.snapshots, report.damaged_index_entries), (vec![], 7, 0));
    // The file, the directory that had it, and nothing else of the tree.
    let after = contents(&repository).await;
    let gone = before.difference(&after).count();
    assert!((2..6).contains(&gone), "{gone} of {}", before.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kopia_0_23_goes_on_after_our_maintenance() {
    Box::pin(kopia_goes_on_after_our_maintenance("v0.23.1")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kopia_0_22_goes_on_after_our_maintenance() {
    Box::pin(kopia_goes_on_after_our_maintenance("v0.22.3")).await;
}
