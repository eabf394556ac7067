//! Every repository of the matrix: what it holds is what kopia says that it holds, and what went into it.

use crate::fixture::{bucket, expected, flat_bucket, names, open};
use crate::tree::{inputs, read_tree, walk};
use futures::TryStreamExt;
use lifeboat_bucket::{BlobStore, Directory};
use lifeboat_kopia::content::{epochs, legacy};
use lifeboat_kopia::format::index::Entry;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::snapshot::EntryState;
use lifeboat_kopia::{KopiaError, Repository, object};
use serde_json::Value;
use std::sync::Arc;

/// The one that is locked is another test's.
fn readable() -> Vec<String> {
    names().into_iter().filter(|name| name != "format-v1-locked").collect()
}

fn entry_row(entry: &Entry) -> Value {
    serde_json::json!([
        entry.id.to_string(),
        entry.pack,
        entry.timestamp,
        entry.offset,
        entry.packed_length,
        entry.original_length,
        entry.compression,
        entry.format_version,
        entry.is_deleted
    ])
}

fn expected_row(content: &Value) -> Value {
    let keys = ["contentID", "packFile", "time", "packOffset", "length", "originalLength"];
    let mut row: Vec<Value> = keys.iter().map(|key| content[key].clone()).collect();
    row.push(content.get("compression").cloned().unwrap_or_else(|| 0.into()));
    row.extend(["formatVersion", "deleted"].map(|key| content[key].clone()));
    row.into()
}

fn check_contents(name: &str, repository: &Repository, expected: &Value) {
    let mut rows: Vec<String> =
        repository.contents().scan(None).map(|entry| entry_row(&entry.unwrap()).to_string()).collect();
    rows.sort();
    let mut wanted: Vec<String> =
        expected["contents"].as_array().unwrap().iter().map(|content| expected_row(content).to_string()).collect();
    wanted.sort();
    assert_eq!(rows, wanted, "{name}");
    for entry in repository.contents().scan(None) {
        let entry = entry.unwrap();
        assert_eq!(repository.contents().find(&entry.id).unwrap(), Some(entry), "{name}");
    }
    assert_eq!(repository.contents().index_set().damaged_entries(), 0, "{name}");
}

async fn check_blobs(name: &str, repository: &Repository, expected: &Value) {
    let blobs = repository.blobs().list_all("").await.unwrap();
    let mut rows = Vec::new();
    for blob in &blobs {
        rows.push((blob.name.clone(), blob.length));
        // Each is found by every beginning of its name.
        for length in 1..6.min(blob.name.len()) {
            let found = repository.blobs().list_all(&blob.name[..length]).await.unwrap();
            assert_eq!(found.iter().filter(|other| *other == blob).count(), 1, "{name} {}", blob.name);
        }
    }
    let wanted = expected["blobs"].as_array().unwrap();
    let row = |blob: &Value| (blob["id"].as_str().unwrap().to_owned(), blob["length"].as_u64().unwrap());
    let mut expected_rows: Vec<(String, u64)> = wanted.iter().map(row).collect();
    expected_rows.sort();
    assert_eq!(rows, expected_rows, "{name}");
    for blob in wanted.iter().filter(|blob| blob.get("timestamp").is_some()) {
        let found = blobs.iter().find(|found| found.name == blob["id"]).unwrap();
        let time = UnixNanos::parse(blob["timestamp"].as_str().unwrap()).unwrap();
        assert_eq!(found.modified, Some(time), "{name} {}", found.name);
    }
}

async fn check_snapshots(name: &str, repository: &Repository, expected: &Value) {
    let snapshots = repository.snapshots().await.unwrap();
    let wanted = match expected["snapshot"].as_object() {
        Some(_) if expected.get("snapshots").is_none_or(Value::is_null) => vec![expected["snapshot"].clone()],
        _ => expected["snapshots"].as_array().unwrap().clone(),
    };
    let wanted: Vec<Value> = wanted
        .iter()
        .map(|one| {
            serde_json::json!([
                one["id"],
                one["startTime"],
                one["endTime"],
                one["source"]["path"],
                one["rootEntry"]["obj"],
                one.get("incomplete").cloned().unwrap_or(Value::Null)
            ])
        })
        .collect();
    let rows = snapshots.iter().map(|snapshot| {
        let document = snapshot.document.as_ref().unwrap();
        let root = document.root.as_ref().unwrap().object.unwrap().to_string();
        serde_json::json!([
            snapshot.id,
            document.start.to_string(),
            document.end.to_string(),
            document.source.path,
            root,
            document.incomplete
        ])
    });
    let mut rows: Vec<String> = rows.map(|row| row.to_string()).collect();
    let mut wanted: Vec<String> = wanted.iter().map(Value::to_string).collect();
    rows.sort();
    wanted.sort();
    assert_eq!(rows, wanted, "{name}");
}

