//! Maintenance of repositories in memory whose storage has a clock.

mod at_once;
mod blockers;
mod delays;
mod flips;
mod histories;
mod kills;
mod locks;
mod shelf;

use super::plan::schedule::Mode;
use super::{Maintenance, MaintenanceOptions, MaintenanceReport, Requested, StorageClock, set_parameters};
use crate::format::directory::{Directory, DirectoryEntry, EntryType, Summary, write};
use crate::format::maintenance::MaintenanceParameters;
use crate::format::object_id::ObjectId;
use crate::format::snapshot::{SnapshotDocument, Source, Stats};
use crate::format::time::UnixNanos;
use crate::object::writer::ObjectOptions;
use crate::testing::{Fixture, noise};
use crate::{KopiaError, OpenOptions, RepositoryWriter};
use lifeboat_bucket::{BlobStore, PutOptions};
use shelf::{Fault, Shelf};
use std::collections::BTreeMap;
use std::sync::Arc;

const DAY: i64 = 24 * 3600;
const OWNER: &str = "default@default";

/// A repository with small packs and an owner.
async fn new_repository() -> (Fixture, Arc<Shelf>) {
    new_repository_with_packs(30_000).await
}

async fn new_repository_with_packs(bytes: u64) -> (Fixture, Arc<Shelf>) {
    let fixture = Fixture::usual().with_packs(bytes);
    let shelf = Shelf::new(fixture.store().await, fixture.clock.clone());
    let repository = fixture.open(shelf.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(1)).await.unwrap();
    let parameters = MaintenanceParameters { owner: OWNER.to_owned(), ..MaintenanceParameters::default() };
    set_parameters(&writer, &parameters).await.unwrap();
    (fixture, shelf)
}

fn entry(name: &str, entry_type: EntryType, object: ObjectId) -> DirectoryEntry {
    DirectoryEntry {
        name: name.into(),
        entry_type,
        mode: 0o755,
        size: 9000,
        modified: UnixNanos(1),
        uid: 0,
        gid: 0,
        object: Some(object),
        summary: None,
    }
}

async fn store_object(writer: &RepositoryWriter, prefix: Option<u8>, bytes: Vec<u8>) -> Result<ObjectId, KopiaError> {
    let mut object = writer.object(ObjectOptions { prefix, ..ObjectOptions::default() });
    object.write(bytes.into()).await?;
    object.finish().await
}

/// Saves a snapshot of files, each made from its number; gives its ID.
async fn snapshot(fixture: &Fixture, store: Arc<dyn BlobStore>, files: &[u64], seed: u64) -> String {
    let writer = fixture.open(store).await.unwrap().writer(fixture.write_options(seed)).await.unwrap();
    save(fixture, &writer, files, false).await.unwrap()
}

/// Saves a snapshot of files, and writes an index after each of them where that is wanted; gives its ID.
async fn save(
    fixture: &Fixture,
    writer: &RepositoryWriter,
    files: &[u64],
    flushes: bool,
) -> Result<String, KopiaError> {
    let mut entries = Vec::new();
    for file in files {
        let object = store_object(writer, None, noise(*file, 9000)).await?;
        entries.push(entry(&format!("file-{file}"), EntryType::File, object));
        if flushes {
            writer.flush().await?;
        }
    }
    let directory = Directory { entries, summary: Some(Summary::default()) };
    let root = store_object(writer, Some(b'k'), write(&directory)).await?;
    let id = writer.save_snapshot(&document(root, (fixture.clock.clock())()))?;
    writer.flush().await?;
    Ok(id)
}

/// A snapshot with this root.
fn document(root: ObjectId, now: UnixNanos) -> SnapshotDocument {
    SnapshotDocument {
        source: Source { host: "h".to_owned(), user: "u".to_owned(), path: "/p".to_owned() },
        description: String::new(),
        start: now,
        end: now,
        stats: Stats::default(),
        incomplete: None,
        root: Some(entry("p", EntryType::Directory, root)),
        tags: BTreeMap::new(),
        pins: Vec::new(),
    }
}

