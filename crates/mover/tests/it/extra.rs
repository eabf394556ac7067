//! Deletion of what the snapshot does not have.

use crate::fixture::{failures, options, run};
use crate::maker::Maker;
use crate::tree::paths;
use lifeboat_kopia::format::directory::{EntryType, Summary};
use lifeboat_mover::restore::RestoreOptions;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Things that no snapshot has, beside those of the tree.
fn fill(target: &Path, outside: &Path) {
    fs::create_dir_all(target.join("d/more/deep")).unwrap();
    fs::create_dir_all(target.join("lost+found")).unwrap();
    fs::write(target.join("d/more/deep/x"), b"x").unwrap();
    fs::write(target.join("extra"), b"x").unwrap();
    fs::write(target.join("broken"), b"x").unwrap();
    fs::write(target.join("busy"), b"x").unwrap();
    symlink(outside, target.join("link")).unwrap();
    symlink(outside, target.join("d/more/link")).unwrap();
    fs::write(outside.join("precious"), b"x").unwrap();
}

const ALL: [&str; 10] =
    ["broken", "busy", "d", "d/inner", "d/more", "d/more/deep", "d/more/deep/x", "d/more/link", "extra", "f"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_snapshot_does_not_have_is_deleted_unless_it_may_have_had_it() {
    let all = || ALL.into_iter().chain(["link", "lost+found"]).map(str::to_owned).collect::<Vec<_>>();
    let left = ["broken", "busy", "d", "d/inner", "f", "lost+found"].map(str::to_owned).to_vec();
    let incomplete = Summary { incomplete: Some("checkpoint".to_owned()), ..Summary::default() };
    let failed = Summary { failed: 1, ..Summary::default() };
    let ignored = Summary { ignored: 1, ..Summary::default() };
    for (summary, delete_extra, expected, deleted, not_cleared) in [
        (None, false, all(), 0, 0),
        (None, true, left.clone(), 3, 0),
        (Some(Summary::default()), true, left, 3, 0),
        // The directory below has no summary, and everything that was in it.
        (
            Some(incomplete),
            true,
            {
                let mut all = all();
                all.retain(|path| !path.starts_with("d/more"));
                all
            },
            1,
            1,
        ),
        (
            Some(failed),
            true,
            {
                let mut all = all();
                all.retain(|path| !path.starts_with("d/more"));
                all
            },
            1,
            1,
        ),
        (
            Some(ignored),
            true,
            {
                let mut all = all();
                all.retain(|path| !path.starts_with("d/more"));
                all
            },
            1,
            1,
        ),
    ] {
        let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let outside = tempfile::tempdir().unwrap();
        let mut maker = Maker::begin(scratch.path()).await;
        let inner = maker.file("inner", b"inner");
        let busy = ".checkpointed.busy.c2ae2362-3219-4918-a585-8b3ae258816b";
        let entries = vec![
            maker.directory("d", vec![inner]),
            maker.file("f", b"f"),
            // What is there of these is better than nothing.
            Maker::entry("broken", EntryType::Unknown("x".to_owned()), None),
            maker.file(busy, b"half"),
        ];
        let mut root = maker.directory("", entries);
        root.summary = summary.clone();
        let repository = maker.finish(scratch.path()).await;
        fill(folder.path(), outside.path());
        let options = RestoreOptions { delete_extra, ..options(folder.path()) };
        let report = run(&repository, &root, &options).await.unwrap();
        assert_eq!(paths(folder.path()), expected, "{summary:?}");
        assert_eq!((report.deleted, report.not_cleared, report.unfinished), (deleted, not_cleared, 1), "{summary:?}");
        assert_eq!(failures(&report), [("broken", "its type \"x\" is not known")]);
        assert_eq!(paths(outside.path()), ["precious"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_whose_listing_is_lost_loses_nothing() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let lost = Maker::entry("d", EntryType::Directory, Some(Maker::lost()));
    let entries = vec![lost, maker.file("f", b"f")];
    let root = maker.directory("", entries);
    let repository = maker.finish(scratch.path()).await;
    fs::create_dir(folder.path().join("d")).unwrap();
    for path in ["d/kept", "gone"] {
        fs::write(folder.path().join(path), b"x").unwrap();
    }
    let options = RestoreOptions { delete_extra: true, ..options(folder.path()) };
    let report = run(&repository, &root, &options).await.unwrap();
    let missing = format!("content {} is missing in the repository", Maker::lost().content);
    assert_eq!(failures(&report), [("d", &*missing)]);
    assert_eq!((report.deleted, report.not_cleared), (1, 1));
    assert_eq!(paths(folder.path()), ["d", "d/kept", "f"]);
}