async fn check_trees(name: &str, repository: &Repository) {
    for snapshot in repository.snapshots().await.unwrap() {
        let document = snapshot.document.unwrap();
        if document.incomplete.is_some() {
            continue;
        }
        let root = document.root.unwrap();
        let tree = document.source.path.rsplit('/').next().unwrap();
        let (rows, errors) = read_tree(repository, &root).await;
        assert_eq!(errors, [], "{name}");
        let wanted = inputs(tree);
        if tree == "tree-deep" {
            // Only the first and the last of the many files are recorded.
            assert_eq!((rows.len(), wanted.len()), (1503, 5));
            for (path, row) in wanted {
                assert_eq!(rows.get(&path), Some(&row), "{path}");
            }
        } else {
            assert_eq!(rows, wanted, "{name}");
        }
    }
}

async fn check_objects(name: &str, repository: &Repository, expected: &Value) {
    let Some(objects) = expected["objects"].as_object() else { return };
    for (id, text) in objects {
        // The text of an indirect file is the content of its first listing.
        let mut object_id = ObjectId::parse(id).unwrap();
        if object_id.levels > 0 && text.as_str().unwrap().contains("\"kopia:indirect\"") {
            object_id.levels = 0;
        }
        let pieces: Vec<_> = object::bytes(repository.contents(), &object_id).try_collect().await.unwrap();
        assert!(pieces.concat() == text.as_str().unwrap().as_bytes(), "{name} {id}");
        let length = object::length(repository.contents(), &object_id).await.unwrap();
        assert_eq!(length, text.as_str().unwrap().len() as u64, "{name} {id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_repository_holds_what_kopia_says_and_what_went_into_it() {
    assert_eq!(readable().len(), 58);
    for name in readable() {
        let scratch = tempfile::tempdir().unwrap();
        let repository = open(bucket(&name).await, scratch.path()).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = expected(&name);
        check_contents(&name, &repository, &expected);
        check_blobs(&name, &repository, &expected).await;
        check_snapshots(&name, &repository, &expected).await;
        check_objects(&name, &repository, &expected).await;
        check_trees(&name, &repository).await;
    }
}

/// The layout of object stores has the names as they are.
#[tokio::test]
async fn a_repository_in_an_object_store_is_the_same() {
    for name in ["comp-zstd-fastest", "format-v1-compacted", "epochs"] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = open(flat_bucket(name).await, scratch.path()).await.unwrap();
        check_contents(name, &repository, &expected(name));
        check_trees(name, &repository).await;
        let blobs = repository.blobs().list_all("").await.unwrap();
        assert_eq!(blobs.len(), expected(name)["blobs"].as_array().unwrap().len());
    }
}

/// Time stands still but for pauses: without its description of the layout the repository is tried ten times.
#[tokio::test(start_paused = true)]
async fn a_repository_in_a_folder_is_the_same() {
    let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (key, bytes, time) in crate::fixture::files("epochs-mid") {
        let path = root.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + time).unwrap();
    }
    let store: Arc<dyn BlobStore> = Arc::new(Directory::open(root.path()).unwrap());
    let repository = open(store.clone(), scratch.path()).await.unwrap();
    let expected = expected("epochs-mid");
    check_contents("epochs-mid", &repository, &expected);
    check_blobs("epochs-mid", &repository, &expected).await;
    check_trees("epochs-mid", &repository).await;
    // Without its description the folders are those of an old repository, and these are not.
    std::fs::remove_file(root.path().join(".shards")).unwrap();
    let error = open(store, scratch.path()).await.unwrap_err();
    assert!(matches!(error, KopiaError::Bucket(_) | KopiaError::Missing { .. }), "{error}");
}

