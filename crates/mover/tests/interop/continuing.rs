//! Snapshots of one source, of both programs in turn, in one repository.

use crate::fixture::{failures, options, run};
use crate::ground::{PASSWORD, contents, create, newest, open, take, take_with, verify};
use crate::source::{change, make};
use crate::tree::rows;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Stats};
use lifeboat_kopia::verify::VerifyReport;
use lifeboat_mover::snapshot::SnapshotReport;
use lifeboat_testbed::{Kopia, OLD_KOPIA_VERSIONS};
use std::collections::BTreeSet;
use std::path::Path;

fn check_is_whole(report: &SnapshotReport) {
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.warnings.as_slice(), report.changed.count, report.special.count), (&[][..], 0, 0));
}

/// The counters of a snapshot in which all that this one has is taken over. Symlinks have a length only then.
fn all_taken_over(before: &SnapshotDocument, tree: &Path) -> Stats {
    let summary = before.root.as_ref().unwrap().summary.clone().unwrap();
    let links: u64 = rows(tree).values().filter(|row| row.kind == 's').map(|row| row.size).sum();
    Stats {
        total_size: i64::try_from(summary.size + links).unwrap(),
        file_count: 0,
        non_cached_files: 0,
        cached_files: i32::try_from(summary.files + summary.symlinks).unwrap(),
        ..before.stats
    }
}

/// Kopia proves all that is in the repository, and restores the newest snapshot.
fn check_by_kopia(kopia: &Kopia, tree: &Path, folder: &Path) {
    kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).unwrap();
    kopia.run(&["content", "verify", "--download-percent=100"]).unwrap();
    let target = folder.join("restored-by-kopia");
    let path = tree.to_str().unwrap();
    kopia.run(&["restore", path, target.to_str().unwrap(), "--snapshot-time=latest"]).unwrap();
    let (restored, wanted) = (rows(&target), rows(tree));
    for (path, row) in &wanted {
        // Kopia restores neither times of symlinks nor those of directories to the nanosecond in every version.
        let found = restored.get(path).unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!((found.kind, &found.data, found.size), (row.kind, &row.data, row.size), "{path}");
        if row.kind == 'f' {
            assert_eq!((found.mode, found.owner, found.modified), (row.mode, row.owner, row.modified), "{path}");
        }
    }
    assert_eq!(restored.len(), wanted.len());
    std::fs::remove_dir_all(target).unwrap();
}

/// Makes the tree for a version of kopia. Up to 0.19 kopia counts in the totals of a folder only the symlinks that lie right in it, so
/// that all folders above the one with a symlink are other objects than ours: for these versions no symlink lies below the root.
fn make_for(version: &str, tree: &Path) {
    make(tree);
    if ["v0.14.1", "v0.19.0"].contains(&version) {
        std::fs::rename(tree.join("a/dangling"), tree.join("dangling")).unwrap();
    }
}

