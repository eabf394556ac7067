//! Random histories of writers and maintainers, with the real code.

use super::shelf::{Fault, Shelf};
use super::{DAY, forget, new_repository, run, run_for_days, snapshot, whole_snapshots};
use std::sync::Arc;
use tokio::sync::Barrier;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

async fn history(seed: u64) {
    let mut random = Random(seed);
    let (fixture, shelf) = new_repository().await;
    let mut snapshots: Vec<String> = Vec::new();
    for step in 0..14_u64 {
        let number = seed * 100_000 + step * 100;
        let files: Vec<u64> = (0..1 + random.below(5)).map(|_| random.below(9)).collect();
        let wrong = [0, 2 * DAY, -2 * DAY][random.below(3) as usize];
        match random.below(6) {
            0 => snapshots.push(snapshot(&fixture, shelf.clone(), &files, number).await),
            1 if !snapshots.is_empty() => {
                let chosen = random.below(snapshots.len() as u64) as usize;
                forget(&fixture, shelf.clone(), &snapshots.remove(chosen)).await;
            }
            // A maintainer that is killed.
            2 => {
                let fault = Fault { calls: random.below(40) as usize, has_effect: random.below(2) == 0 };
                let _ = run(&fixture, Shelf::with_fault(&shelf, fault), wrong, number).await;
            }
            // A maintainer beside a writer.
            3 => {
                let run = run(&fixture, shelf.clone(), wrong, number);
                let (_, id) = futures::join!(run, snapshot(&fixture, shelf.clone(), &files, number + 1));
                snapshots.push(id);
            }
            // Two maintainers.
            4 => {
                let one = run(&fixture, shelf.clone(), wrong, number);
                let other = run(&fixture, shelf.clone(), -wrong, number + 1);
                let _ = futures::join!(one, other);
            }
            _ => drop(run(&fixture, shelf.clone(), wrong, number).await),
        }
        fixture.clock.advance(600 + random.below(30 * 3600) as i64);
        let whole = whole_snapshots(&fixture, shelf.clone()).await;
        assert_eq!(whole, snapshots.len() as u64, "history {seed}, step {step}");
    }
    fixture.clock.advance(5 * DAY);
    run_for_days(&fixture, shelf.clone(), 4, 0).await;
    assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, snapshots.len() as u64, "history {seed}");
    for id in snapshots {
        forget(&fixture, shelf.clone(), &id).await;
    }
    run_for_days(&fixture, shelf.clone(), 5, 0).await;
    assert_eq!(shelf.keys("p").await, [""; 0], "history {seed}: nothing needs data any more");
}

#[tokio::test]
async fn no_history_loses_a_snapshot_and_garbage_goes() {
    for seed in 0..12 {
        Box::pin(history(seed)).await;
    }
}

/// Each has put its claim before either looks for others.
#[tokio::test]
async fn of_two_runs_that_begin_at_once_at_least_one_gives_way() {
    let (fixture, shelf) = new_repository().await;
    snapshot(&fixture, shelf.clone(), &[1, 9], 3).await;
    shelf.set_gate(Some(Arc::new(Barrier::new(2))));
    let (one, other) = futures::join!(run(&fixture, shelf.clone(), 0, 10), run(&fixture, shelf.clone(), 2 * DAY, 20));
    let errors: Vec<String> = [one, other].into_iter().filter_map(|run| Some(run.err()?.to_string())).collect();
    assert!(
        !errors.is_empty() && errors.iter().all(|why| why.contains("another run shows signs of life")),
        "{errors:?}"
    );
    assert_eq!(shelf.keys("io.").await, [""; 0]);
    shelf.set_gate(None);
    run(&fixture, shelf.clone(), 0, 30).await.unwrap();
    assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 1);
}
