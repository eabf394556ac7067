//! Loading of the indexes and of the format while others write, maintain and upgrade.

use crate::fixture::{NOW, bucket, expected, flat_bucket, get, keys, open, options, password};
use crate::watched::Watched;
use lifeboat_bucket::{BlobStore, ErrorKind, PutOptions};
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::{KopiaError, OpenOptions, Repository};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const MINUTE: i64 = 60_000_000_000;

fn count(repository: &Repository) -> usize {
    repository.contents().scan(None).count()
}

/// Options with a clock that a test moves.
fn clocked(scratch: &Path) -> (OpenOptions, Arc<AtomicI64>) {
    let now = Arc::new(AtomicI64::new(NOW.0));
    let clock = now.clone();
    let clock = Arc::new(move || UnixNanos(clock.load(Ordering::SeqCst)));
    (OpenOptions { clock, ..options(scratch) }, now)
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_gone_before_it_is_read_is_looked_for_again() {
    let phantom = || "xn0_00000000000000000000000000000000-s1-c1".to_owned();
    for (times, opens) in [(0, true), (1, true), (9, true), (10, false)] {
        let scratch = tempfile::tempdir().unwrap();
        let store = Watched::new(flat_bucket("comp-zstd-fastest").await);
        *store.phantoms.lock().unwrap() = ("x".to_owned(), std::iter::repeat_with(phantom).take(times).collect());
        let opened = open(store.clone(), scratch.path()).await;
        match opened {
            Ok(repository) => assert_eq!((opens, count(&repository)), (true, 18), "{times}"),
            Err(e) => {
                assert!(!opens, "{times}: {e}");
                assert!(e.to_string().contains(&phantom()), "{e}");
            }
        }
    }
}

#[tokio::test]
async fn a_bucket_that_fails_is_told_and_not_asked_again_here() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Watched::new(flat_bucket("comp-zstd-fastest").await);
    *store.failing.lock().unwrap() = Some(("xn".to_owned(), ErrorKind::Denied));
    let error = open(store.clone(), scratch.path()).await.unwrap_err();
    assert!(matches!(&error, KopiaError::Bucket(e) if e.kind == ErrorKind::Denied), "{error}");
}

#[tokio::test]
async fn a_refresh_reads_what_is_new_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let whole = flat_bucket("comp-zstd-fastest").await;
    let store = Watched::new(whole.clone());
    let indexes = keys(&*whole, "xn").await;
    let late = get(&*whole, &indexes[0]).await;
    whole.delete(&indexes[..1]).await.unwrap();
    let repository = open(store.clone(), scratch.path()).await.unwrap();
    let before = repository.contents().index_set();
    assert!(count(&repository) < 18);
    store.take_gets();
    repository.contents().refresh().await.unwrap();
    assert_eq!(store.take_gets(), [""; 0]);
    whole.put(&indexes[0], late.into(), PutOptions::default()).await.unwrap();
    repository.contents().refresh().await.unwrap();
    assert_eq!((store.take_gets(), count(&repository)), (indexes[..1].to_vec(), 18));
    // Who was walking goes on with what there was.
    assert!(before.scan(None).count() < 18);
    let wanted = expected("comp-zstd-fastest")["contents"].as_array().unwrap().len();
    assert_eq!(count(&repository), wanted);
}

#[tokio::test]
async fn what_others_write_is_seen_after_15_minutes() {
    let scratch = tempfile::tempdir().unwrap();
    let whole = flat_bucket("comp-zstd-fastest").await;
    let mut others = Vec::new();
    for prefix in ["p", "q", "xn"] {
        others.extend(keys(&*whole, prefix).await);
    }
    let (options, now) = clocked(scratch.path());
    let mut late = Vec::new();
    for blob in &others {
        late.push(get(&*whole, blob).await);
    }
    whole.delete(&others).await.unwrap();
    let repository = Repository::open(whole.clone(), password(), options).await.unwrap();
    for (blob, bytes) in others.iter().zip(late) {
        whole.put(blob, bytes.into(), PutOptions::default()).await.unwrap();
    }
    now.fetch_add(15 * MINUTE, Ordering::SeqCst);
    assert_eq!(repository.snapshots().await.unwrap().len(), 0);
    now.fetch_add(1, Ordering::SeqCst);
    assert_eq!(repository.snapshots().await.unwrap().len(), 1);
    // A clock that was set back says nothing: it is looked again.
    now.fetch_sub(24 * 60 * MINUTE, Ordering::SeqCst);
    assert_eq!(repository.snapshots().await.unwrap().len(), 1);
}

/// The format is that before the lock at first.
#[tokio::test]
async fn an_upgrade_that_begins_stops_a_reader_within_15_minutes() {
    let scratch = tempfile::tempdir().unwrap();
    let store = bucket("format-v1-locked").await;
    let backup = keys(&*store, "kopia.repository.backup.").await.pop().or({
        // Its name is longer than those that stay in the root.
        let all = keys(&*store, "").await;
        all.into_iter().find(|key| key.replace('/', "").starts_with("kopia.repository.backup."))
    });
    let locked = get(&*store, "kopia.repository.f").await;
    let unlocked = get(&*store, &backup.unwrap()).await;
    store.put("kopia.repository.f", unlocked.into(), PutOptions::default()).await.unwrap();
    let (options, now) = clocked(scratch.path());
    let repository = Repository::open(store.clone(), password(), options).await.unwrap();
    let id = repository.contents().scan(None).next().unwrap().unwrap().id;
    store.put("kopia.repository.f", locked.into(), PutOptions::default()).await.unwrap();
    now.fetch_add(15 * MINUTE, Ordering::SeqCst);
    repository.contents().read(&id).await.unwrap();
    now.fetch_add(1, Ordering::SeqCst);
    for _ in 0..2 {
        let errors = [
            repository.contents().read(&id).await.map(drop),
            repository.contents().refresh().await,
            repository.snapshots().await.map(drop),
        ];
        assert!(errors.iter().all(|e| matches!(e, Err(KopiaError::UpgradeInProgress { .. }))), "{errors:?}");
    }
}

#[tokio::test]
async fn a_repository_that_replaced_another_is_not_read_with_the_old_keys() {
    let scratch = tempfile::tempdir().unwrap();
    let store = flat_bucket("comp-zstd-fastest").await;
    let (options, now) = clocked(scratch.path());
    let repository = Repository::open(store.clone(), password(), options).await.unwrap();
    let other = get(&*flat_bucket("comp-zstd").await, "kopia.repository").await;
    store.put("kopia.repository", other.into(), PutOptions::default()).await.unwrap();
    now.fetch_add(16 * MINUTE, Ordering::SeqCst);
    let error = repository.snapshots().await.unwrap_err().to_string();
    assert!(error.contains("was replaced by another one since it was opened: open it again"), "{error}");
}

#[tokio::test]
async fn an_index_set_that_does_not_fit_into_memory_is_the_same() {
    for name in ["epochs", "format-v1-compacted", "indirect-deep"] {
        let scratch = tempfile::tempdir().unwrap();
        let small = OpenOptions { memory: 1, ..options(scratch.path()) };
        let repository = Repository::open(bucket(name).await, password(), small).await.unwrap();
        assert_eq!(count(&repository), expected(name)["contents"].as_array().unwrap().len());
        assert!(!repository.snapshots().await.unwrap().is_empty());
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
