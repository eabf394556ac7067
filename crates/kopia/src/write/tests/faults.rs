//! The store fails, or the writer is killed, at every call of a history.

use super::manifests::document;
use crate::compression::Compression;
use crate::format::directory::{Directory, DirectoryEntry, EntryType, write as write_directory};
use crate::format::object_id::ObjectId;
use crate::format::time::UnixNanos;
use crate::object::writer::ObjectOptions;
use crate::splitter::SplitterAlgorithm;
use crate::testing::faulty::{Faulty, Trouble};
use crate::testing::{Fixture, keys, noise};
use crate::verify::VerifyOptions;
use crate::{KopiaError, Repository, RepositoryWriter};
use bytes::Bytes;
use lifeboat_bucket::Memory;
use std::sync::{Arc, Mutex};

/// A snapshot that a successful flush has written.
#[derive(Debug, Clone)]
struct Promise {
    snapshot: String,
    object: ObjectId,
    plain: Vec<u8>,
}

fn file(name: &str, object: ObjectId, size: usize) -> DirectoryEntry {
    DirectoryEntry {
        name: name.into(),
        entry_type: EntryType::File,
        mode: 0o644,
        size: size as u64,
        modified: UnixNanos(5),
        uid: 0,
        gid: 0,
        object: Some(object),
        summary: None,
    }
}

async fn write_object(writer: &RepositoryWriter, prefix: Option<u8>, plain: &[u8]) -> Result<ObjectId, KopiaError> {
    let options = ObjectOptions {
        prefix,
        compression: Some(Compression::ZstdFastest),
        metadata_compression: Some(Compression::ZstdFastest),
        splitter: Some(SplitterAlgorithm::Fixed(1000)),
    };
    let mut object = writer.object(options);
    for piece in plain.chunks(1500) {
        object.write(Bytes::copy_from_slice(piece)).await?;
    }
    object.finish().await
}

/// Three snapshots, each with a flush, and a manifest and a content that are deleted.
async fn history(writer: &RepositoryWriter, promises: &Mutex<Vec<Promise>>) -> Result<(), KopiaError> {
    let unneeded = writer.contents().write(None, vec![9; 500].into(), None).await?;
    for number in 0..3 {
        let plain = noise(number, 6500);
        let object = write_object(writer, None, &plain).await?;
        let entries =
            vec![file("same", write_object(writer, None, b"same").await?, 4), file("zfile", object, plain.len())];
        let directory = write_directory(&Directory { entries, summary: None });
        let root = write_object(writer, Some(b'k'), &directory).await?;
        let snapshot = writer.save_snapshot(&document(Some(root)))?;
        if number == 1 {
            writer.contents().delete(&unneeded).await?;
        }
        writer.flush().await?;
        promises.lock().unwrap().push(Promise { snapshot, object, plain });
    }
    // Whether it is there still nobody knows until the flush succeeds.
    let first = promises.lock().unwrap().remove(0);
    writer.delete_manifest(&first.snapshot)?;
    writer.flush().await?;
    assert!(writer.repository().manifests().await?.get(&first.snapshot).is_none());
    Ok(())
}

async fn check(repository: &Repository, promises: &[Promise], name: &str) {
    let problems = Arc::new(Mutex::new(Vec::new()));
    let limits = repository.contents().limits();
    let options = VerifyOptions { snapshots: None, files_percent: 100.0, seed: 0, directories: 2, limits };
    let told = problems.clone();
    let report = repository.verify(options, move |problem| told.lock().unwrap().push(format!("{problem:?}"))).await;
    report.unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(*problems.lock().unwrap(), [""; 0], "{name}");
    let manifests = repository.manifests().await.unwrap();
    for promise in promises {
        assert!(manifests.get(&promise.snapshot).is_some(), "{name}: {} is missing", promise.snapshot);
        let bytes = crate::object::bytes(repository.contents(), &promise.object);
        let pieces: Vec<Bytes> = futures::TryStreamExt::try_collect(bytes).await.unwrap();
        assert!(pieces.concat() == promise.plain, "{name}");
    }
}

/// A repository that had a history before, and the store of it.
async fn begun(fixture: &Fixture) -> (Arc<Memory>, Vec<Promise>) {
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(1)).await.unwrap();
    let plain = noise(77, 3000);
    let object = write_object(&writer, None, &plain).await.unwrap();
    let directory = write_directory(&Directory { entries: vec![file("old", object, 3000)], summary: None });
    let root = write_object(&writer, Some(b'k'), &directory).await.unwrap();
    let snapshot = writer.save_snapshot(&document(Some(root))).unwrap();
    writer.flush().await.unwrap();
    (store, vec![Promise { snapshot, object, plain }])
}

