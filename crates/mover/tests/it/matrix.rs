//! Every snapshot of the matrix comes back as it was. Owners are compared as root only.

use crate::fixture::{failures, golden, is_root, names, options, root, run};
use crate::tree::{changes, inputs, rows};
use lifeboat_mover::restore::{Existing, RestoreOptions};
use std::os::unix::fs::MetadataExt;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_snapshot_comes_back_and_a_second_restore_changes_nothing() {
    let mut restored = 0;
    for name in names() {
        let scratch = tempfile::tempdir().unwrap();
        let repository = golden(&name, scratch.path()).await;
        for snapshot in repository.snapshots().await.unwrap() {
            if !snapshot.is_complete() {
                continue;
            }
            let (tree, root) = root(snapshot);
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join(&tree);
            let options = options(&target);
            let report = run(&repository, &root, &options).await.unwrap();
            assert_eq!(failures(&report), [], "{name}");
            let (found, wanted) = (rows(&target), inputs(&tree));
            if tree == "tree-deep" {
                // Only the first and the last of the many files are recorded.
                assert_eq!((found.len(), wanted.len()), (1503, 5));
                for (path, row) in wanted {
                    assert_eq!(found.get(&path), Some(&row), "{path}");
                }
                assert_eq!(target.join("zeros").metadata().unwrap().blocks(), 0);
            } else {
                assert_eq!(found, wanted, "{name}");
            }
            // Bytes that are no UTF-8 are not in the repository.
            let lossy = if tree == "tree-names" { 3 } else { 0 };
            assert_eq!((report.names_changed, report.unfinished, report.missing_in_snapshot), (lossy, 0, 0), "{name}");
            assert_eq!((report.owners_not_set, report.attributes_not_set, report.not_cleared), (!is_root(), 0, 0));
            let count = |kind| found.values().filter(|row| row.kind == kind).count() as u64;
            let totals = report.totals;
            assert_eq!(
                (totals.files, totals.directories, totals.symlinks),
                (count('f'), count('d'), count('s')),
                "{name}"
            );
            assert_eq!((totals.expected_files, totals.bytes_unchanged), (count('f'), 0), "{name}");
            restored += 1;

            let before = changes(&target);
            for existing in [Existing::Update, Existing::Verify] {
                let again = RestoreOptions { existing, delete_extra: true, ..options.clone() };
                let again = run(&repository, &root, &again).await.unwrap();
                assert_eq!((failures(&again), again.deleted), (vec![], 0), "{name}");
                let counts = (again.totals.files, again.totals.directories, again.totals.symlinks);
                assert_eq!(counts, (totals.files, totals.directories, totals.symlinks), "{name}");
                // What was compressed as a whole (format 1) has no hash that could be compared.
                if existing == Existing::Update || !name.contains("v1") {
                    assert_eq!((again.totals.bytes_written, again.totals.bytes_fetched), (0, 0), "{name} {existing:?}");
                    assert_eq!(changes(&target), before, "{name} {existing:?}");
                }
            }
        }
    }
    assert!(restored >= 57, "{restored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_were_being_uploaded_are_left_out_and_counted() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = golden("crashed", scratch.path()).await;
    let mut unfinished = 0;
    for snapshot in repository.snapshots().await.unwrap() {
        let (_, root) = root(snapshot);
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("t");
        let report = run(&repository, &root, &options(&target)).await.unwrap();
        assert_eq!(failures(&report), []);
        assert_eq!(std::fs::read(target.join("a-first")).unwrap(), b"done");
        assert!(!target.join("sub/slow.bin").exists());
        unfinished += report.unfinished;
    }
    assert_eq!(unfinished, 2);
}
