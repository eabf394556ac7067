//! Targets that are no folders, and sources that are no trees.

use crate::fixture::{failures, options, run};
use crate::maker::{MODIFIED, Maker};
use lifeboat_mover::restore::RestoreOptions;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_or_symlink_goes_to_the_path_that_is_named() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let file = maker.file_of("any", &[b"one", b"two"]);
    let link = maker.link("any", "to");
    let repository = maker.finish(scratch.path()).await;
    let path = |name: &str| folder.path().join(name);
    let report = run(&repository, &file, &options(&path("new"))).await.unwrap();
    assert_eq!((fs::read(path("new")).unwrap(), report.totals.files), (b"onetwo".to_vec(), 1));
    assert_eq!((report.totals.expected_files, report.totals.expected_bytes), (1, 6));
    let before = folder.path().metadata().unwrap().mode();
    assert_eq!(path("new").metadata().unwrap().mtime_nsec(), MODIFIED.0 % 1_000_000_000);
    // In place, through a link of the user's own.
    fs::write(path("old"), b"oneTWO").unwrap();
    symlink("old", path("way")).unwrap();
    let report = run(&repository, &file, &options(&path("way"))).await.unwrap();
    assert_eq!((fs::read(path("old")).unwrap(), report.totals.bytes_fetched), (b"onetwo".to_vec(), 3));
    assert!(path("way").is_symlink());
    run(&repository, &link, &options(&path("link"))).await.unwrap();
    run(&repository, &link, &options(&path("way"))).await.unwrap();
    assert_eq!(
        ["link", "way"].map(|name| fs::read_link(path(name)).unwrap()),
        ["to", "to"].map(std::path::PathBuf::from)
    );
    assert_eq!(folder.path().metadata().unwrap().mode(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_refused_before_anything_is_written() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let (one, two) = (maker.file("one", b"1"), maker.file("two", b"2"));
    let tree = maker.directory("", vec![one.clone(), two]);
    let repository = maker.finish(scratch.path()).await;
    let file = folder.path().join("file");
    fs::write(&file, b"old").unwrap();
    let error = run(&repository, &tree, &options(&file)).await.unwrap_err().to_string();
    assert_eq!(error, format!("cannot restore to {}: the snapshot is a directory, the target is none", file.display()));
    assert_eq!(fs::read(&file).unwrap(), b"old");
    let error = run(&repository, &one, &options(folder.path())).await.unwrap_err().to_string();
    let why = "the snapshot is a file, the target is a directory: add the name of the file";
    assert_eq!(error, format!("cannot restore to {}: {why}", folder.path().display()));
    let missing = folder.path().join("no/such");
    let error = run(&repository, &tree, &options(&missing)).await.unwrap_err().to_string();
    assert_eq!(error, format!("cannot make the target {}: No such file or directory (os error 2)", missing.display()));
    assert!(!folder.path().join("no").exists());
}

/// Velero's form of a device: a directory with one file, which has the path of the device as its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_snapshot_of_a_device_becomes_a_file_of_its_length() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let zeros = vec![0; 8192];
    let image = maker.file_of("/0f3c", &[&[1; 4096], &zeros, &[2; 4096], &zeros]);
    let root = maker.directory("/0f3c", vec![image]);
    let repository = maker.finish(scratch.path()).await;
    let target = folder.path().join("disk.img");
    let length = Some(17_000);
    let options = RestoreOptions { length, ..options(&target) };
    let wanted = [vec![1; 4096], vec![0; 8192], vec![2; 4096], vec![0; 616]].concat();
    for existing in [Some(vec![7; 20_000]), None] {
        if let Some(bytes) = &existing {
            fs::write(&target, bytes).unwrap();
        } else {
            fs::remove_file(&target).unwrap();
        }
        let report = run(&repository, &root, &options).await.unwrap();
        assert_eq!(failures(&report), []);
        assert!(fs::read(&target).unwrap() == wanted);
        let blocks = target.metadata().unwrap().blocks() * 512;
        assert!(blocks <= 12_288, "{blocks}");
    }
}