async fn forget(fixture: &Fixture, store: Arc<dyn BlobStore>, id: &str) {
    forget_by(fixture, store, id, 0).await;
}

/// Forgets a snapshot by a client whose clock is wrong by so many seconds.
async fn forget_by(fixture: &Fixture, store: Arc<dyn BlobStore>, id: &str, wrong: i64) {
    let local = fixture.clock.clock();
    let clock: crate::Clock = Arc::new(move || UnixNanos(local().0 + wrong * 1_000_000_000));
    let repository = fixture.open_with(store, OpenOptions { clock, ..fixture.options() }).await.unwrap();
    // Other random bytes each time.
    let seed = u64::from_str_radix(&id[..16], 16).unwrap();
    let writer = repository.writer(fixture.write_options(seed)).await.unwrap();
    writer.delete_manifest(id).unwrap();
    writer.flush().await.unwrap();
}

/// The number of snapshots, all of which are whole.
async fn whole_snapshots(fixture: &Fixture, store: Arc<dyn BlobStore>) -> u64 {
    let repository = fixture.open(store).await.unwrap();
    let limits = repository.contents().limits();
    let options =
        crate::verify::VerifyOptions { snapshots: None, files_percent: 100.0, seed: 0, directories: 4, limits };
    let report = repository.verify(options, |problem| panic!("{} {}", problem.path, problem.error)).await.unwrap();
    report.snapshots
}

/// A maintainer whose own clock is wrong by so many seconds.
async fn maintainer(fixture: &Fixture, store: Arc<dyn BlobStore>, wrong: i64) -> Maintenance {
    let local = fixture.clock.clock();
    let clock = StorageClock::new(Arc::new(move || UnixNanos(local().0 + wrong * 1_000_000_000)));
    let options = OpenOptions { clock: clock.clock(), ..fixture.options() };
    Maintenance::new(fixture.open_with(store, options).await.unwrap(), clock)
}

fn options(fixture: &Fixture, seed: u64) -> MaintenanceOptions {
    let requested = Requested::Now(Mode::Full);
    MaintenanceOptions { requested, identity: OWNER.to_owned(), write: fixture.write_options(seed) }
}

async fn run(
    fixture: &Fixture,
    store: Arc<dyn BlobStore>,
    wrong: i64,
    seed: u64,
) -> Result<MaintenanceReport, KopiaError> {
    maintainer(fixture, store, wrong).await.run(&options(fixture, seed), |_| {}).await
}

/// Runs on several days. No step fails.
async fn run_for_days(fixture: &Fixture, store: Arc<dyn BlobStore>, days: u64, wrong: i64) {
    for _ in 0..days {
        fixture.clock.advance(DAY);
        let seed = (fixture.clock.clock())().0.unsigned_abs();
        let report = Box::pin(run(fixture, store.clone(), wrong, seed)).await.unwrap();
        let failed: Vec<_> = report.steps.iter().filter(|step| step.error.is_some()).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }
}

#[tokio::test]
async fn deleted_snapshots_give_their_space_back_and_others_stay_whole() {
    let (fixture, shelf) = new_repository().await;
    let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3, 4, 5, 6, 7, 8], 2).await;
    fixture.clock.advance(3600);
    snapshot(&fixture, shelf.clone(), &[1, 5, 9], 3).await;
    let before = shelf.bytes("p").await;
    forget(&fixture, shelf.clone(), &gone).await;
    run_for_days(&fixture, shelf.clone(), 6, 0).await;
    assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 1);
    let after = shelf.bytes("p").await;
    assert!(before > 80_000 && after < 40_000, "{before} {after}");
    // Nothing is left of the runs but their schedule.
    assert_eq!(shelf.keys("io.").await, [""; 0]);
    let repository = fixture.open(shelf.clone()).await.unwrap();
    let schedule = repository.maintenance_schedule().await.unwrap();
    assert!(schedule.runs["snapshot-gc"].iter().all(|run| run.success), "{schedule:?}");
    assert_eq!(schedule.runs["snapshot-gc"].len(), 6);
}

