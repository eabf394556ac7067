//! Repositories as they are.

use crate::fixture::{PASSWORD, bucket, contents, files, open};
use lifeboat_bucket::Memory;
use lifeboat_restic::{Repository, ResticError, choose};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_opens_with_its_password_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let store = bucket(&files("v2")).await;
    assert!(Repository::is_in(&*store).await.unwrap());
    let wrong = open(store, b"another", scratch.path()).await.unwrap_err();
    assert!(matches!(wrong, ResticError::WrongPassword { .. }), "{wrong}");
    let none = open(Arc::new(Memory::default()), PASSWORD, scratch.path()).await.unwrap_err();
    assert!(matches!(none, ResticError::NotARepository { .. }), "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_does_not_exist_is_refused_with_the_part_that_does() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = open(bucket(&files("v1")).await, PASSWORD, scratch.path()).await.unwrap();
    let snapshots = repository.snapshots().await.unwrap();
    assert_eq!(snapshots.len(), 2);
    let newest = choose(&snapshots, &snapshots[1].id.to_string()[..8]).unwrap();
    assert_eq!(newest, choose(&snapshots, "latest").unwrap());
    let tree = newest.document.as_ref().unwrap().tree;
    let name = |path: &'static str| {
        let repository = repository.clone();
        async move {
            let found = repository.node_at(&tree, path).await;
            found.map(|node| node.map(|node| node.name)).map_err(|error| error.to_string())
        }
    };
    assert_eq!(name("").await, Ok(None));
    assert_eq!(name("/d//e/deep").await, Ok(Some(b"deep".to_vec())));
    let missing = |place: &str| {
        Err(format!("the path {} of the snapshot ({place}) is missing in the repository", "\"d/none/x\""))
    };
    assert_eq!(name("d/none/x").await, missing("/d is a directory without \"none\""));
    let missing =
        "the path \"one/x\" of the snapshot (/one is no directory that could hold \"x\") is missing in the repository";
    assert_eq!(name("one/x").await, Err(missing.to_owned()));
}

/// All files take one piece of memory after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_versions_of_the_format_give_the_same_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut read = Vec::new();
    for version in ["v1", "v2"] {
        let repository = open(bucket(&files(version)).await, PASSWORD, scratch.path()).await.unwrap();
        read.push(contents(&repository).await.unwrap());
    }
    assert_eq!(read[0], read[1]);
    assert_eq!(read[0][b"/names/\xff\xfe".as_slice()], Ok(b"bytes".to_vec()));
    assert!(read[0].len() > 12 && read[0].values().all(Result::is_ok));
}
