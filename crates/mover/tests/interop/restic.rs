//! Repositories that restic writes are read.

use crate::fixture::{failures, is_root, options};
use crate::source::{change, make};
use crate::tree::rows;
use lifeboat_bucket::Directory;
use lifeboat_mover::Progress;
use lifeboat_mover::restore::restore_from;
use lifeboat_mover::tree::{Source, SourceEntry};
use lifeboat_restic::{OpenOptions, Repository, ResticError};
use lifeboat_testbed::Restic;
use std::path::Path;
use std::sync::Arc;

const PASSWORD: &str = "static-passw0rd";

async fn open(path: &Path, scratch: &Path, password: &str) -> Result<Repository, ResticError> {
    let options = OpenOptions { scratch: scratch.to_owned(), memory: 64 << 20, threads: 2 };
    Repository::open(Arc::new(Directory::open(path).unwrap()), password.as_bytes(), options).await
}

/// Two snapshots of restic as Velero takes them, the second with a parent, come back as the tree was each time.
async fn reads_what_is_written_by(version: &str, format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    let restic = Restic::new(version, &bucket, PASSWORD).unwrap();
    restic.run(folder.path(), &["init", "--repository-version", format]).unwrap();
    make(&tree);
    let mut wanted = Vec::new();
    for n in 0..2 {
        if n == 1 {
            change(&tree);
        }
        let tag = format!("backup=b{n},ns=shop");
        restic.run(&tree, &["backup", ".", "--host=velero", "--tag", &tag]).unwrap();
        wanted.push(rows(&tree));
    }
    assert_ne!(wanted[0], wanted[1]);

    let wrong = open(&bucket, folder.path(), "another").await.unwrap_err();
    assert!(matches!(wrong, ResticError::WrongPassword { .. }), "{wrong}");
    let repository = open(&bucket, folder.path(), PASSWORD).await.unwrap();
    assert_eq!(repository.locks().await.unwrap(), []);
    let snapshots = repository.snapshots().await.unwrap();
    assert_eq!(snapshots.len(), 2);
    let source = Source::Restic(repository);
    for (n, (snapshot, mut wanted)) in snapshots.into_iter().zip(wanted).enumerate() {
        let document = snapshot.document.unwrap();
        assert_eq!(
            (document.hostname.as_str(), document.tags[0].as_str()),
            ("velero", format!("backup=b{n}").as_str())
        );
        let target = folder.path().join(format!("target-{n}"));
        let root = SourceEntry::root_of_restic(document.tree);
        let progress = Arc::new(Progress::default());
        for _ in 0..2 {
            let report = restore_from(&source, &root, &options(&target), &progress).await.unwrap();
            assert_eq!(failures(&report), []);
        }
        let mut restored = rows(&target);
        // Of the folder itself restic keeps nothing.
        assert!(restored.remove("").is_some() && wanted.remove("").is_some());
        if !is_root() {
            restored.retain(|path, _| !path.starts_with("bits/"));
            wanted.retain(|path, _| !path.starts_with("bits/"));
        }
        assert_eq!(restored, wanted, "snapshot {n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_restic_0_19_writes_comes_back() {
    reads_what_is_written_by("v0.19.1", "2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_restic_0_14_writes_in_version_1_comes_back() {
    reads_what_is_written_by("v0.14.0", "1").await;
}