/// Two days of error change nothing: the storage's clock counts.
#[tokio::test]
async fn a_wrong_clock_of_the_maintainer_changes_nothing() {
    let mut kept = Vec::new();
    for wrong in [0, 2 * DAY, -2 * DAY] {
        let (fixture, shelf) = new_repository().await;
        let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3, 4], 2).await;
        snapshot(&fixture, shelf.clone(), &[1, 9], 3).await;
        forget(&fixture, shelf.clone(), &gone).await;
        // Too young to be touched.
        fixture.clock.advance(DAY / 2);
        let before = shelf.keys("p").await;
        run(&fixture, shelf.clone(), wrong, 50).await.unwrap();
        assert_eq!(shelf.keys("p").await, before, "{wrong}");
        run_for_days(&fixture, shelf.clone(), 5, wrong).await;
        assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 1);
        kept.push(shelf.keys("").await.len());
    }
    assert!(kept.iter().all(|count| *count == kept[0]), "{kept:?}");
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_read_stops_the_collection_with_its_name() {
    let (fixture, shelf) = new_repository().await;
    let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3], 2).await;
    forget(&fixture, shelf.clone(), &gone).await;
    let repository = fixture.open(shelf.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(4)).await.unwrap();
    let labels = BTreeMap::from([("type".to_owned(), "snapshot".to_owned())]);
    let data = serde_json::value::RawValue::from_string(r#"{"stats":{"fileCount":1.5}}"#.to_owned()).unwrap();
    let id = writer.put_manifest(labels, data).unwrap();
    writer.flush().await.unwrap();
    let before = shelf.bytes("p").await;
    for _ in 0..4 {
        fixture.clock.advance(DAY);
        let report = run(&fixture, shelf.clone(), 0, 5).await.unwrap();
        let blockers = report.plan.unwrap().blockers;
        assert!(blockers.len() == 1 && blockers[0].starts_with(&format!("snapshot {id}: ")), "{blockers:?}");
    }
    assert_eq!(shelf.bytes("p").await, before);
}

#[tokio::test]
async fn a_second_run_gives_way_until_the_first_is_dead() {
    let (fixture, shelf) = new_repository().await;
    snapshot(&fixture, shelf.clone(), &[1], 2).await;
    // Its process was killed after the claim.
    let dying = Shelf::with_fault(&shelf, Fault { calls: 1, has_effect: true });
    run(&fixture, dying, 0, 6).await.unwrap_err();
    assert_eq!(shelf.keys("io.").await.len(), 1);
    for (minutes, is_free) in [(0, false), (29, false), (2, true)] {
        fixture.clock.advance(minutes * 60);
        let result = run(&fixture, shelf.clone(), 0, 7).await;
        assert_eq!(result.is_ok(), is_free, "{minutes}");
        if let Err(error) = result {
            assert!(error.to_string().contains("another run shows signs of life"), "{error}");
        }
    }
    assert_eq!(shelf.keys("io.").await, [""; 0]);
}

#[tokio::test]
async fn only_the_owner_may_run_it() {
    let (fixture, shelf) = new_repository().await;
    let stranger = MaintenanceOptions { identity: "a@b".to_owned(), ..options(&fixture, 5) };
    let error = maintainer(&fixture, shelf.clone(), 0).await.run(&stranger, |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("default@default owns it, not a@b"), "{error}");
    assert_eq!(shelf.keys("io.").await, [""; 0]);
}

