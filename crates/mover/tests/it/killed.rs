//! Snapshots whose process is killed with any call to the storage, reads among them.

use crate::tree::rows;
use crate::written::{Written, problems};
use async_trait::async_trait;
use lifeboat_bucket::{
    BlobStore, Body, BucketError, ByteStream, ErrorKind, ListOptions, Memory, ObjectInfo, Page, PutOptions,
};
use lifeboat_mover::snapshot::{CheckpointTimes, SnapshotOptions, snapshot};
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Checkpoints follow each other at once.
const ALWAYS: CheckpointTimes = CheckpointTimes { first: Duration::ZERO, longest: Duration::ZERO };

/// A store whose user is killed with one of its calls: that has its effect or not, and none after it has.
#[derive(Debug)]
struct Mortal {
    inner: Arc<Memory>,
    /// The calls that are left.
    left: AtomicI64,
    last_has_effect: bool,
}

/// The result of a call, as the one who makes it sees it.
enum Outcome {
    Done,
    /// It has its effect, and nobody is told.
    Untold,
    Nothing,
}

impl Mortal {
    fn call(&self) -> Outcome {
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            2.. => Outcome::Done,
            1 if self.last_has_effect => Outcome::Untold,
            _ => Outcome::Nothing,
        }
    }
}

fn killed(operation: &'static str, key: &str) -> BucketError {
    let (key, store, message) = (key.to_owned(), "mortal".to_owned(), "killed".to_owned());
    BucketError { kind: ErrorKind::Other, operation, key, store, message, source: None }
}

#[async_trait]
impl BlobStore for Mortal {
    fn describe(&self) -> String {
        "mortal".to_owned()
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        match self.call() {
            Outcome::Done => return self.inner.put(key, body, options).await,
            Outcome::Untold => drop(self.inner.put(key, body, options).await?),
            Outcome::Nothing => {}
        }
        Err(killed("put", key))
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        match self.call() {
            Outcome::Done => self.inner.get(key, range).await,
            _ => Err(killed("get", key)),
        }
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        match self.call() {
            Outcome::Done => self.inner.head(key).await,
            _ => Err(killed("head", key)),
        }
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        match self.call() {
            Outcome::Done => self.inner.list(options).await,
            _ => Err(killed("list", &options.prefix)),
        }
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        match self.call() {
            Outcome::Done => return self.inner.delete(keys).await,
            Outcome::Untold => self.inner.delete(keys).await?,
            Outcome::Nothing => {}
        }
        Err(killed("delete", keys.first().map_or("", String::as_str)))
    }
    async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
        self.inner.abort_stale_uploads(prefix, age).await
    }
    async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
        self.inner.presign(key, valid).await
    }
}

/// Numbers that look random.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

/// As many kills as `LIFEBOAT_KILLS` asks for, or few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_killed_at_random_calls_break_nothing_and_the_next_is_whole() {
    let wanted: u64 = std::env::var("LIFEBOAT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(10);
    let ground = Written::new().await;
    let tree = ground.tree();
    for directory in 0..4 {
        fs::create_dir_all(tree.join(format!("d{directory}/e"))).unwrap();
        for file in 0..6 {
            fs::write(tree.join(format!("d{directory}/e/f{file}")), format!("{directory} {file}")).unwrap();
        }
    }
    let repository = ground.open().await;
    let mut deaths = 0;
    for seed in 0..wanted {
        let mut state = seed;
        for file in 0..3 {
            let bytes: Vec<u8> = (0..400_000).map(|_| below(&mut state, 256) as u8).collect();
            fs::write(tree.join(format!("d{file}/changing")), bytes).unwrap();
        }
        let left = AtomicI64::new(1 + below(&mut state, 20) as i64);
        let last_has_effect = below(&mut state, 2) == 0;
        println!("kill {seed}: {left:?} {last_has_effect}");
        let mortal = Arc::new(Mortal { inner: ground.store.clone(), left, last_has_effect });
        if let Ok(dying) = ground.open_over(mortal.clone()).await
            && let Ok(writer) = ground.try_writer(&dying).await
        {
            let options = SnapshotOptions { checkpoints: ALWAYS, ..ground.options() };
            let _ = snapshot(&writer, &tree, options, &Arc::default()).await;
        }
        deaths += u64::from(mortal.left.load(Ordering::SeqCst) <= 0);
        repository.contents().refresh().await.unwrap();
        assert_eq!(problems(&repository).await, [""; 0], "kill {seed}");
        let report = ground.take(&repository).await;
        assert!(report.is_whole());
        repository.contents().refresh().await.unwrap();
        assert_eq!(problems(&repository).await, [""; 0], "after kill {seed}");
    }
    assert!(deaths * 2 >= wanted, "{deaths}");
    let last = ground.take(&repository).await;
    assert_eq!(ground.restored(&repository, last.document.root.as_ref().unwrap()).await, rows(&tree));
}
