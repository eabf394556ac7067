//! Backups that are rewritten after they were committed.

use crate::{NAME, bytes, content, memory, names, options, write};
use bytes::Bytes;
use lifeboat_api::Backup;
use lifeboat_archive::layout::BackupFile;
use lifeboat_bucket::faults::Deadly;
use lifeboat_bucket::{PutOptions, collect};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_store::{NewObject, Rewrite, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

fn object(name: &str, data: &str) -> NewObject {
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"shop"}},"data":{{"x":"{data}"}}}}"#
    );
    NewObject {
        key: ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name),
        version: "v1".to_owned(),
        preferred: true,
        body: body.into(),
    }
}

fn record(note: &str) -> Backup {
    let mut record = Backup::default();
    record.metadata.name = NAME.into();
    record.metadata.uid = "u".into();
    record.metadata.labels.insert("note".to_owned(), note.to_owned());
    record
}

/// Replaces one object of the first member and one of another, and adds one.
fn change(note: &str) -> Rewrite {
    Rewrite {
        objects: vec![object("c0", note), object("c2", note), object("new", note)],
        files: vec![(BackupFile::ItemOperations, format!("operations {note}").into_bytes().into())],
        record: record(note),
        mtime: 7,
    }
}

/// The value of `data.x` of each object.
async fn data(store: &Store, ignore_index: bool) -> BTreeMap<String, String> {
    let archive = store.open_archive(NAME, &options(ignore_index)).await.unwrap();
    let mut tasks = JoinSet::new();
    let mut contents = archive.read((0..archive.rows().len()).collect(), &mut tasks);
    let mut out = BTreeMap::new();
    while let Some(item) = contents.next().await.unwrap() {
        let object: serde_json::Value = serde_json::from_slice(&item.body).unwrap();
        assert!(out.insert(item.head.name, object["data"]["x"].as_str().unwrap().to_owned()).is_none());
    }
    out
}

fn expected(note: &str) -> BTreeMap<String, String> {
    [("c0", note), ("c1", "y"), ("c2", note), ("c3", "y"), ("new", note)]
        .map(|(name, data)| (name.to_owned(), data.to_owned()))
        .into()
}

async fn problems(store: &Store) -> Vec<String> {
    let found = store.verify(NAME, &options(false)).await.unwrap();
    assert!(found.has_manifest);
    found.problems.into_iter().map(|problem| format!("{}: {}", problem.what, problem.problem)).collect()
}

#[tokio::test]
async fn a_backup_can_be_proved_wherever_its_rewriting_was_cut_off() {
    let mut cuts = 0;
    for takes_last in [false, true] {
        for puts in 0.. {
            let bucket = memory();
            let store = write(&bucket, 4, names).await;
            let deadly = Store::new(Arc::new(Deadly::new(Arc::clone(&bucket), puts, takes_last)));
            let ended = deadly.rewrite(NAME, change("one"), &options(false)).await.is_ok();
            assert_eq!(problems(&store).await, [""; 0], "after {puts} puts");
            if ended {
                // The manifest, the archive, its index, the operations, the manifest, the record.
                assert_eq!(puts, 6);
                break;
            }
            cuts += 1;
            // Objects may have changed meanwhile, and it may be cut off again.
            for again in 0..3 {
                let deadly = Store::new(Arc::new(Deadly::new(Arc::clone(&bucket), again, takes_last)));
                assert!(deadly.rewrite(NAME, change("two"), &options(false)).await.is_err());
                assert_eq!(problems(&store).await, [""; 0], "after {puts} and {again} puts");
            }
            // Nor need it change the same.
            let less = Rewrite { objects: Vec::new(), files: Vec::new(), ..change("less") };
            store.rewrite(NAME, less, &options(false)).await.unwrap();
            assert_eq!(problems(&store).await, [""; 0], "after {puts} puts and another change");
            store.rewrite(NAME, change("two"), &options(false)).await.unwrap();
            assert_eq!(problems(&store).await, [""; 0], "after {puts} puts and another run");
            assert_eq!((data(&store, false).await, data(&store, true).await), (expected("two"), expected("two")));
            assert_eq!(store.backup(NAME).await.unwrap(), record("two"));
        }
    }
    assert_eq!(cuts, 12);
}