/// Every put and delete of several runs, before and after its effect.
#[tokio::test]
async fn a_run_that_is_killed_at_any_call_harms_nothing_and_the_next_completes() {
    let (fixture, shelf) = new_repository().await;
    let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3, 4, 5], 2).await;
    snapshot(&fixture, shelf.clone(), &[1, 9], 3).await;
    forget(&fixture, shelf.clone(), &gone).await;
    for day in 0..4 {
        fixture.clock.advance(DAY);
        let mut calls = 0;
        loop {
            let mut ended = false;
            for has_effect in [false, true] {
                let copy = shelf.copy().await;
                let dying = Shelf::with_fault(&copy, Fault { calls, has_effect });
                let killed = run(&fixture, dying.clone(), 0, 100 + calls as u64).await;
                ended = !dying.is_dead();
                assert!(
                    ended
                        || killed.is_err()
                        || killed.is_ok_and(|report| report.steps.iter().any(|step| step.error.is_some()))
                );
                assert_eq!(whole_snapshots(&fixture, copy.clone()).await, 1, "day {day}, call {calls}");
                fixture.clock.advance(31 * 60);
                let next = run(&fixture, copy.clone(), 0, 200).await.unwrap();
                let failed: Vec<_> = next.steps.iter().filter(|step| step.error.is_some()).collect();
                assert!(failed.is_empty(), "day {day}, call {calls}: {failed:?}");
                assert_eq!(whole_snapshots(&fixture, copy).await, 1, "day {day}, call {calls}");
                fixture.clock.advance(-31 * 60);
            }
            if ended {
                break;
            }
            calls += 1;
        }
        run(&fixture, shelf.clone(), 0, 300 + day).await.unwrap();
    }
}

#[tokio::test]
async fn a_full_bucket_gives_back_what_nobody_needs() {
    let (fixture, shelf) = new_repository().await;
    let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3, 4, 5, 6], 2).await;
    snapshot(&fixture, shelf.clone(), &[1, 9], 3).await;
    forget(&fixture, shelf.clone(), &gone).await;
    // Marked by the first run, and dropped by the third, which is killed before it deletes.
    run_for_days(&fixture, shelf.clone(), 2, 0).await;
    fixture.clock.advance(DAY);
    let dying = Shelf::with_fault(&shelf, Fault { calls: shelf.calls_until("xw", &fixture).await, has_effect: true });
    let _ = run(&fixture, dying, 0, 1001).await;
    assert_eq!(shelf.keys("xw").await.len(), 2);
    fixture.clock.advance(DAY);
    // The storage has shown its time.
    shelf.put("kopia.repository.backup.x", vec![1].into(), PutOptions::default()).await.unwrap();
    let before = shelf.bytes("p").await;
    shelf.set_full(true);
    let report = run(&fixture, shelf.clone(), 0, 1002).await.unwrap();
    assert!(report.put_refusal.as_ref().is_some_and(|why| why.contains("full")), "{report:?}");
    let after = shelf.bytes("p").await;
    assert!(after < before, "{before} {after} {report:?}");
    assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 1);
    shelf.set_full(false);
    fixture.clock.advance(DAY);
    run_for_days(&fixture, shelf.clone(), 2, 0).await;
    assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 1);
}

/// Neither quick maintenance nor one that is not due deletes anything because a put has failed.
#[tokio::test]
async fn a_full_bucket_is_left_alone_where_full_maintenance_is_not_wanted() {
    let (fixture, shelf) = new_repository().await;
    let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3, 4, 5, 6], 2).await;
    snapshot(&fixture, shelf.clone(), &[1, 9], 3).await;
    forget(&fixture, shelf.clone(), &gone).await;
    run_for_days(&fixture, shelf.clone(), 2, 0).await;
    fixture.clock.advance(DAY);
    let dying = Shelf::with_fault(&shelf, Fault { calls: shelf.calls_until("xw", &fixture).await, has_effect: true });
    let _ = run(&fixture, dying, 0, 1001).await;
    fixture.clock.advance(31 * 60);
    shelf.put("kopia.repository.backup.x", vec![1].into(), PutOptions::default()).await.unwrap();
    let before = shelf.keys("").await;
    shelf.set_full(true);
    for requested in [Requested::Now(Mode::Quick), Requested::Due] {
        let options = MaintenanceOptions { requested, ..options(&fixture, 7) };
        let error = maintainer(&fixture, shelf.clone(), 0).await.run(&options, |_| {}).await.unwrap_err();
        assert!(error.to_string().contains("it is full"), "{requested:?}: {error}");
        assert_eq!(shelf.keys("").await, before, "{requested:?}");
    }
}

