//! Times between runs, and during one.

use super::{DAY, forget, new_repository, new_repository_with_packs, run, snapshot, whole_snapshots};
use std::collections::VecDeque;

/// A copy that a run makes is some minutes younger than the run: a run at the same time of the next day finds it a bit less
/// than a day old.
#[tokio::test]
async fn daily_runs_that_take_minutes_free_what_they_have_rewritten() {
    let (fixture, shelf) = new_repository_with_packs(1_000_000).await;
    shelf.set_put_takes(10);
    let begin = (fixture.clock.clock())().seconds();
    let mut kept = VecDeque::new();
    let mut bytes = Vec::new();
    for day in 1..=24 {
        fixture.clock.advance(begin + day * DAY - (fixture.clock.clock())().seconds());
        let number = day.unsigned_abs() * 10;
        kept.push_back(snapshot(&fixture, shelf.clone(), &[number], number).await);
        if kept.len() > 3 {
            forget(&fixture, shelf.clone(), &kept.pop_front().unwrap()).await;
        }
        // Always at the same time of the day.
        fixture.clock.advance(begin + day * DAY + 600 - (fixture.clock.clock())().seconds());
        let report = run(&fixture, shelf.clone(), 0, number + 1).await.unwrap();
        assert!(report.steps.iter().all(|step| step.error.is_none()), "{:?}", report.steps);
        bytes.push(shelf.bytes("p").await);
    }
    assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 3);
    let (before, after) = (bytes[10], bytes[23]);
    assert!(after < 120_000 && after < before + 40_000, "{bytes:?}");
}

/// A content that was marked deleted is written again when a snapshot needs it. The old pack has no entry that counts from
/// then on, but readers that have loaded the indexes before look there.
#[tokio::test]
async fn a_pack_whose_contents_were_just_written_again_stays_for_an_hour() {
    let (fixture, shelf) = new_repository().await;
    let gone = snapshot(&fixture, shelf.clone(), &[1], 2).await;
    let old = shelf.keys("p").await;
    assert_eq!(old.len(), 1);
    forget(&fixture, shelf.clone(), &gone).await;
    fixture.clock.advance(DAY + 60);
    run(&fixture, shelf.clone(), 0, 3).await.unwrap();
    fixture.clock.advance(2 * 3600);
    snapshot(&fixture, shelf.clone(), &[1], 4).await;
    let is_there = async || shelf.keys("p").await.contains(&old[0]);
    for (seconds, stays) in [(60, true), (3600, false)] {
        fixture.clock.advance(seconds);
        let report = run(&fixture, shelf.clone(), 0, 5).await.unwrap();
        assert!(report.steps.iter().all(|step| step.error.is_none()), "{:?}", report.steps);
        let waits = report.plan.unwrap().waiting.iter().any(|one| one.reason.contains("readers may still look"));
        assert_eq!((is_there().await, waits), (stays, stays), "{seconds}");
    }
    assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 1);
}
