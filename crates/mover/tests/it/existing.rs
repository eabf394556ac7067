//! Entries that are in the target already.

use crate::fixture::{failures, options, run};
use crate::maker::{MODIFIED, Maker};
use crate::tree::{changes, paths};
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::directory::DirectoryEntry;
use lifeboat_mover::restore::{Existing, RestoreOptions};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

const ALL: [Existing; 4] = [Existing::Update, Existing::Verify, Existing::Overwrite, Existing::Keep];

fn modified() -> std::time::SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(MODIFIED.0).unwrap())
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(modified()).unwrap();
}

/// A tree with a file `f`, a directory `d` with a file, and a symlink `l`.
async fn small(scratch: &Path) -> (Arc<Repository>, DirectoryEntry) {
    let mut maker = Maker::begin(scratch).await;
    let inner = maker.file("inner", b"inner");
    let entries = vec![maker.directory("d", vec![inner]), maker.file("f", b"right"), maker.link("l", "right")];
    let root = maker.directory("", entries);
    (maker.finish(scratch).await, root)
}

const THERE: &str = "it is there already, and what is there is kept";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_believed_by_its_time_hashed_written_anew_or_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let (repository, root) = small(scratch.path()).await;
    // The file that is there has the size and time of the snapshot, but other bytes.
    for (existing, bytes, fails) in [
        (Existing::Update, "wrong", false),
        (Existing::Verify, "right", false),
        (Existing::Overwrite, "right", false),
        (Existing::Keep, "wrong", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("f"), b"wrong");
        let report = run(&repository, &root, &RestoreOptions { existing, ..options(folder.path()) }).await.unwrap();
        let expected = if fails { vec![("f", THERE)] } else { vec![] };
        assert_eq!(failures(&report), expected, "{existing:?}");
        assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), bytes, "{existing:?}");
        assert_eq!(fs::read_to_string(folder.path().join("d/inner")).unwrap(), "inner", "{existing:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_that_unfinished_files_have_is_never_believed() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let mut file = maker.file("f", b"right");
    file.modified.0 = 0;
    let root = maker.directory("", vec![file]);
    let repository = maker.finish(scratch.path()).await;
    let path = folder.path().join("f");
    fs::write(&path, b"\0\0\0\0\0").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
    run(&repository, &root, &options(folder.path())).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"right");
    assert_eq!(path.metadata().unwrap().modified().unwrap(), UNIX_EPOCH);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_of_what_is_there_are_set_and_nothing_is_fetched() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (repository, root) = small(scratch.path()).await;
    run(&repository, &root, &options(folder.path())).await.unwrap();
    let before = changes(folder.path());
    fs::set_permissions(folder.path().join("f"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(folder.path().join("d"), fs::Permissions::from_mode(0o500)).unwrap();
    let now = File::open(folder.path().join("d")).unwrap();
    now.set_modified(UNIX_EPOCH).unwrap();
    let report = run(&repository, &root, &options(folder.path())).await.unwrap();
    assert_eq!((report.totals.bytes_fetched, report.totals.bytes_written, failures(&report)), (0, 0, vec![]));
    let state = |path: &str| {
        let metadata = folder.path().join(path).metadata().unwrap();
        (metadata.mode() & 0o7777, metadata.modified().unwrap())
    };
    assert_eq!((state("f"), state("d")), ((0o644, modified()), (0o755, modified())));
    assert_eq!(changes(folder.path())["f"].0, before["f"].0);
    // Without times and permissions they stay.
    let folder = tempfile::tempdir().unwrap();
    let plain = RestoreOptions { times: false, permissions: false, owners: false, ..options(folder.path()) };
    run(&repository, &root, &plain).await.unwrap();
    assert!(folder.path().join("f").metadata().unwrap().modified().unwrap() > modified());
    assert_eq!(fs::read(folder.path().join("f")).unwrap(), b"right");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_two_names_is_replaced_and_the_other_name_keeps_its_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let (repository, root) = small(scratch.path()).await;
    for existing in [Existing::Update, Existing::Verify, Existing::Overwrite] {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let other = outside.path().join("other");
        fs::write(&other, b"mine!").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(&other, folder.path().join("f")).unwrap();
        let report = run(&repository, &root, &RestoreOptions { existing, ..options(folder.path()) }).await.unwrap();
        assert_eq!(failures(&report), [], "{existing:?}");
        assert_eq!(fs::read(folder.path().join("f")).unwrap(), b"right", "{existing:?}");
        let metadata = other.metadata().unwrap();
        assert_eq!(
            (fs::read(&other).unwrap(), metadata.mode() & 0o7777, metadata.nlink()),
            (b"mine!".to_vec(), 0o600, 1)
        );
    }
}

/// An entry in the place of one of another type.
#[derive(Debug, Clone, Copy)]
enum Obstacle {
    File,
    Link,
    Empty,
    Full,
}

fn make(path: &Path, obstacle: Obstacle, outside: &Path) {
    match obstacle {
        Obstacle::File => fs::write(path, b"old").unwrap(),
        Obstacle::Link => symlink(outside, path).unwrap(),
        Obstacle::Empty => fs::create_dir(path).unwrap(),
        Obstacle::Full => {
            fs::create_dir_all(path.join("a/b")).unwrap();
            fs::write(path.join("a/b/c"), b"old").unwrap();
            symlink(outside, path.join("a/out")).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_type_is_replaced_but_no_directory_that_is_not_empty() {
    let scratch = tempfile::tempdir().unwrap();
    let (repository, root) = small(scratch.path()).await;
    let full = "a directory that is not empty is in its place; it is removed only where entries that the snapshot does not have are deleted";
    for existing in ALL {
        for (name, obstacles) in [
            ("d", &[Obstacle::File, Obstacle::Link][..]),
            ("f", &[Obstacle::Link, Obstacle::Empty, Obstacle::Full]),
            ("l", &[Obstacle::File, Obstacle::Empty, Obstacle::Full]),
        ] {
            for (obstacle, delete_extra) in obstacles.iter().flat_map(|one| [(*one, false), (*one, true)]) {
                let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
                fs::write(outside.path().join("inner"), b"precious").unwrap();
                make(&folder.path().join(name), obstacle, outside.path());
                let options = RestoreOptions { existing, delete_extra, ..options(folder.path()) };
                let report = run(&repository, &root, &options).await.unwrap();
                let expected = match (existing, obstacle) {
                    (Existing::Keep, _) => vec![(name, THERE)],
                    (_, Obstacle::Full) if !delete_extra => vec![(name, full)],
                    _ => vec![],
                };
                let case = format!("{existing:?} {name} {obstacle:?} {delete_extra}");
                assert_eq!(failures(&report), expected, "{case}");
                if expected.is_empty() {
                    assert_eq!(paths(folder.path()), ["d", "d/inner", "f", "l"], "{case}");
                }
                assert_eq!(fs::read(outside.path().join("inner")).unwrap(), b"precious", "{case}");
                assert_eq!(paths(outside.path()), ["inner"], "{case}");
            }
        }
    }
}