#[tokio::test]
async fn an_interrupted_run_gives_its_claim_back_and_the_next_begins_at_once() {
    let (fixture, shelf) = new_repository().await;
    let gone = snapshot(&fixture, shelf.clone(), &[1, 2, 3], 2).await;
    snapshot(&fixture, shelf.clone(), &[1, 9], 3).await;
    forget(&fixture, shelf.clone(), &gone).await;
    fixture.clock.advance(2 * DAY);
    // Before the claim, after it, and with every later step.
    for step in 0..5_u64 {
        let maintainer = maintainer(&fixture, shelf.clone(), 0).await;
        let (begin, begun) = futures::channel::oneshot::channel::<()>();
        let begin = std::sync::Mutex::new((step, Some(begin)));
        let count = |_: &super::plan::Step| {
            let mut begin = begin.lock().unwrap();
            begin.0 = begin.0.saturating_sub(1_u64);
            if begin.0 == 0 {
                begin.1.take();
            }
        };
        if step == 0 {
            begin.lock().unwrap().1.take();
        }
        let interrupted = maintainer
            .run_until(&options(&fixture, 80 + step), count, async {
                let _ = begun.await;
            })
            .await;
        match interrupted {
            Err(error) => assert!(matches!(error, KopiaError::Cancelled), "{step}: {error}"),
            Ok(report) => assert!(report.steps.len() < usize::try_from(step).unwrap(), "{step}: {report:?}"),
        }
        assert_eq!(shelf.keys("io.").await, [""; 0], "{step}");
        assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 1);
    }
    run(&fixture, shelf.clone(), 0, 99).await.unwrap();
}

#[tokio::test]
async fn a_schedule_that_cannot_be_saved_is_a_failed_step() {
    let (fixture, shelf) = new_repository().await;
    snapshot(&fixture, shelf.clone(), &[1], 2).await;
    shelf.refuse(Some("kopia.maintenance"));
    let report = run(&fixture, shelf.clone(), 0, 6).await.unwrap();
    let failed: Vec<_> = report.steps.iter().filter(|step| step.error.is_some()).collect();
    assert!(failed.len() == 1 && failed[0].action == "record this run in the schedule", "{report:?}");
    assert!(failed[0].error.as_ref().unwrap().contains("this name is locked"), "{report:?}");
    shelf.refuse(None);
    run_for_days(&fixture, shelf.clone(), 1, 0).await;
}

#[tokio::test]
async fn a_content_that_cannot_be_read_keeps_no_others_from_being_rewritten() {
    let (fixture, shelf) = new_repository().await;
    for file in 1..4 {
        snapshot(&fixture, shelf.clone(), &[file], file).await;
        fixture.clock.advance(60);
    }
    let before = shelf.keys("p").await;
    assert_eq!(before.len(), 3);
    let size = shelf.head(&before[0]).await.unwrap().size;
    shelf.put(&before[0], vec![7; usize::try_from(size).unwrap()].into(), PutOptions::default()).await.unwrap();
    fixture.clock.advance(DAY);
    let report = run(&fixture, shelf.clone(), 0, 6).await.unwrap();
    let failed: Vec<_> = report.steps.iter().filter(|step| step.error.is_some()).collect();
    assert!(failed.len() == 1 && failed[0].action.starts_with("rewrite "), "{report:?}");
    assert!(failed[0].error.as_ref().unwrap().contains("copy 1 content that cannot be read"), "{report:?}");
    // The two others are in a new pack.
    assert_eq!(shelf.keys("p").await.len(), 4);
    fixture.clock.advance(2 * DAY);
    run(&fixture, shelf.clone(), 0, 7).await.unwrap();
    assert!(shelf.keys("p").await.contains(&before[0]), "what cannot be read is not deleted");
}