/// Ours begins, kopia goes on with the same tree and then with a changed one, ours goes on with that.
async fn kopia_continues(version: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    make_for(version, &tree);
    create(&bucket, &NewRepository::default()).await;
    let repository = open(&bucket, folder.path()).await;
    let ours = take(&repository, &tree).await;
    check_is_whole(&ours);
    let first = contents(&repository).await;

    let kopia = Kopia::new(version, PASSWORD).unwrap();
    kopia.connect(&bucket).unwrap();
    check_by_kopia(&kopia, &tree, folder.path());
    let create = ["snapshot", "create", tree.to_str().unwrap()];
    kopia.run(&create).unwrap();
    let theirs = newest(&repository).await;
    assert_eq!(theirs.root, ours.document.root);
    assert_eq!(contents(&repository).await, first, "everything is stored once");
    assert_eq!(theirs.stats.non_cached_files, 0, "nothing was read again");
    // Without the earlier snapshots each file is read, and gives the same contents.
    kopia.run(&[&create[..], &["--force-hash=100"]].concat()).unwrap();
    let theirs = newest(&repository).await;
    assert_eq!((theirs.root.as_ref(), theirs.stats), (ours.document.root.as_ref(), ours.document.stats));
    assert_eq!(contents(&repository).await, first);

    change(&tree);
    kopia.run(&create).unwrap();
    let theirs = newest(&repository).await;
    let second = contents(&repository).await;
    assert!(second.is_superset(&first) && second != first);
    let ours = take(&repository, &tree).await;
    check_is_whole(&ours);
    assert_eq!((ours.document.root, ours.document.stats), (theirs.root.clone(), all_taken_over(&theirs, &tree)));
    assert_eq!((contents(&repository).await, ours.written.packs), (second, 1), "one pack, with the manifest");
    check_by_kopia(&kopia, &tree, folder.path());
    let (report, problems) = verify(&repository).await;
    assert_eq!((problems, report.snapshots), (Vec::<String>::new(), 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kopia_0_23_continues_what_we_begin() {
    kopia_continues("v0.23.1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kopia_0_22_continues_what_we_begin() {
    kopia_continues("v0.22.3").await;
}

/// Kopia begins, ours goes on with the same tree and then with a changed one, kopia goes on with that.
async fn we_continue(version: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    std::fs::create_dir(&bucket).unwrap();
    make_for(version, &tree);
    let kopia = Kopia::new(version, PASSWORD).unwrap();
    kopia.create(&bucket, &[]).unwrap();
    let create = ["snapshot", "create", tree.to_str().unwrap()];
    kopia.run(&create).unwrap();

    let repository = open(&bucket, folder.path()).await;
    let theirs = newest(&repository).await;
    let first = contents(&repository).await;
    let ours = take(&repository, &tree).await;
    check_is_whole(&ours);
    assert_eq!(
        (ours.document.root.as_ref(), ours.document.stats),
        (theirs.root.as_ref(), all_taken_over(&theirs, &tree))
    );
    assert_eq!((contents(&repository).await, ours.parents), (first.clone(), 1));
    let anew = take_with(&repository, &tree, |options| options.incremental = false).await;
    assert_eq!((anew.document.root, anew.document.stats, anew.parents), (theirs.root, theirs.stats, 0));
    assert_eq!(contents(&repository).await, first);

    change(&tree);
    let ours = take(&repository, &tree).await;
    check_is_whole(&ours);
    // The large file is read again, of which one or two contents have changed.
    let second = contents(&repository).await;
    let new: BTreeSet<_> = second.difference(&first).filter(|id| !id.starts_with(['k', 'x'])).collect();
    assert!((5..=7).contains(&new.len()), "{new:?}");
    let target = folder.path().join("target");
    let report = run(&repository, ours.document.root.as_ref().unwrap(), &options(&target)).await.unwrap();
    let (restored, wanted) = (rows(&target), rows(&tree));
    assert_eq!((failures(&report), restored), (vec![], wanted));
    kopia.run(&create).unwrap();
    let theirs = newest(&repository).await;
    assert_eq!((theirs.root, theirs.stats), (ours.document.root.clone(), all_taken_over(&ours.document, &tree)));
    assert_eq!(contents(&repository).await, second);
    check_by_kopia(&kopia, &tree, folder.path());
    let (VerifyReport { snapshots, .. }, problems) = verify(&repository).await;
    assert_eq!((problems, snapshots), (vec![], 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_continue_what_kopia_0_23_begins() {
    we_continue("v0.23.1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_continue_what_kopia_0_22_begins() {
    we_continue("v0.22.3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds three kopia: make test-long"]
async fn long_we_continue_what_older_versions_of_kopia_begin() {
    // kopia 0.10 opens no repository of version 3, and stores of the mode of an entry nothing but the permissions.
    for version in OLD_KOPIA_VERSIONS.into_iter().filter(|version| *version != "v0.10.7") {
        we_continue(version).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds three kopia: make test-long"]
async fn long_older_versions_of_kopia_continue_what_we_begin() {
    // kopia 0.10 opens no repository of version 3, and stores of the mode of an entry nothing but the permissions.
    for version in OLD_KOPIA_VERSIONS.into_iter().filter(|version| *version != "v0.10.7") {
        kopia_continues(version).await;
    }
}
