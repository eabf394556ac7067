//! Repositories that want to write elsewhere, or to exhaust something.

use crate::fixture::{failures, options, run};
use crate::maker::{MODIFIED, Maker};
use crate::tree::paths;
use lifeboat_kopia::format::directory::{DirectoryEntry, EntryType};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_lead_elsewhere_are_refused_and_their_siblings_come_back() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let mut entries = Vec::new();
    for name in ["", ".", "..", "../up", "/etc/x", "a/b", "a\0b"] {
        entries.push(maker.file(name, b"evil"));
    }
    let inner = maker.file("inner", b"evil");
    entries.push(maker.directory("../dir", vec![inner]));
    entries.push(maker.link("../link", "evil"));
    entries.push(maker.file(&"n".repeat(256), b"long"));
    entries.push(maker.link("long", &"t".repeat(5000)));
    entries.push(maker.link("none", ""));
    entries.push(Maker::entry("unknown", EntryType::Unknown("b".to_owned()), Some(Maker::lost())));
    entries.push(Maker::entry("nothing", EntryType::File, None));
    entries.push(maker.file("good", b"good"));
    let root = maker.directory("", entries);
    let repository = maker.finish(scratch.path()).await;
    let target = folder.path().join("t");
    let report = run(&repository, &root, &options(&target)).await.unwrap();
    let slash = "its name has a slash";
    let long = "n".repeat(256);
    let expected = [
        ("", "its name is empty"),
        (".", "its name stands for another directory"),
        ("..", "its name stands for another directory"),
        ("../dir", slash),
        ("../link", slash),
        ("../up", slash),
        ("/etc/x", slash),
        ("a\0b", "its name has a zero byte"),
        ("a/b", slash),
        ("long", "its target has 5000 bytes, which no symlink can have"),
        (&*long, "cannot create it: File name too long (os error 36)"),
        ("none", "its target has 0 bytes, which no symlink can have"),
        ("nothing", "it refers to no object that can be read"),
        ("unknown", "its type \"b\" is not known"),
    ];
    assert_eq!(failures(&report), expected);
    assert_eq!(paths(folder.path()), ["t", "t/good"]);
}

/// A symlink and a directory of the same name, in both orders; and a symlink that was in the target before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_through_a_symlink() {
    let twice = "the directory of the snapshot has this name more than once; its last entry counts";
    for is_link_last in [false, true] {
        for is_there in [false, true] {
            let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let outside = tempfile::tempdir().unwrap();
            fs::write(outside.path().join("x"), b"mine").unwrap();
            let mut maker = Maker::begin(scratch.path()).await;
            let inner = maker.file("x", b"evil");
            let link = maker.link("a", outside.path().to_str().unwrap());
            let directory = maker.directory("a", vec![inner.clone()]);
            let entries = if is_link_last { vec![directory, link] } else { vec![link, directory] };
            let file = maker.file("f", b"evil");
            let root = maker.directory("", [entries, vec![file]].concat());
            let repository = maker.finish(scratch.path()).await;
            let target = folder.path().join("t");
            fs::create_dir(&target).unwrap();
            if is_there {
                symlink(outside.path(), target.join("a")).unwrap();
                symlink(outside.path().join("x"), target.join("f")).unwrap();
            }
            let report = run(&repository, &root, &options(&target)).await.unwrap();
            assert_eq!(failures(&report), [("a", twice)]);
            assert_eq!(fs::read(outside.path().join("x")).unwrap(), b"mine");
            assert_eq!(paths(outside.path()), ["x"]);
            let expected: &[&str] = if is_link_last { &["a", "f"] } else { &["a", "a/x", "f"] };
            assert_eq!(paths(&target), expected);
            assert!(target.join("f").symlink_metadata().unwrap().is_file());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_entries_of_one_name_the_last_counts_also_in_a_large_directory() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let mut entries: Vec<DirectoryEntry> = vec![maker.file("twice", b"first")];
    for number in 0..2000 {
        entries.push(maker.file(&format!("n{number:04}"), number.to_string().as_bytes()));
    }
    entries.push(maker.file("twice", b"last"));
    let root = maker.directory_in("", entries, 10_000);
    assert_eq!(root.object.unwrap().levels, 1);
    let repository = maker.finish(scratch.path()).await;
    let report = run(&repository, &root, &options(folder.path())).await.unwrap();
    assert_eq!((report.failed, &*report.failures[0].path, report.totals.files), (1, "twice", 2001));
    assert_eq!(fs::read(folder.path().join("twice")).unwrap(), b"last");
    assert_eq!(fs::read(folder.path().join("n1999")).unwrap(), b"1999");
}

/// Far deeper than the listings and directories that are open at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_that_is_too_deep_ends_at_its_bound_and_all_above_is_finished() {
    const BOUND: usize = 2048;
    const EVERY: usize = 256;
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let mut entry = maker.directory("d", Vec::new());
    for depth in (0..=BOUND).rev() {
        let mut entries = vec![entry];
        if depth % EVERY == 0 {
            let inner = maker.file("f", depth.to_string().as_bytes());
            entries.insert(0, maker.directory("a", vec![inner.clone()]));
            entries.push(maker.file("z", depth.to_string().as_bytes()));
        }
        entry = maker.directory("d", entries);
    }
    let repository = maker.finish(scratch.path()).await;
    let report = run(&repository, &entry, &options(folder.path())).await.unwrap();
    let why = "it lies in more than 2048 directories, and is left out";
    let deepest = ["d"; BOUND + 1].join("/");
    assert_eq!(failures(&report), [(&*format!("{}/a", ["d"; BOUND].join("/")), why), (&*deepest, why),]);
    assert_eq!((report.totals.directories, report.totals.files), (BOUND as u64 + 1 + 8, 8 + 9));
    let mut path = folder.path().to_owned();
    for depth in 0..900 {
        let metadata = path.metadata().unwrap();
        assert_eq!(metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(), MODIFIED.0, "{depth}");
        if depth % EVERY == 0 {
            assert_eq!(fs::read_to_string(path.join("a/f")).unwrap(), depth.to_string());
            assert_eq!(fs::read_to_string(path.join("z")).unwrap(), depth.to_string());
        }
        path.push("d");
    }
}