#[tokio::test]
async fn the_index_blobs_that_count_are_those_that_kopia_lists() {
    for name in ["epochs", "epochs-mid", "format-v1-upgraded"] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = open(bucket(name).await, scratch.path()).await.unwrap();
        let state = epochs::state(&repository.blobs().list_all("x").await.unwrap());
        let chosen: Vec<String> = state.index_blobs().into_iter().map(|blob| blob.name).collect();
        let mut wanted: Vec<&str> = expected(name)["indexes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .map(|name| &*name.to_owned().leak())
            .collect();
        wanted.sort_unstable();
        assert_eq!(chosen, wanted, "{name}");
    }
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(bucket("format-v1-compacted").await, scratch.path()).await.unwrap();
    let listing = repository.blobs().list_all("n").await.unwrap();
    let mut logs = Vec::new();
    for log in repository.blobs().list_all("m").await.unwrap() {
        let stored = repository.blobs().read(&log.name, 1 << 20).await.unwrap();
        logs.push(legacy::CompactionLog::parse(&repository.crypto().open_blob(&log.name, &stored).unwrap()).unwrap());
    }
    assert_eq!((listing.len(), logs.len(), logs[0].inputs.len()), (13, 1, 12));
    let chosen: Vec<String> = legacy::index_blobs(&listing, &logs).into_iter().map(|blob| blob.name).collect();
    assert_eq!(chosen, ["nd262e0abf44767c1900353862fcf4b70"]);
}

#[tokio::test]
async fn epochs_begin_at_the_time_of_their_marker() {
    for (name, epoch, begin) in [("epochs", 6, "2026-11-26T13:36:02"), ("epochs-mid", 4, "2026-11-22T13:36:02")] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = open(bucket(name).await, scratch.path()).await.unwrap();
        let state = epochs::state(&repository.blobs().list_all("x").await.unwrap());
        let marker = state.markers.get(&state.write_epoch).and_then(|marker| marker.modified).unwrap();
        assert_eq!((state.write_epoch, &marker.to_string()[..19]), (epoch, begin));
        let text = expected(name)["epochs"].as_str().unwrap().to_owned();
        assert!(text.starts_with(&format!("Current Epoch: {epoch}\nEpoch Started  {} UTC", begin.replace('T', " "))));
    }
}

#[tokio::test]
async fn a_repository_that_is_being_upgraded_is_refused_with_the_owner_and_the_message() {
    let scratch = tempfile::tempdir().unwrap();
    let error = open(bucket("format-v1-locked").await, scratch.path()).await.unwrap_err();
    let KopiaError::UpgradeInProgress { owner, message } = &error else { panic!("{error}") };
    assert_eq!((owner.as_str(), message.is_empty()), ("golden-owner", false));
    assert_eq!(error.to_string(), format!("the repository is being upgraded by golden-owner: {message}"));
}

#[tokio::test]
async fn a_wrong_password_and_an_empty_bucket_are_told_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let options = crate::fixture::options(scratch.path());
    let wrong = lifeboat_kopia::crypto::Password::new("matrix-passw0rd ".to_owned());
    let error = Repository::open(bucket("layout-flat").await, wrong, options).await.unwrap_err();
    assert_eq!(error.to_string(), "the password does not open the repository in memory");
    let error = open(Arc::new(lifeboat_bucket::Memory::default()), scratch.path()).await.unwrap_err();
    assert_eq!(error.to_string(), "memory holds no kopia repository: there is no blob kopia.repository");
}

/// The upload was killed: its checkpoints have files of which only the beginning is there.
#[tokio::test]
async fn files_that_a_checkpoint_cut_short_are_told_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(bucket("crashed").await, scratch.path()).await.unwrap();
    let mut lengths = Vec::new();
    for snapshot in repository.snapshots().await.unwrap() {
        let document = snapshot.document.unwrap();
        assert_eq!(document.incomplete.as_deref(), Some("checkpoint"));
        let mut errors = Vec::new();
        let found = walk(&repository, &document.root.unwrap(), &mut errors).await;
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.split(".c").next().unwrap()).collect();
        assert_eq!(
            (paths, errors),
            (vec!["tree-slow", "tree-slow/sub", "tree-slow/a-first", "tree-slow/sub/"], vec![])
        );
        let (_, cut) = &found[3];
        assert_eq!(cut.state, EntryState::CutShort { name: "slow.bin".to_owned() });
        assert_eq!(cut.entry.size, 1_993_244_400);
        lengths.push(object::length(repository.contents(), &cut.entry.object.unwrap()).await.unwrap());
    }
    lengths.sort_unstable();
    assert!(lengths[0] > 0 && lengths[0] < lengths[1] && lengths[1] < 1_993_244_400, "{lengths:?}");
}
