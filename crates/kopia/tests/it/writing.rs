//! Repositories that kopia wrote, written on.

use crate::fixture::{NOW, bucket, keys, names, open, options, password};
use crate::tree::{input, inputs, read_tree, walk};
use bytes::Bytes;
use futures::TryStreamExt;
use lifeboat_kopia::format::directory::{Directory, EntryType, read, write};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::snapshot::SnapshotDocument;
use lifeboat_kopia::object::writer::{ObjectOptions, concatenate};
use lifeboat_kopia::{KopiaError, Repository, RepositoryWriter, WriteOptions, object};
use std::sync::{Arc, Mutex};

/// Numbers without pattern, the same in each run.
fn random() -> lifeboat_kopia::Random {
    let state = Mutex::new(1_u64);
    Arc::new(move |bytes: &mut [u8]| {
        let mut state = state.lock().unwrap();
        for byte in bytes {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (*state >> 56) as u8;
        }
    })
}

async fn writer(repository: &Repository) -> Result<RepositoryWriter, KopiaError> {
    let options = WriteOptions {
        user: "golden".to_owned(),
        host: "matrix".to_owned(),
        random: random(),
        threads: 2,
        memory: 64 << 20,
        uploads: 4,
    };
    repository.writer(options).await
}

async fn bytes_of(repository: &Repository, object: &ObjectId) -> Bytes {
    let pieces: Vec<Bytes> = object::bytes(repository.contents(), object).try_collect().await.unwrap();
    pieces.concat().into()
}

async fn write_object(writer: &RepositoryWriter, prefix: Option<u8>, bytes: &Bytes) -> ObjectId {
    let mut object = writer.object(ObjectOptions { prefix, ..ObjectOptions::default() });
    for piece in bytes.chunks(300_000) {
        object.write(bytes.slice_ref(piece)).await.unwrap();
    }
    object.finish().await.unwrap()
}

