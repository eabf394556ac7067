//! Bits that are flipped, at rest in any blob and in answers of the storage, and answers that end early: maintenance deletes
//! nothing that is needed, and snapshots refer to nothing that is not there.

use super::shelf::{Fault, Shelf};
use super::{DAY, Maintenance, StorageClock, forget, new_repository, options, run, save, snapshot, whole_snapshots};
use crate::testing::{Fixture, seeded};
use crate::{KopiaError, OpenOptions, Random};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use lifeboat_bucket::faults::StoreDecorator;
use lifeboat_bucket::{BlobStore, BucketError, ByteStream, collect};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn below(random: &Random, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_le_bytes(bytes) % bound
}

/// Flips a bit somewhere.
fn flip(random: &Random, bytes: &mut [u8]) {
    let (at, bit) = (below(random, bytes.len() as u64) as usize, below(random, 8));
    bytes[at] ^= 1 << bit;
}

/// Runs full maintenance. The repository may be one that cannot be opened.
async fn maintain(fixture: &Fixture, store: Arc<dyn BlobStore>, seed: u64) -> Result<(), KopiaError> {
    let clock = StorageClock::new(fixture.clock.clock());
    let open = OpenOptions { clock: clock.clock(), ..fixture.options() };
    let maintenance = Maintenance::new(fixture.open_with(store, open).await?, clock);
    maintenance.run(&options(fixture, seed), |_| {}).await.map(drop)
}

#[tokio::test]
async fn a_flipped_bit_in_any_blob_lets_maintenance_delete_nothing_needed() {
    let random = seeded(17);
    let (fixture, shelf) = new_repository().await;
    let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3, 4, 5, 6], 2).await;
    snapshot(&fixture, shelf.clone(), &[1, 5, 9], 3).await;
    forget(&fixture, shelf.clone(), &gone).await;
    run(&fixture, shelf.clone(), 0, 4).await.unwrap();
    // The marker of a session that was killed, and its pack.
    let dying = Shelf::with_fault(&shelf, Fault { calls: 2, has_effect: true });
    let writer = fixture.open(dying).await.unwrap().writer(fixture.write_options(5)).await.unwrap();
    save(&fixture, &writer, &[7], true).await.unwrap_err();
    assert!(!shelf.keys("s").await.is_empty(), "the session has a marker");
    fixture.clock.advance(DAY);
    let mut refused = BTreeSet::new();
    for key in shelf.keys("").await {
        for n in 0..2 {
            let copy = shelf.copy().await;
            let whole = collect(copy.get(&key, None).await.unwrap(), 1 << 30).await.unwrap();
            if whole.is_empty() {
                continue;
            }
            let mut flipped = whole.to_vec();
            flip(&random, &mut flipped);
            copy.replace(&key, flipped.into()).await;
            for day in 0..3 {
                if Box::pin(maintain(&fixture, copy.clone(), 100 + n * 10 + day)).await.is_err() {
                    refused.insert(key.clone());
                }
                fixture.clock.advance(DAY);
            }
            // As if it had been put back from a copy of the bucket.
            if copy.keys(&key).await.contains(&key) {
                copy.replace(&key, whole).await;
            }
            assert_eq!(whole_snapshots(&fixture, copy).await, 1, "{key}");
            fixture.clock.advance(-3 * DAY);
        }
    }
    // Some are found by whoever opens the repository.
    assert!(refused.iter().any(|key| key.starts_with("xn")), "{refused:?}");
}

/// A store of which some answers end early, and some have another bit.
struct Lying {
    inner: Arc<Shelf>,
    random: Random,
    /// The answers that were changed.
    lies: AtomicUsize,
}

impl fmt::Debug for Lying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lying")
    }
}

#[async_trait]
impl StoreDecorator for Lying {
    fn inner(&self) -> &dyn BlobStore {
        &*self.inner
    }

    async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
        // Some come late.
        for _ in 0..below(&self.random, 20) {
            tokio::task::yield_now().await;
        }
        let stream = self.inner.get(key, range).await?;
        let bytes = collect(stream, 1 << 30).await?;
        let kind = below(&self.random, 24);
        let answer: Bytes = if bytes.is_empty() || kind > 1 {
            bytes
        } else {
            self.lies.fetch_add(1, Ordering::SeqCst);
            let mut changed = bytes.to_vec();
            match kind {
                0 => changed.truncate(below(&self.random, changed.len() as u64) as usize),
                _ => flip(&self.random, &mut changed),
            }
            changed.into()
        };
        Ok(futures::stream::once(async move { Ok(answer) }).boxed())
    }
}

/// Saves a snapshot; gives its ID.
async fn take(fixture: &Fixture, store: Arc<dyn BlobStore>, files: &[u64], seed: u64) -> Result<String, KopiaError> {
    let writer = fixture.open(store).await?.writer(fixture.write_options(seed)).await?;
    save(fixture, &writer, files, seed.is_multiple_of(2)).await
}

async fn history(seed: u64) -> usize {
    println!("history {seed}");
    let random = seeded(seed);
    let (fixture, shelf) = new_repository().await;
    let (mut saved, mut lies) = (BTreeSet::new(), 0);
    saved.insert(snapshot(&fixture, shelf.clone(), &[1, 2, 3], seed * 100_000 + 1).await);
    for step in 0..12_u64 {
        let number = seed * 100_000 + step * 100 + 10;
        let lying = Lying { inner: shelf.clone(), random: seeded(number), lies: AtomicUsize::new(0) };
        let lying = Arc::new(lying);
        let files: Vec<u64> = (0..1 + below(&random, 4)).map(|_| below(&random, 9)).collect();
        if below(&random, 2) == 0 {
            saved.extend(take(&fixture, lying.clone(), &files, number).await);
        } else {
            let _ = Box::pin(maintain(&fixture, lying.clone(), number)).await;
        }
        lies += lying.lies.load(Ordering::SeqCst);
        if saved.len() > 3 {
            let chosen = saved.iter().nth(below(&random, 4) as usize).unwrap().clone();
            forget(&fixture, shelf.clone(), &chosen).await;
            saved.remove(&chosen);
        }
        whole_snapshots(&fixture, shelf.clone()).await;
        let there = fixture.open(shelf.clone()).await.unwrap().snapshots().await.unwrap();
        let there: BTreeSet<String> = there.into_iter().map(|snapshot| snapshot.id).collect();
        // One that was told to have failed may be there as well.
        assert!(there.is_superset(&saved), "history {seed}, step {step}: {saved:?} {there:?}");
        fixture.clock.advance(31 * 60 + below(&random, 30 * 3600) as i64);
    }
    lies
}

#[tokio::test]
async fn answers_that_are_changed_or_cut_off_lose_nothing() {
    let mut lies = 0;
    for seed in 0..12 {
        lies += Box::pin(history(seed)).await;
    }
    assert!(lies > 20, "{lies}");
}
