//! Restores that are cut off.

use crate::fixture::{failures, golden, only_root, options, run};
use crate::tree::{Rows, changes, inputs, rows};
use lifeboat_mover::Progress;
use lifeboat_mover::restore::restore;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

fn next(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 20) % bound
}

/// Files that look like those of another time.
fn fill_with_others(target: &Path, wanted: &Rows) {
    for (path, row) in wanted {
        match row.kind {
            'd' => std::fs::create_dir_all(target.join(path)).unwrap(),
            'f' => std::fs::write(target.join(path), vec![0x55; usize::try_from(row.size).unwrap()]).unwrap(),
            _ => std::os::unix::fs::symlink("elsewhere", target.join(path)).unwrap(),
        }
    }
}

/// Asserts that every file that looks finished is finished.
fn check_finished(target: &Path, wanted: &Rows, case: &str) {
    if !target.exists() {
        return;
    }
    for (path, row) in rows(target) {
        let want = &wanted[&path];
        // At the time of what is not finished nothing is believed.
        if row.kind == 'f'
            && (row.size, row.modified) == (want.size, want.modified)
            && want.modified.abs() > 2_000_000_000
        {
            assert_eq!(row.data, want.data, "{case}: {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_is_cut_off_leaves_no_file_that_looks_finished() {
    for (name, tree) in [("comp-zstd-fastest", "tree-a"), ("splitter-dynamic-1m-buzhash", "tree-b")] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = golden(name, scratch.path()).await;
        let root = only_root(&repository).await;
        let wanted = inputs(tree);
        let mut cut_off = 0;
        for seed in 0..12 {
            let folder = tempfile::tempdir().unwrap();
            let target = folder.path().join("t");
            if seed % 2 == 1 {
                fill_with_others(&target, &wanted);
            }
            let mut state = seed;
            for _ in 0..3 {
                let mut polls = next(&mut state, 25) + 1;
                let (options, progress) = (options(&target), Arc::new(Progress::default()));
                let ended = {
                    let mut restoring = pin!(restore(&repository, &root, &options, &progress));
                    poll_fn(|context| {
                        polls -= 1;
                        if polls == 0 { Poll::Ready(None) } else { restoring.as_mut().poll(context).map(Some) }
                    })
                    .await
                };
                // Nothing goes on after that.
                if ended.is_none() {
                    cut_off += 1;
                    let before = target.exists().then(|| changes(&target));
                    check_finished(&target, &wanted, &format!("{name} {seed}"));
                    assert_eq!(target.exists().then(|| changes(&target)), before, "{name} {seed}");
                }
            }
            let report = run(&repository, &root, &options(&target)).await.unwrap();
            assert_eq!(failures(&report), [], "{name} {seed}");
            assert_eq!(rows(&target), wanted, "{name} {seed}");
        }
        assert!(cut_off > 6, "{name} {cut_off}");
    }
}
