//! Contents through a writer: packs, sessions, indexes.

use crate::compression::Compression;
use crate::content::IndexSource;
use crate::format::blob_name::session_of;
use crate::format::repository::{EpochParameters, NewRepository};
use crate::format::session::SessionMarker;
use crate::testing::{Fixture, keys, noise};
use crate::{KopiaError, OpenOptions};
use bytes::Bytes;
use lifeboat_bucket::{BlobStore, PutOptions};

fn text(bytes: &str) -> Bytes {
    Bytes::copy_from_slice(bytes.as_bytes())
}

#[tokio::test]
async fn what_was_flushed_is_read_by_the_repository_and_by_a_new_one() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let contents = writer.contents();
    let data = contents.write(None, text("data"), None).await.unwrap();
    let directory = contents.write(Some(b'k'), text("data"), None).await.unwrap();
    let empty = contents.write(None, Bytes::new(), Some(Compression::Zstd)).await.unwrap();
    let zeros = contents.write(None, vec![0; 100_000].into(), Some(Compression::Zstd)).await.unwrap();
    assert_eq!(data.hash(), directory.hash());
    // The writer sees what it wrote, others nothing yet.
    assert_eq!(contents.read(&data).await.unwrap(), "data");
    assert_eq!(contents.read(&zeros).await.unwrap(), vec![0; 100_000]);
    assert_eq!(repository.contents().find(&data).unwrap(), None);
    let written = writer.flush().await.unwrap();
    assert_eq!((written.new_contents, written.new_bytes, written.packs, written.index_blobs), (4, 100_008, 2, 1));
    assert!(written.stored_bytes < 1000);
    for repository in [repository, fixture.open(store.clone()).await.unwrap()] {
        for (id, plain) in [(data, &b"data"[..]), (directory, b"data"), (empty, b""), (zeros, &[0; 100_000])] {
            assert_eq!(repository.contents().read(&id).await.unwrap(), plain);
        }
        assert_eq!(repository.contents().scan(None).count(), 4);
        let entry = repository.contents().find(&zeros).unwrap().unwrap();
        assert_eq!((entry.compression, entry.original_length, entry.format_version), (0x1100, 100_000, 3));
        assert_eq!(repository.contents().find(&empty).unwrap().unwrap().compression, 0);
    }
    // Packs and index are of one session, whose marker is gone.
    let names: Vec<String> = keys(&*store, "").await;
    let kinds: Vec<String> = names.iter().map(|name| name.chars().take(3).collect()).collect();
    assert_eq!(kinds.len(), 5, "{names:?}");
    let sessions: Vec<_> = names.iter().filter_map(|name| session_of(name)).collect();
    assert!(sessions.len() == 3 && sessions.iter().all(|session| *session == sessions[0]), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("xn0_") && name.ends_with("-c1")), "{names:?}");
}

#[tokio::test]
async fn bytes_that_are_there_are_stored_once() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    // In flight, pending, flushed.
    let writes = (0..20).map(|_| writer.contents().write(None, text("same"), None));
    let ids = futures::future::try_join_all(writes).await.unwrap();
    let written = writer.flush().await.unwrap();
    assert_eq!((written.new_contents, written.reused_contents, written.reused_bytes), (1, 19, 76));
    assert_eq!(writer.contents().write(None, text("same"), None).await.unwrap(), ids[0]);
    let written = writer.flush().await.unwrap();
    assert_eq!((written.new_contents, written.reused_contents, written.packs, written.index_blobs), (0, 1, 0, 0));
    // A second writer has not seen it.
    assert_eq!(keys(&*store, "s").await, [""; 0]);
    assert_eq!(keys(&*store, "p").await.len(), 1);
}

#[tokio::test]
async fn a_deleted_content_is_written_again_later_than_its_deletion() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let contents = writer.contents();
    let id = contents.write(None, text("data"), None).await.unwrap();
    // The clock stands still.
    for round in 0..3 {
        contents.delete(&id).await.unwrap();
        contents.delete(&id).await.unwrap();
        assert!(contents.find(&id).unwrap().unwrap().is_deleted);
        assert_eq!(contents.read(&id).await.unwrap(), "data");
        if round != 1 {
            writer.flush().await.unwrap();
        }
        let deleted = contents.find(&id).unwrap().unwrap();
        assert!(deleted.is_deleted);
        contents.write(None, text("data"), None).await.unwrap();
        let live = contents.find(&id).unwrap().unwrap();
        assert_eq!((live.is_deleted, live.timestamp), (false, deleted.timestamp + 1));
        if round != 1 {
            writer.flush().await.unwrap();
        }
    }
    let repository = fixture.open(store.clone()).await.unwrap();
    assert!(!repository.contents().find(&id).unwrap().unwrap().is_deleted);
    let unknown = crate::format::content_id::ContentId::parse("00").unwrap();
    let error = contents.delete(&unknown).await.unwrap_err();
    assert_eq!(error.to_string(), "content 00 is missing in the repository");
}