#[tokio::test]
async fn the_note_of_a_deletion_by_a_clock_that_is_behind_outlives_the_merge() {
    let (fixture, shelf) = new_repository().await;
    let mut ids = Vec::new();
    for file in 0..18 {
        ids.push(snapshot(&fixture, shelf.clone(), &[file], file).await);
    }
    fixture.clock.advance(3 * DAY);
    forget_by(&fixture, shelf.clone(), &ids[0], -2 * DAY).await;
    let report = run(&fixture, shelf.clone(), 0, 600).await.unwrap();
    assert!(report.steps.iter().any(|step| step.action.starts_with("merge the manifests")), "{report:?}");
    let repository = fixture.open(shelf.clone()).await.unwrap();
    let entries = crate::manifest::load_with_deletions(repository.contents()).await.unwrap().into_entries();
    assert!(entries.iter().any(|entry| entry.id == ids[0] && entry.is_deleted));
}

/// A file repository that a machine with a wrong clock has touched.
#[tokio::test]
async fn a_blob_with_a_time_in_the_future_makes_nothing_old_in_a_full_bucket() {
    let (fixture, shelf) = new_repository().await;
    for hour in 0..4 {
        snapshot(&fixture, shelf.clone(), &[hour], hour).await;
    }
    shelf.put("_log_1", vec![1].into(), PutOptions::default()).await.unwrap();
    fixture.clock.advance(90 * DAY);
    shelf.put("kopia.repository.backup.x", vec![1].into(), PutOptions::default()).await.unwrap();
    fixture.clock.advance(-90 * DAY);
    let before = shelf.keys("").await;
    shelf.set_full(true);
    run(&fixture, shelf.clone(), 0, 9).await.unwrap_err();
    assert_eq!(shelf.keys("").await, before);
}

#[tokio::test]
async fn a_dry_run_says_that_the_run_itself_would_be_refused() {
    let (fixture, shelf) = new_repository().await;
    snapshot(&fixture, shelf.clone(), &[1], 2).await;
    let refusal = async |identity: &str| {
        let maintainer = maintainer(&fixture, shelf.clone(), 0).await;
        let preview = maintainer.preview(Requested::Now(Mode::Full), identity).await.unwrap();
        assert!(preview.plan.is_some());
        preview.refusal.map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refusal(OWNER).await, "");
    assert!(refusal("a@b").await.contains("default@default owns it, not a@b"));
    let dying = Shelf::with_fault(&shelf, Fault { calls: 1, has_effect: true });
    run(&fixture, dying, 0, 6).await.unwrap_err();
    assert!(refusal(OWNER).await.contains("another run shows signs of life"));
    fixture.clock.advance(31 * 60);
    assert_eq!(refusal(OWNER).await, "");
}

/// An index every hour; epochs begin, are merged, and old indexes go.
#[tokio::test]
async fn indexes_are_merged_and_old_ones_go() {
    let (fixture, shelf) = new_repository().await;
    for day in 0..12_u64 {
        for hour in 0..26 {
            snapshot(&fixture, shelf.clone(), &[day * 26 + hour], day * 26 + hour).await;
            fixture.clock.advance(3600);
        }
        let report = run(&fixture, shelf.clone(), 0, 5000 + day).await.unwrap();
        let failed: Vec<_> = report.steps.iter().filter(|step| step.error.is_some()).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }
    assert_eq!(whole_snapshots(&fixture, shelf.clone()).await, 12 * 26);
    let (old, merged) = (shelf.keys("xn").await.len(), shelf.keys("xs").await.len());
    assert!(old < 6 * 26 && merged > 3 && !shelf.keys("xr0_").await.is_empty(), "{old} {merged}");
    // Manifests of many contents were merged.
    let repository = fixture.open(shelf.clone()).await.unwrap();
    let manifests = repository.contents().scan(Some(b'm')).filter(|entry| !entry.as_ref().unwrap().is_deleted);
    assert!(manifests.count() < 40);
}
