//! Manifests and snapshots through a writer.

use crate::format::directory::{DirectoryEntry, EntryType};
use crate::format::object_id::ObjectId;
use crate::format::snapshot::{SnapshotDocument, Source, Stats};
use crate::format::time::UnixNanos;
use crate::testing::{BEGIN, Fixture};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn data(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

pub(super) fn document(root: Option<ObjectId>) -> SnapshotDocument {
    let root = root.map(|object| DirectoryEntry {
        name: "root".into(),
        entry_type: EntryType::Directory,
        mode: 0o755,
        size: 0,
        modified: UnixNanos(5),
        uid: 0,
        gid: 0,
        object: Some(object),
        summary: None,
    });
    SnapshotDocument {
        source: Source { host: "default".to_owned(), user: "default".to_owned(), path: "ns/claim".to_owned() },
        description: "Kopia \"uploader\"".to_owned(),
        start: UnixNanos(BEGIN),
        end: UnixNanos(BEGIN + 5),
        stats: Stats { total_size: 7, file_count: 1, ..Stats::default() },
        incomplete: None,
        root,
        tags: labels(&[("backup", "b")]),
        pins: Vec::new(),
    }
}

#[tokio::test]
async fn manifests_of_one_flush_are_one_content_and_found_by_their_labels() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let first = writer.put_manifest(labels(&[("type", "policy"), ("a", "1")]), data("{\"x\":1}")).unwrap();
    fixture.clock.advance(1);
    let second = writer.put_manifest(labels(&[("type", "policy"), ("a", "2")]), data("[]")).unwrap();
    let error = writer.put_manifest(labels(&[("a", "2")]), data("{}")).unwrap_err();
    assert_eq!(error.to_string(), "cannot save a manifest: its labels have no type");
    assert_eq!(repository.manifests().await.unwrap().len(), 0);
    assert_eq!(writer.flush().await.unwrap().new_contents, 1);
    let manifests = fixture.open(store.clone()).await.unwrap().manifests().await.unwrap();
    let found: Vec<(&str, &str)> =
        manifests.of_type("policy").iter().map(|entry| (entry.id.as_str(), entry.data.get())).collect();
    assert_eq!(found, [(first.as_str(), "{\"x\":1}"), (second.as_str(), "[]")]);
    assert!(first.len() == 32 && first != second);
    // Nothing comes twice.
    assert_eq!(writer.flush().await.unwrap(), crate::content::writer::Written::default());
}

#[tokio::test]
async fn a_deleted_manifest_is_gone_where_the_clock_of_its_writer_was_ahead() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    fixture.clock.advance(100);
    let ahead = writer.put_manifest(labels(&[("type", "x")]), data("1")).unwrap();
    writer.flush().await.unwrap();
    fixture.clock.advance(-50);
    let pending = writer.put_manifest(labels(&[("type", "x")]), data("2")).unwrap();
    let kept = writer.put_manifest(labels(&[("type", "x")]), data("3")).unwrap();
    for id in [&ahead, &pending, &ahead] {
        writer.delete_manifest(id).unwrap();
    }
    writer.flush().await.unwrap();
    let manifests = fixture.open(store).await.unwrap().manifests().await.unwrap();
    let ids: Vec<&str> = manifests.of_type("x").iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, [kept]);
}

#[tokio::test]
async fn a_snapshot_is_saved_with_the_labels_of_kopia_and_read_as_it_was() {
    let fixture = Fixture::usual();
    let store = fixture.store().await;
    let repository = fixture.open(store.clone()).await.unwrap();
    let writer = repository.writer(fixture.write_options(7)).await.unwrap();
    let wanted = document(Some(ObjectId::parse("k00112233445566778899aabbccddeeff").unwrap()));
    let id = writer.save_snapshot(&wanted).unwrap();
    writer.flush().await.unwrap();
    let again = fixture.open(store).await.unwrap();
    let snapshots = again.snapshots().await.unwrap();
    assert_eq!((snapshots.len(), &snapshots[0].id, snapshots[0].document.as_ref()), (1, &id, Ok(&wanted)));
    let manifests = again.manifests().await.unwrap();
    let expected =
        [("type", "snapshot"), ("hostname", "default"), ("username", "default"), ("path", "ns/claim"), ("backup", "b")];
    assert_eq!(manifests.get(&id).unwrap().labels, labels(&expected));
    let taken = SnapshotDocument { tags: labels(&[("path", "x")]), ..wanted.clone() };
    let error = writer.save_snapshot(&taken).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot save a snapshot: the tag \"path\" is a label of every snapshot: give it another name"
    );
    // What would not be read as it was written: a reason that is none.
    let lost = SnapshotDocument { incomplete: Some(String::new()), ..wanted };
    let error = writer.save_snapshot(&lost).unwrap_err();
    assert_eq!(error.to_string(), "cannot save a snapshot: its document would not be read as it was written");
}