/// The watermark has passed the deletion, and the clock of the writer is behind that.
#[tokio::test]
async fn a_content_is_written_later_than_a_deletion_that_counts_no_more() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let id = writer.contents().write(None, text("data"), None).await.unwrap();
    fixture.clock.advance(1000);
    writer.contents().delete(&id).await.unwrap();
    writer.flush().await.unwrap();
    let deleted = writer.contents().find(&id).unwrap().unwrap().timestamp;
    store.put(&format!("xw{deleted}"), b"deletion-watermark".to_vec().into(), PutOptions::default()).await.unwrap();
    fixture.clock.advance(-500);
    let behind = fixture.open(store.clone()).await.unwrap();
    assert_eq!(behind.contents().find(&id).unwrap(), None);
    let writer = behind.writer(fixture.write_options(8)).await.unwrap();
    writer.contents().write(None, text("data"), None).await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!(behind.contents().read(&id).await.unwrap(), "data");
    assert_eq!(fixture.open(store).await.unwrap().contents().find(&id).unwrap().unwrap().timestamp, deleted + 1);
}

#[tokio::test]
async fn a_pack_is_put_when_it_is_full_and_after_the_marker_of_its_session() {
    let fixture = Fixture::usual().with_packs(100_000);
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..10 {
        let plain = noise(number, 30_000);
        ids.push((writer.contents().write(None, plain.clone().into(), None).await.unwrap(), plain));
    }
    while keys(&*store, "p").await.len() < 2 {
        tokio::task::yield_now().await;
    }
    let markers = keys(&*store, "s").await;
    assert_eq!(markers.len(), 1);
    let stored = repository.blobs().read(&markers[0], 1 << 20).await.unwrap();
    let marker = SessionMarker::parse(&repository.crypto().open_blob(&markers[0], &stored).unwrap()).unwrap();
    assert_eq!((marker.user.as_str(), Some(marker.id.as_str())), ("default", session_of(&markers[0])));
    assert_eq!(keys(&*store, "x").await, [""; 0]);
    // It is a first snapshot that goes on, or that was cut off.
    assert_eq!(fixture.open(store.clone()).await.unwrap().contents().scan(None).count(), 0);
    for (id, plain) in &ids {
        assert_eq!(&writer.contents().read(id).await.unwrap(), plain);
    }
    let written = writer.flush().await.unwrap();
    assert_eq!((written.packs, written.index_blobs), (3, 1));
    assert_eq!(keys(&*store, "s").await, [""; 0]);
    // Without index blobs the packs tell everything.
    let index = keys(&*store, "x").await;
    store.delete(&index).await.unwrap();
    let lost = fixture.open(store.clone()).await.unwrap_err();
    assert!(matches!(lost, KopiaError::LostIndexes { .. }), "{lost}");
    let options = OpenOptions { indexes: IndexSource::Packs, ..fixture.options() };
    let recovered = fixture.open_with(store.clone(), options).await.unwrap();
    for (id, plain) in &ids {
        assert_eq!(&recovered.contents().read(id).await.unwrap(), plain);
    }
    let error = recovered.writer(fixture.write_options(7)).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot write into the repository: it was opened by the indexes"));
}

#[tokio::test]
async fn contents_are_flushed_by_themselves_after_ten_minutes() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    writer.contents().write(None, text("1"), None).await.unwrap();
    fixture.clock.advance(599);
    writer.contents().write(None, text("2"), None).await.unwrap();
    assert_eq!(keys(&*store, "x").await.len(), 0);
    fixture.clock.advance(2);
    writer.contents().write(None, text("3"), None).await.unwrap();
    assert_eq!(keys(&*store, "x").await.len(), 1);
    assert_eq!(fixture.open(store.clone()).await.unwrap().contents().scan(None).count(), 3);
    let written = writer.flush().await.unwrap();
    assert_eq!((written.new_contents, written.packs, written.index_blobs), (3, 1, 1));
}

#[tokio::test]
async fn a_copy_of_a_content_has_the_same_bytes_and_state_in_another_pack() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let contents = writer.contents();
    let live = contents.write(Some(b'k'), vec![7; 5000].into(), Some(Compression::S2Default)).await.unwrap();
    let deleted = contents.write(None, text("deleted"), None).await.unwrap();
    contents.delete(&deleted).await.unwrap();
    writer.flush().await.unwrap();
    for (id, is_deleted) in [(live, false), (deleted, true)] {
        let before = contents.find(&id).unwrap().unwrap();
        contents.rewrite(&id).await.unwrap();
        writer.flush().await.unwrap();
        let after = contents.find(&id).unwrap().unwrap();
        assert_ne!(after.pack, before.pack);
        let expected = crate::format::index::Entry {
            pack: after.pack.clone(),
            offset: 32,
            timestamp: before.timestamp + 1,
            is_deleted,
            ..before
        };
        assert_eq!(after, expected);
    }
    let packs = keys(&*store, "q").await;
    assert_eq!(packs.len(), 2);
    let old: Vec<String> =
        packs.into_iter().filter(|name| *name != contents.find(&live).unwrap().unwrap().pack).collect();
    store.delete(&old).await.unwrap();
    assert_eq!(contents.read(&live).await.unwrap(), vec![7; 5000]);
    contents.undelete(&live).await.unwrap();
    contents.undelete(&deleted).await.unwrap();
    let written = writer.flush().await.unwrap();
    assert_eq!((written.rewritten_contents, contents.find(&deleted).unwrap().unwrap().is_deleted), (1, false));
}