#[tokio::test]
async fn whichever_call_fails_nothing_is_lost_that_a_flush_has_promised() {
    let fixture = Fixture::usual().with_packs(4000);
    for after_effect in [false, true] {
        for at in 0.. {
            let (store, before) = begun(&fixture).await;
            // Opening is no matter here.
            let faulty = Faulty::new(store.clone(), Trouble::Fails, at, after_effect);
            let repository = match fixture.open(faulty.clone()).await {
                Ok(repository) => repository,
                Err(error) => {
                    assert!(error.to_string().contains("it fails"), "{error}");
                    continue;
                }
            };
            let promises = Mutex::new(Vec::new());
            let result = match repository.writer(fixture.write_options(2)).await {
                Ok(writer) => {
                    let result = history(&writer, &promises).await;
                    if let Err(error) = &result {
                        // Whatever is written later is refused, or complete.
                        let object = write_object(&writer, None, b"later").await;
                        let flushed = writer.flush().await;
                        if let Err(again) = &flushed {
                            assert_eq!(again.to_string(), error.to_string());
                        } else {
                            promises.lock().unwrap().clear();
                            let again = fixture.open(store.clone()).await.unwrap();
                            assert_eq!(again.contents().read(&object.unwrap().content).await.unwrap(), "later");
                        }
                    }
                    result
                }
                Err(error) => Err(error),
            };
            let failed = faulty.failed.lock().unwrap().clone();
            let name = format!("{at} {after_effect} {failed:?}");
            let again = fixture.open(store.clone()).await.unwrap();
            let promised = promises.into_inner().unwrap();
            check(&again, &before, &name).await;
            check(&again, &promised, &name).await;
            match (&failed, &result) {
                (None, Ok(())) => {
                    assert_eq!((promised.len(), keys(&*store, "s").await.len()), (2, 0));
                    // A call that has no effect, such as that of a blob that is not there, fails by itself.
                    if faulty.is_reached() {
                        continue;
                    }
                    assert!(at > 30, "the history has only {at} calls");
                    break;
                }
                // A marker that could not be deleted goes with the next session, if there is one.
                (Some(call), Ok(())) if call.starts_with("delete s") => {
                    assert_eq!(promised.len(), 2, "{name}");
                    assert!(keys(&*store, "s").await.len() <= 1, "{name}");
                }
                (Some(_), Err(error)) => assert!(error.to_string().contains("it fails"), "{name}: {error}"),
                // A format without settings of object lock is one.
                _ => panic!("{name}: {result:?}"),
            }
            // The next one does it all.
            let writer = again.writer(fixture.write_options(3)).await.unwrap();
            let promises = Mutex::new(Vec::new());
            history(&writer, &promises).await.unwrap_or_else(|e| panic!("{name}: {e}"));
            let promised = promises.into_inner().unwrap();
            check(&fixture.open(store.clone()).await.unwrap(), &promised, &name).await;
        }
    }
}

#[tokio::test]
async fn whichever_call_is_the_last_of_a_killed_writer_the_repository_is_whole() {
    let fixture = Fixture::usual().with_packs(4000);
    for after_effect in [false, true] {
        for at in 0.. {
            let (store, before) = begun(&fixture).await;
            let faulty = Faulty::new(store.clone(), Trouble::Kills, at, after_effect);
            let promises = Mutex::new(Vec::new());
            let work = async {
                let repository = fixture.open(faulty.clone()).await?;
                let writer = repository.writer(fixture.write_options(2)).await?;
                history(&writer, &promises).await
            };
            // Everything that the writer had begun is dropped with it.
            let was_killed = tokio::select! {
                result = work => { result.unwrap(); false }
                () = faulty.killed.notified() => true,
            };
            let name = format!("{at} {after_effect} {:?}", faulty.failed.lock().unwrap());
            let again = fixture.open(store.clone()).await.unwrap();
            let promised = promises.into_inner().unwrap();
            check(&again, &before, &name).await;
            check(&again, &promised, &name).await;
            if !was_killed && !faulty.is_reached() {
                assert!(at > 30, "the history has only {at} calls");
                break;
            }
            let writer = again.writer(fixture.write_options(3)).await.unwrap();
            let promises = Mutex::new(Vec::new());
            history(&writer, &promises).await.unwrap_or_else(|e| panic!("{name}: {e}"));
            let promised = promises.into_inner().unwrap();
            check(&fixture.open(store.clone()).await.unwrap(), &promised, &name).await;
        }
    }
}

/// A flush whose caller went away is taken up by the next.
#[tokio::test]
async fn a_flush_that_was_dropped_is_finished_by_the_next() {
    let fixture = Fixture::usual().with_packs(4000);
    for at in 0.. {
        let (store, _) = begun(&fixture).await;
        let faulty = Faulty::new(store.clone(), Trouble::Kills, at, true);
        let repository = tokio::select! {
            repository = fixture.open(faulty.clone()) => repository.unwrap(),
            () = faulty.killed.notified() => continue,
        };
        let writer = tokio::select! {
            writer = repository.writer(fixture.write_options(2)) => writer.unwrap(),
            () = faulty.killed.notified() => continue,
        };
        let id = writer.contents().write(None, Bytes::from_static(b"data"), None).await.unwrap();
        let manifest = writer.save_snapshot(&document(None)).unwrap();
        let was_cut = tokio::select! {
            flushed = writer.flush() => { flushed.unwrap(); false }
            () = faulty.killed.notified() => true,
        };
        let put = faulty.failed.lock().unwrap().clone().unwrap_or_default();
        if was_cut && (put.starts_with("put p") || put.starts_with("put q") || put.starts_with("put s")) {
            // A pack is put by a task of the writer, which goes on; here it hangs for ever.
            continue;
        }
        if was_cut && put.starts_with("get kopia.") && keys(&*store, "s").await.is_empty() {
            // The look at the format before the marker, in the same task.
            continue;
        }
        if was_cut {
            let more = writer.contents().write(None, Bytes::from_static(b"more"), None).await.unwrap();
            writer.flush().await.unwrap();
            assert_eq!(fixture.open(store.clone()).await.unwrap().contents().read(&more).await.unwrap(), "more");
        }
        let again = fixture.open(store.clone()).await.unwrap();
        assert_eq!(again.contents().read(&id).await.unwrap(), "data", "{put}");
        assert!(again.manifests().await.unwrap().get(&manifest).is_some(), "{put}");
        assert_eq!(keys(&*store, "s").await, [""; 0], "{put}");
        if !was_cut && !faulty.is_reached() {
            break;
        }
    }
}
