//! Repositories whose index blobs are lost.

use crate::fixture::{bucket, expected, get, keys, open, options, password};
use crate::tree::{inputs, read_tree};
use lifeboat_bucket::{BlobStore, PutOptions};
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::{KopiaError, OpenOptions, Repository};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_without_index_blobs_is_read_from_its_packs() {
    for name in
        ["comp-zstd-fastest", "format-v1", "enc-chacha20-blake3-256", "ecc-10-v3", "hash-hmac-sha224", "default"]
    {
        let scratch = tempfile::tempdir().unwrap();
        let store = bucket(name).await;
        for prefix in ["x", "n"] {
            store.delete(&keys(&*store, prefix).await).await.unwrap();
        }
        // It must not look as if nothing had been saved.
        let error = open(store.clone(), scratch.path()).await.unwrap_err();
        assert!(matches!(error, KopiaError::LostIndexes { .. }), "{name}: {error}");
        let from_packs = OpenOptions { indexes: IndexSource::Packs, ..options(scratch.path()) };
        let repository = Repository::open(store, password(), from_packs).await.unwrap();
        let found: BTreeSet<String> =
            repository.contents().scan(None).map(|entry| entry.unwrap().id.to_string()).collect();
        let expected = expected(name);
        let wanted = expected["contents"].as_array().unwrap().iter();
        let wanted: BTreeSet<String> = wanted.map(|one| one["contentID"].as_str().unwrap().to_owned()).collect();
        assert_eq!(found, wanted, "{name}");
        let snapshot = repository.snapshots().await.unwrap().pop().unwrap();
        let (rows, errors) = read_tree(&repository, &snapshot.document.unwrap().root.unwrap()).await;
        assert_eq!((rows, errors), (inputs("tree-a"), vec![]), "{name}");
    }
}

#[tokio::test]
async fn a_pack_without_an_index_is_counted_and_the_others_are_read() {
    let scratch = tempfile::tempdir().unwrap();
    let store = bucket("comp-zstd-fastest").await;
    store.delete(&keys(&*store, "x").await).await.unwrap();
    let pack = keys(&*store, "p").await.pop().unwrap();
    let mut bytes = get(&*store, &pack).await;
    bytes.truncate(bytes.len() - 1);
    store.put(&pack, bytes.into(), PutOptions::default()).await.unwrap();
    let from_packs = OpenOptions { indexes: IndexSource::Packs, ..options(scratch.path()) };
    let repository = Repository::open(store, password(), from_packs).await.unwrap();
    let set = repository.contents().index_set();
    assert_eq!((set.damaged_packs(), set.damaged_entries()), (1, 0));
    assert_eq!(repository.snapshots().await.unwrap().len(), 1);
}