/// False where an object does not follow from its bytes alone: cut short, or joined of parts; and where none can be opened.
fn is_settled_by_bytes(name: &str) -> bool {
    !["crashed", "format-v1-locked", "concat"].contains(&name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kopia_holds_is_written_again_by_the_same_ids_and_adds_nothing() {
    let mut count = 0;
    for name in names().iter().filter(|name| is_settled_by_bytes(name)) {
        let scratch = tempfile::tempdir().unwrap();
        let store = bucket(name).await;
        let repository = open(store.clone(), scratch.path()).await.unwrap();
        let blobs = keys(&*store, "").await;
        let writer = writer(&repository).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut written = Vec::new();
        for snapshot in repository.snapshots().await.unwrap() {
            let root = snapshot.document.unwrap().root.unwrap();
            let found = walk(&repository, &root, &mut Vec::new()).await;
            for (path, entry) in found {
                let object = entry.entry.object.unwrap();
                if object.is_compressed || path.ends_with("/zeros") {
                    continue;
                }
                let bytes = bytes_of(&repository, &object).await;
                let prefix = (entry.entry.entry_type == EntryType::Directory).then_some(b'k');
                // Directories are made anew of their entries.
                let bytes = if prefix.is_some() {
                    let mut directory = Directory::default();
                    directory.summary = read::<KopiaOrFormat>(&bytes[..], |entry| {
                        directory.entries.push(entry);
                        Ok(())
                    })
                    .unwrap();
                    Bytes::from(write(&directory))
                } else {
                    bytes
                };
                let is_indirect_of_first_version = object.levels > 0 && repository.format().index_version < 2;
                let again = write_object(&writer, prefix, &bytes).await;
                if !is_indirect_of_first_version {
                    assert_eq!(again, object, "{name} {path}");
                    written.push(again);
                }
            }
        }
        let is_first_version = repository.format().index_version < 2;
        let counts = writer.flush().await.unwrap();
        if !is_first_version {
            assert_eq!((counts.new_contents, counts.packs, counts.index_blobs), (0, 0, 0), "{name}");
            assert_eq!(keys(&*store, "").await, blobs, "{name}");
        }
        count += written.len();
    }
    assert!(count > 500, "{count}");
}

/// The errors of reading a directory here.
type KopiaOrFormat = lifeboat_kopia::format::FormatError;

#[tokio::test]
async fn parts_of_a_file_are_joined_as_kopia_joins_them() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(bucket("concat").await, scratch.path()).await.unwrap();
    let writer = writer(&repository).await.unwrap();
    let root = repository.snapshots().await.unwrap().pop().unwrap().document.unwrap().root.unwrap();
    for (path, entry) in walk(&repository, &root, &mut Vec::new()).await {
        if entry.entry.entry_type != EntryType::File {
            continue;
        }
        let bytes = Bytes::from(input(&path));
        let mut parts = Vec::new();
        // One part for each begun MiB, the last one to the end of the file.
        let count = bytes.len() / (1 << 20);
        for number in 0..=count {
            let end = if number == count { bytes.len() } else { (number + 1) << 20 };
            parts.push(write_object(&writer, None, &bytes.slice(number << 20..end)).await);
        }
        let joined = concatenate(writer.contents(), &parts, ObjectOptions::default()).await.unwrap();
        assert_eq!(Some(joined), entry.entry.object, "{path}");
    }
}

/// Each repository goes on: a second snapshot with one more file, both read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_of_kopia_takes_another_snapshot_beside_its_own() {
    for name in [
        "default",
        "format-v1",
        "format-v1-compacted",
        "format-v1-upgraded",
        "format-v2",
        "ecc-10-v3",
        "hash-blake3-256",
        "enc-chacha20",
        "layout-flat",
    ] {
        let scratch = tempfile::tempdir().unwrap();
        let store = bucket(name).await;
        let repository = open(store.clone(), scratch.path()).await.unwrap();
        let first = repository.snapshots().await.unwrap().pop().unwrap();
        let document = first.document.unwrap();
        let writer = writer(&repository).await.unwrap();
        let root = document.root.clone().unwrap();
        let mut directory = Directory::default();
        let bytes = bytes_of(&repository, &root.object.unwrap()).await;
        directory.summary = read::<KopiaOrFormat>(&bytes[..], |entry| {
            directory.entries.push(entry);
            Ok(())
        })
        .unwrap();
        let plain = Bytes::from_static(b"one more file");
        let mut entry = directory.entries.iter().find(|entry| &*entry.name == "hello.txt").unwrap().clone();
        entry.name = "zzz".into();
        entry.size = plain.len() as u64;
        entry.object = Some(write_object(&writer, None, &plain).await);
        directory.entries.push(entry);
        let object = write_object(&writer, Some(b'k'), &write(&directory).into()).await;
        let mut second = SnapshotDocument { start: NOW, end: NOW, ..document };
        second.root.as_mut().unwrap().object = Some(object);
        let id = writer.save_snapshot(&second).unwrap();
        writer.flush().await.unwrap();

        let again = Repository::open(store, password(), options(scratch.path())).await.unwrap();
        let snapshots = again.snapshots().await.unwrap();
        assert_eq!((snapshots.len(), &snapshots[1].id), (2, &id), "{name}");
        for snapshot in snapshots {
            let is_second = snapshot.id == id;
            let (mut rows, errors) = read_tree(&again, &snapshot.document.unwrap().root.unwrap()).await;
            assert_eq!(errors, [], "{name}");
            assert_eq!(rows.remove("tree-a/zzz").is_some(), is_second, "{name}");
            assert_eq!(rows, inputs("tree-a"), "{name}");
        }
        let told = Arc::new(Mutex::new(Vec::new()));
        let problems = told.clone();
        again.verify_structure(move |problem| problems.lock().unwrap().push(format!("{problem:?}"))).await.unwrap();
        assert_eq!(*told.lock().unwrap(), [""; 0], "{name}");
    }
}
