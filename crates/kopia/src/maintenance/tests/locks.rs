//! Object locks.

use super::shelf::Shelf;
use super::{DAY, OWNER, run, snapshot};
use crate::format::maintenance::MaintenanceParameters;
use crate::format::repository::{NewRepository, Retention, RetentionMode};
use crate::maintenance::set_parameters;
use crate::testing::Fixture;
use lifeboat_bucket::Memory;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

#[tokio::test]
async fn a_full_run_keeps_what_is_there_for_the_whole_retention_again() {
    let period = 30 * DAY;
    let retention = Some(Retention { mode: RetentionMode::Governance, period: period * 1_000_000_000 });
    let fixture = Fixture::new(&NewRepository { retention, ..NewRepository::default() });
    for extend_object_locks in [true, false] {
        let memory = Arc::new(Memory::noting_retention());
        fixture.fill(&memory).await;
        let shelf = Shelf::new(memory.clone(), fixture.clock.clone());
        let writer = fixture.open(shelf.clone()).await.unwrap().writer(fixture.write_options(1)).await.unwrap();
        let owner = OWNER.to_owned();
        let parameters = MaintenanceParameters { owner, extend_object_locks, ..MaintenanceParameters::default() };
        set_parameters(&writer, &parameters).await.unwrap();
        snapshot(&fixture, shelf.clone(), &[1, 2], 2).await;
        fixture.clock.advance(20 * DAY);
        let report = run(&fixture, shelf.clone(), 0, 3).await.unwrap();
        assert!(report.steps.iter().all(|step| step.error.is_none()), "{:?}", report.steps);
        let now = (fixture.clock.clock())().seconds();
        let until = |days: i64| UNIX_EPOCH + Duration::from_secs((now + period - days * DAY).unsigned_abs());
        let mut kept = 0;
        for key in shelf.keys("").await {
            let found = memory.retention(&key).map(|retention| retention.until);
            let is_of_this_run = found == Some(until(0));
            let has_lock = Retention::covers(&key);
            if extend_object_locks {
                assert_eq!(is_of_this_run, has_lock, "{key} {found:?}");
            } else if has_lock && !is_of_this_run {
                // Of the snapshot, or of a test that puts the format without.
                assert!(found.is_none_or(|found| found == until(20)), "{key} {found:?}");
                kept += 1;
            }
        }
        assert_eq!(kept > 2, !extend_object_locks);
    }
}

#[tokio::test]
async fn one_blob_whose_lock_cannot_be_extended_leaves_no_other_unlocked() {
    let period = 30 * DAY;
    let retention = Some(Retention { mode: RetentionMode::Governance, period: period * 1_000_000_000 });
    let fixture = Fixture::new(&NewRepository { retention, ..NewRepository::default() });
    let memory = Arc::new(Memory::noting_retention());
    fixture.fill(&memory).await;
    let shelf = Shelf::new(memory.clone(), fixture.clock.clone());
    let writer = fixture.open(shelf.clone()).await.unwrap().writer(fixture.write_options(1)).await.unwrap();
    let owner = OWNER.to_owned();
    let parameters = MaintenanceParameters { owner, extend_object_locks: true, ..MaintenanceParameters::default() };
    set_parameters(&writer, &parameters).await.unwrap();
    snapshot(&fixture, shelf.clone(), &[1, 2], 2).await;
    let strange = shelf.keys("p").await.remove(0);
    shelf.refuse_to_retain(&strange);
    fixture.clock.advance(20 * DAY);
    let report = run(&fixture, shelf.clone(), 0, 3).await.unwrap();
    let errors: Vec<String> = report.steps.iter().filter_map(|step| step.error.clone()).collect();
    assert!(matches!(&errors[..], [error] if error.contains("for 1 blobs") && error.contains(&strange)), "{errors:?}");
    let until = UNIX_EPOCH + Duration::from_secs(((fixture.clock.clock())().seconds() + period).unsigned_abs());
    let is_kept = |key: &String| memory.retention(key).map(|retention| retention.until) == Some(until);
    let keys: Vec<String> = shelf.keys("").await.into_iter().filter(|key| Retention::covers(key)).collect();
    let left: Vec<&String> = keys.iter().filter(|key| !is_kept(key)).collect();
    assert_eq!(left, [&strange]);
    assert!(keys.len() > 4, "{keys:?}");
}