#[tokio::test]
async fn what_is_not_replaced_is_copied_as_it_is() {
    let bucket = memory();
    let store = write(&bucket, 4, names).await;
    let bytes = || async {
        let stream = bucket.get(&BackupFile::Tarball.key(NAME), None).await.unwrap();
        collect(stream, 1 << 20).await.unwrap()
    };
    let before = bytes().await;
    store.rewrite(NAME, Rewrite { objects: vec![object("new", "n")], ..change("n") }, &options(false)).await.unwrap();
    let after = bytes().await;
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    // All but the end of the archive, which is a gzip member of two blocks of zeros.
    assert!(before.len() - same < 64, "{same} of {}", before.len());
}

/// The old index would be taken for one of the new archive.
#[tokio::test]
async fn an_archive_that_is_rewritten_never_keeps_its_size() {
    let bucket = memory();
    let store = write(&bucket, 1, names).await;
    let mut sizes = Vec::new();
    for _ in 0..3 {
        // The same objects again and again.
        store.rewrite(NAME, change("same"), &options(false)).await.unwrap();
        sizes.push(bucket.head(&BackupFile::Tarball.key(NAME)).await.unwrap().size);
        assert_eq!(problems(&store).await, [""; 0]);
    }
    assert!(sizes[0] != sizes[1] && sizes[1] != sizes[2], "{sizes:?}");
}

#[tokio::test]
async fn files_alone_leave_the_archive() {
    let bucket = memory();
    let store = write(&bucket, 2, names).await;
    store.rewrite(NAME, Rewrite { objects: Vec::new(), ..change("f") }, &options(false)).await.unwrap();
    assert_eq!(problems(&store).await, [""; 0]);
    assert_eq!(store.backup(NAME).await.unwrap(), record("f"));
    let operations = bucket.get(&BackupFile::ItemOperations.key(NAME), None).await.unwrap();
    assert_eq!(collect(operations, 100).await.unwrap(), Bytes::from_static(b"operations f"));
}

#[tokio::test]
async fn a_file_of_many_pieces_takes_the_place_of_the_one_before_it() {
    let bucket = memory();
    let store = write(&bucket, 2, names).await;
    for seed in [3, 5] {
        let log = content(9 << 20, seed);
        let files = vec![(BackupFile::Logs, content(1 << 20, 1).followed_by(log))];
        store.rewrite(NAME, Rewrite { files, ..change("f") }, &options(false)).await.unwrap();
        assert_eq!(problems(&store).await, [""; 0]);
        let stored = bucket.get(&BackupFile::Logs.key(NAME), None).await.unwrap();
        let expected = [bytes(0..1 << 20, 1), bytes(0..9 << 20, seed)].concat();
        assert!(collect(stored, 16 << 20).await.unwrap() == expected);
    }
}

#[tokio::test]
async fn what_somebody_else_has_changed_is_not_written_over() {
    for file in [BackupFile::Tarball, BackupFile::Manifest] {
        let bucket = memory();
        let store = write(&bucket, 2, names).await;
        let key = file.key(NAME);
        let mut bytes = collect(bucket.get(&key, None).await.unwrap(), 1 << 20).await.unwrap().to_vec();
        match file {
            // Still an archive, but not ours.
            BackupFile::Tarball => bytes.extend(lifeboat_archive::gzip::pack(b"")),
            _ => {
                bytes = String::from_utf8(bytes)
                    .unwrap()
                    .replace("\"backupUid\": \"u\"", "\"backupUid\": \"v\"")
                    .into_bytes();
            }
        }
        bucket.put(&key, bytes.clone().into(), PutOptions::default()).await.unwrap();
        let error = store.rewrite(NAME, change("x"), &options(false)).await.unwrap_err();
        assert!(matches!(&error, StoreError::Altered { key: altered, .. } if *altered == key), "{error}");
        let after = collect(bucket.get(&key, None).await.unwrap(), 1 << 20).await.unwrap();
        assert!(after == bytes, "{key}");
    }
}
