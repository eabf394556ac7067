//! Clients that are killed with any call to the storage, reads among them.

use super::shelf::{Fault, Shelf};
use super::{DAY, forget, maintainer, new_repository, options, run_for_days, save, snapshot, whole_snapshots};
use crate::KopiaError;
use crate::testing::Fixture;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The work of a client.
#[derive(Debug, Clone)]
enum Work {
    Snapshot { files: Vec<u64>, flushes: bool },
    Forget(String),
    Maintain,
}

async fn do_work(fixture: &Fixture, store: Arc<Shelf>, work: &Work, seed: u64) -> Result<(), KopiaError> {
    if let Work::Maintain = work {
        return Box::pin(async {
            // The maintainer opens the repository before it can be killed.
            let maintenance = maintainer(fixture, store, 0).await;
            maintenance.run(&options(fixture, seed), |_| {}).await.map(drop)
        })
        .await;
    }
    let repository = fixture.open(store).await?;
    let writer = repository.writer(fixture.write_options(seed)).await?;
    match work {
        Work::Snapshot { files, flushes } => save(fixture, &writer, files, *flushes).await.map(drop),
        Work::Forget(id) => {
            writer.delete_manifest(id)?;
            writer.flush().await.map(drop)
        }
        Work::Maintain => Ok(()),
    }
}

async fn snapshots(fixture: &Fixture, store: Arc<Shelf>) -> BTreeSet<String> {
    let repository = fixture.open(store).await.unwrap();
    repository.snapshots().await.unwrap().into_iter().map(|snapshot| snapshot.id).collect()
}

/// Kills one client after the other; gives the number of those that were.
async fn history(seed: u64) -> usize {
    println!("history {seed}");
    let mut random = Random(seed);
    let (fixture, shelf) = new_repository().await;
    snapshot(&fixture, shelf.clone(), &[1, 2, 3], seed * 1_000_000 + 1).await;
    let mut killed = 0;
    for step in 0..10_u64 {
        let number = seed * 1_000_000 + step * 100 + 2;
        let known = snapshots(&fixture, shelf.clone()).await;
        let chosen = known.iter().nth(random.below(known.len().max(1) as u64) as usize).cloned();
        let work = match (random.below(5), chosen) {
            (0 | 1, _) | (4, None) => Work::Snapshot {
                files: (0..1 + random.below(4)).map(|_| random.below(9)).collect(),
                flushes: random.below(2) == 0,
            },
            (4, Some(id)) => Work::Forget(id),
            _ => Work::Maintain,
        };
        println!("step {step}: {work:?}");
        // The calls of a copy tell with which it can be killed.
        let copy = shelf.copy().await;
        let counting = Shelf::with_fault_of_any_call(&copy, Fault { calls: usize::MAX - 1, has_effect: true });
        do_work(&fixture, counting.clone(), &work, number).await.unwrap();
        let first = match work {
            Work::Maintain => {
                let opening = Shelf::with_fault_of_any_call(&copy, Fault { calls: usize::MAX - 1, has_effect: true });
                drop(maintainer(&fixture, opening.clone(), 0).await);
                opening.calls()
            }
            _ => 0,
        };
        let calls = first + random.below((counting.calls() - first) as u64) as usize;
        let fault = Fault { calls, has_effect: random.below(2) == 0 };
        let dying = Shelf::with_fault_of_any_call(&shelf, fault);
        let _ = do_work(&fixture, dying.clone(), &work, number + 1).await;
        killed += usize::from(dying.is_dead());
        let now = snapshots(&fixture, shelf.clone()).await;
        let lost: Vec<&String> =
            known.difference(&now).filter(|id| !matches!(&work, Work::Forget(of) if of == *id)).collect();
        assert!(lost.is_empty(), "{fault:?}: {lost:?}");
        assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, now.len() as u64, "{fault:?}");
        fixture.clock.advance(31 * 60 + random.below(30 * 3600) as i64);
        if !matches!(&work, Work::Forget(id) if !now.contains(id)) {
            do_work(&fixture, shelf.clone(), &work, number + 2).await.unwrap();
        }
        let now = snapshots(&fixture, shelf.clone()).await;
        assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, now.len() as u64, "after {fault:?}");
    }
    for id in snapshots(&fixture, shelf.clone()).await {
        forget(&fixture, shelf.clone(), &id).await;
    }
    fixture.clock.advance(5 * DAY);
    run_for_days(&fixture, shelf.clone(), 5, 0).await;
    assert_eq!(shelf.keys("p").await, [""; 0], "nothing needs data any more");
    killed
}

/// Of the histories that `LIFEBOAT_KILLS` asks for, or few, each has ten kills.
#[tokio::test]
async fn clients_killed_at_random_calls_lose_nothing_and_the_next_completes() {
    let wanted = std::env::var("LIFEBOAT_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(20);
    let mut killed = 0;
    for seed in 0..wanted {
        killed += Box::pin(history(seed)).await;
    }
    assert!(killed as u64 >= 9 * wanted, "{killed}");
}
