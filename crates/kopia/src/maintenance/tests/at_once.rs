//! Two writers and a maintainer at once, each with its own clock.

use super::shelf::Shelf;
use super::{DAY, forget_by, new_repository, run, run_for_days, save, whole_snapshots};
use crate::testing::{Fixture, seeded};
use crate::{OpenOptions, Random};
use async_trait::async_trait;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{BlobStore, Body, BucketError, ByteStream, ListOptions, Page, PutOptions};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A store whose calls let others go first, some more and some less.
struct Unsteady {
    inner: Arc<Shelf>,
    random: Random,
}

impl fmt::Debug for Unsteady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unsteady")
    }
}

impl Unsteady {
    fn new(inner: &Arc<Shelf>, seed: u64) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), random: seeded(seed) })
    }

    async fn let_others(&self) {
        for _ in 0..below(&self.random, 12) {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl StoreDecorator for Unsteady {
    fn inner(&self) -> &dyn BlobStore {
        &*self.inner
    }
    async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
        self.let_others().await;
        self.inner.put(key, body, options).await
    }
    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        self.let_others().await;
        self.inner.get(key, range).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
        self.let_others().await;
        self.inner.list(options).await
    }
    async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
        self.let_others().await;
        self.inner.delete(keys).await
    }
}

fn below(random: &Random, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_le_bytes(bytes) % bound
}

/// The snapshot of a writer whose clock is wrong by so many seconds.
struct SkewedSnapshot {
    wrong: i64,
    files: Vec<u64>,
    flushes: bool,
    seed: u64,
}

impl SkewedSnapshot {
    fn new(random: &Random, wrong: i64, seed: u64) -> Self {
        let files = (0..1 + below(random, 5)).map(|_| below(random, 9)).collect();
        Self { wrong, files, flushes: below(random, 2) == 0, seed }
    }

    /// Takes it; gives its ID.
    async fn take(&self, fixture: &Fixture, shelf: &Arc<Shelf>) -> String {
        let (local, wrong) = (fixture.clock.clock(), self.wrong * 1_000_000_000);
        let clock: crate::Clock = Arc::new(move || crate::format::time::UnixNanos(local().0 + wrong));
        let options = OpenOptions { clock, ..fixture.options() };
        let repository = fixture.open_with(Unsteady::new(shelf, self.seed), options).await.unwrap();
        let writer = repository.writer(fixture.write_options(self.seed)).await.unwrap();
        save(fixture, &writer, &self.files, self.flushes).await.unwrap()
    }
}

/// Ten rounds, in each of which two writers save a snapshot while maintenance runs, with clocks that are wrong by so
/// many seconds, or by random ones. Gives the number of rounds in which maintenance came to its end.
async fn history(seed: u64, clocks: Option<[i64; 3]>) -> u64 {
    let random = seeded(seed);
    let wrong = || [0, 2 * DAY, -2 * DAY, 3600, -3600][below(&random, 5) as usize];
    // A machine keeps its error.
    let drawn = [wrong(), wrong(), wrong()];
    let clocks = clocks.unwrap_or(drawn);
    println!("history {seed}: {clocks:?}");
    let mut ended = 0;
    let (fixture, shelf) = new_repository().await;
    let mut snapshots: Vec<String> = Vec::new();
    for round in 0..10_u64 {
        let number = seed * 100_000 + round * 100;
        shelf.set_put_takes(below(&random, 20) as i64);
        let one = SkewedSnapshot::new(&random, clocks[0], number + 1);
        let other = SkewedSnapshot::new(&random, clocks[1], number + 2);
        let unsteady = Unsteady::new(&shelf, number + 3);
        let maintained = run(&fixture, unsteady, clocks[2], number + 3);
        let (one, other, maintained) =
            futures::join!(one.take(&fixture, &shelf), other.take(&fixture, &shelf), maintained);
        shelf.set_put_takes(0);
        ended += u64::from(maintained.is_ok());
        snapshots.extend([one, other]);
        while snapshots.len() > 3 {
            let chosen = below(&random, snapshots.len() as u64) as usize;
            forget_by(&fixture, shelf.clone(), &snapshots.remove(chosen), clocks[chosen % 2]).await;
        }
        let whole = whole_snapshots(&fixture, shelf.clone()).await;
        assert_eq!(whole, snapshots.len() as u64, "history {seed}, round {round}: {clocks:?}, {maintained:?}");
        fixture.clock.advance(1800 + below(&random, 30 * 3600) as i64);
    }
    for id in snapshots {
        forget_by(&fixture, shelf.clone(), &id, clocks[0]).await;
    }
    fixture.clock.advance(5 * DAY);
    run_for_days(&fixture, shelf.clone(), 5, clocks[2]).await;
    assert_eq!(shelf.keys("p").await, [""; 0], "history {seed}: nothing needs data any more");
    ended
}

/// As many rounds as `LIFEBOAT_ROUNDS` asks for, or 50; each history has ten.
#[tokio::test]
async fn two_writers_and_a_maintainer_at_once_lose_nothing() {
    let wanted: u64 = std::env::var("LIFEBOAT_ROUNDS").ok().and_then(|number| number.parse().ok()).unwrap_or(50);
    for seed in 0..wanted.div_ceil(10) {
        let ended = Box::pin(history(seed, None)).await;
        println!("history {seed}: maintenance came to its end {ended} times");
    }
    // Where all clocks are right nothing keeps maintenance from its work.
    let ended = Box::pin(history(wanted, Some([0; 3]))).await;
    assert!(ended >= 5, "with right clocks maintenance came to its end {ended} times");
}
