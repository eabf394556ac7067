//! Targets that are no folders, and sources that are no trees.

use crate::device::Loop;
use crate::fixture::{failures, options, run};
use crate::maker::{MODIFIED, Maker};
use lifeboat_kopia::format::directory::DirectoryEntry;
use lifeboat_mover::restore::{Existing, RestoreOptions, SavedDevice, saved_device};
use lifeboat_mover::tree::Source;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::PathBuf;

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
    assert_eq!(["link", "way"].map(|name| fs::read_link(path(name)).unwrap()), ["to", "to"].map(PathBuf::from));
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
    assert_eq!(error, format!("{}: cannot make the folder: No such file or directory (os error 2)", missing.display()));
    assert!(!folder.path().join("no").exists());
    let cut = RestoreOptions { length: Some(5), ..options(&folder.path().join("new")) };
    let error = run(&repository, &tree, &cut).await.unwrap_err().to_string();
    let why = "a length (5 bytes) is given, and the snapshot is a directory";
    assert_eq!(error, format!("cannot restore to {}: {why}", cut.target.display()));
    assert!(!cut.target.exists());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_written_where_it_differs_and_a_small_one_is_left_alone() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let (ones, zeros) = (vec![1; 1 << 16], vec![0; 1 << 16]);
    let image = maker.file_of("/0f3c", &[&ones, &zeros, &ones, &zeros]);
    let root = maker.directory("/0f3c", vec![image.clone()]);
    let mut large = image.clone();
    large.size = 1 << 30;
    let other = maker.file("other", b"x");
    let two = maker.directory("", vec![image.clone(), other]);
    let repository = maker.finish(scratch.path()).await;
    let backing = folder.path().join("backing");
    fs::write(&backing, vec![7; 1 << 19]).unwrap();
    let Some(device) = Loop::over(&backing) else {
        println!("skipped: this process may not make block devices");
        return;
    };
    let read = || {
        let mut bytes = vec![0; 1 << 19];
        fs::File::open(&device.0).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let options = RestoreOptions { sync: true, ..options(&device.0) };
    let path = device.0.display();
    let refused = |why: &str| format!("cannot restore to {path}: {why}");
    let error = run(&repository, &large, &options).await.unwrap_err().to_string();
    let why = "the device has 524288 bytes, the snapshot 1073741824: take a larger device";
    assert_eq!(error, refused(why));
    let error = run(&repository, &two, &options).await.unwrap_err().to_string();
    assert_eq!(error, refused("the snapshot is a directory, the target is none"));
    assert!(read() == vec![7; 1 << 19]);

    let wanted = [&*ones, &zeros, &ones, &zeros, &vec![7; 1 << 18]].concat();
    let report = run(&repository, &root, &options).await.unwrap();
    assert_eq!((failures(&report), report.totals.files), (vec![], 1));
    assert!(read() == wanted);
    let report = run(&repository, &root, &options).await.unwrap();
    assert_eq!((report.totals.bytes_fetched, report.totals.bytes_unchanged), (0, 1 << 18));
    let file = fs::File::options().write(true).open(&device.0).unwrap();
    file.write_all_at(b"changed", (1 << 16) + 5).unwrap();
    drop(file);
    let report = run(&repository, &image, &options).await.unwrap();
    assert_eq!((report.totals.bytes_fetched, report.totals.bytes_unchanged), (1 << 16, 3 << 16));
    assert!(read() == wanted);
    let dense = RestoreOptions { sparse: false, existing: Existing::Overwrite, ..options };
    let report = run(&repository, &root, &dense).await.unwrap();
    assert_eq!((report.totals.bytes_written, report.totals.bytes_unchanged), (1 << 18, 0));
    assert!(read() == wanted);
    // What this node has read of it is not what is there: another one has written it since.
    let kept_open = fs::File::open(&device.0).unwrap();
    assert!(read() == wanted);
    let elsewhere = fs::File::options().write(true).open(&backing).unwrap();
    elsewhere.write_all_at(&[9; 4096], 4096).unwrap();
    elsewhere.sync_all().unwrap();
    let verify = RestoreOptions { sparse: true, existing: Existing::Verify, ..dense };
    let report = run(&repository, &root, &verify).await.unwrap();
    assert_eq!(failures(&report), []);
    assert!(fs::read(&backing).unwrap() == wanted);
    drop(kept_open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_form_of_a_saved_device_is_told_from_files() {
    let scratch = tempfile::tempdir().unwrap();
    let mut maker = Maker::begin(scratch.path()).await;
    let image = maker.file_of("/0f3c", &[&[1; 4096], &[2; 4096]]);
    let by_blocks = maker.file_of("0f3c", &[&[1; 1 << 20]]);
    let longer = maker.file_of("0f3c", &[&[1; 1 << 20], &[2; 1 << 20]]);
    let other = maker.file("other", b"x");
    let roots = [
        maker.directory("/0f3c", vec![image.clone()]),
        maker.directory("", vec![by_blocks.clone()]),
        maker.directory("", vec![by_blocks.clone(), other]),
        maker.directory("", vec![longer]),
    ];
    let source = Source::Kopia(maker.finish(scratch.path()).await);
    let tags = |tags: &[(&str, &str)]| -> BTreeMap<String, String> {
        tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let block = ("snapshot-uploader", "velero-block");
    let saved = |file: &DirectoryEntry, length: u64, may_have_files: bool| {
        Ok(Some(SavedDevice { file: file.into(), length, may_have_files }))
    };
    let of = "a snapshot of the data mover velero-block";
    let size = |size: &str| tags(&[block, ("bdev-source-size", size)]);
    let wrong = |told: &str| {
        let size = if told == "5" { 2 << 20 } else { 1 << 20 };
        Err(format!(
            "{of} has the bytes of its device, filled up to whole MiB: this one has {size}, and its tag bdev-source-size \
             says {told:?}"
        ))
    };
    for (root, tags, expected) in [
        (&roots[0], tags(&[("snapshot-uploader", "kopia")]), saved(&image, 8192, false)),
        (&roots[1], tags(&[]), Ok(None)),
        (&roots[1], size("5000"), saved(&by_blocks, 5000, true)),
        (&roots[1], tags(&[block]), saved(&by_blocks, 1 << 20, true)),
        (&roots[1], size("0"), wrong("0")),
        (&roots[1], size("5"), saved(&by_blocks, 5, true)),
        (&roots[1], size("x"), wrong("x")),
        (&roots[1], size("1048577"), wrong("1048577")),
        (&roots[3], size("5"), wrong("5")),
        (&roots[2], tags(&[]), Ok(None)),
        (&roots[2], tags(&[block]), Err(format!("{of} is a directory with one file, and this one has something else"))),
    ] {
        let found = saved_device(&source, &root.into(), &tags).await.map_err(|e| e.to_string());
        assert_eq!(found, expected, "{tags:?}");
    }
}