#[tokio::test]
async fn a_damaged_content_is_not_copied() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let id = writer.contents().write(None, text("data"), None).await.unwrap();
    writer.flush().await.unwrap();
    let pack = keys(&*store, "p").await.remove(0);
    let mut bytes = repository.blobs().read(&pack, 1 << 20).await.unwrap().to_vec();
    bytes[33] ^= 1;
    store.put(&pack, bytes.into(), PutOptions::default()).await.unwrap();
    let error = writer.contents().rewrite(&id).await.unwrap_err();
    assert!(matches!(error, KopiaError::Damaged { .. }), "{error}");
    assert_eq!(writer.flush().await.unwrap().packs, 0);
}

#[tokio::test]
async fn a_repository_of_the_first_version_has_its_own_indexes_and_replicas() {
    let fixture = Fixture::new(&NewRepository { version: 1, ..NewRepository::default() });
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let id = writer.contents().write(None, vec![0; 1000].into(), Some(Compression::Zstd)).await.unwrap();
    writer.flush().await.unwrap();
    let again = fixture.open(store.clone()).await.unwrap();
    assert_eq!(again.contents().read(&id).await.unwrap(), vec![0; 1000]);
    let entry = again.contents().find(&id).unwrap().unwrap();
    assert_eq!((entry.compression, entry.original_length, entry.format_version), (0, 1000, 1));
    let index = keys(&*store, "n").await;
    assert_eq!((index.len(), keys(&*store, "x").await.len()), (1, 0));
    assert!(!index[0].contains("-c"), "{index:?}");
    let pack = again.blobs().read(&entry.pack, 1 << 20).await.unwrap();
    let replica = crate::format::pack::find_replica(&pack, &pack).unwrap();
    assert_eq!(replica, again.blobs().read("kopia.repository", 1 << 20).await.unwrap());
}

#[tokio::test]
async fn an_index_goes_into_the_epoch_that_is_current_when_it_is_written() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let refresh = EpochParameters::enabled().epoch_refresh_frequency / 1_000_000_000;
    for (marker, after, expected) in
        // What is seen is good for a quarter of its time.
        [("xe1", refresh / 4 - 1, "xn0_"), ("xe1", 2, "xn1_"), ("xe7", refresh, "xn7_")]
    {
        store.put(marker, b"epoch-marker".to_vec().into(), PutOptions::default()).await.unwrap();
        fixture.clock.advance(after);
        let before = keys(&*store, expected).await.len();
        writer.contents().write(None, text(&format!("{marker} {after}")), None).await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(keys(&*store, expected).await.len(), before + 1, "{marker} {after}");
    }
    assert_eq!(fixture.open(store).await.unwrap().contents().scan(None).count(), 3);
}

#[tokio::test]
async fn an_index_that_comes_two_epochs_late_is_taken_back() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    writer.contents().write(None, text("late"), None).await.unwrap();
    store.put("xe2", b"epoch-marker".to_vec().into(), PutOptions::default()).await.unwrap();
    let error = writer.flush().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot write an index: epoch 2 began while it was written into epoch 0: try again");
    assert_eq!(keys(&*store, "xn").await, [""; 0]);
    let again = writer.contents().write(None, text("more"), None).await.unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
}

#[tokio::test]
async fn contents_that_no_index_can_tell_are_refused_before_they_are_written() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let error = writer.contents().write(None, vec![0; 1 << 28].into(), None).await.unwrap_err();
    assert!(error.to_string().ends_with("no index can tell 256 MiB or more"), "{error}");
    let error = writer.contents().write(Some(b'a'), text("x"), None).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot store a content: its prefix is no letter g to z");
    fixture.clock.advance(5_000_000_000);
    let error = writer.contents().write(None, text("x"), None).await.unwrap_err();
    assert!(error.to_string().contains("its time is after the year 2106"), "{error}");
    // None of them ends the writer.
    fixture.clock.advance(-5_000_000_000);
    writer.contents().write(None, text("x"), None).await.unwrap();
    assert_eq!(writer.flush().await.unwrap().new_contents, 1);
}

/// Time goes on by half an hour at each look at the clock.
#[tokio::test(start_paused = true)]
async fn a_load_of_the_indexes_that_took_too_long_keeps_what_it_read() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let id = writer.contents().write(None, text("data"), None).await.unwrap();
    writer.flush().await.unwrap();
    let (clock, time) = (fixture.clock.clone(), fixture.clock.clock());
    let late: crate::Clock = std::sync::Arc::new(move || {
        clock.advance(1800);
        time()
    });
    let options = OpenOptions { clock: late, ..fixture.options() };
    let repository = fixture.open_with(store, options).await.unwrap();
    assert!(repository.contents().find(&id).unwrap().is_some());
}
