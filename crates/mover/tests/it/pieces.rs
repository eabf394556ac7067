//! Pieces that are fetched and written: those that differ, and no zeros.

use crate::fixture::{failures, golden, only_root, options, run};
use crate::maker::Maker;
use crate::tree::{inputs, rows};
use futures::TryStreamExt;
use lifeboat_kopia::object::{Extent, extents};
use lifeboat_kopia::snapshot::entry_at;
use lifeboat_mover::restore::{EntryFailure, Existing, RestoreOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_large_file_only_the_piece_that_differs_is_fetched() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository = golden("splitter-dynamic-1m-buzhash", scratch.path()).await;
    let root = only_root(&repository).await;
    let target = folder.path().join("t");
    run(&repository, &root, &options(&target)).await.unwrap();
    let path = target.join("big.bin");
    let inode = path.metadata().unwrap().ino();
    let object = entry_at(repository.contents(), &root, "big.bin").await.unwrap().object.unwrap();
    let all: Vec<Extent> = extents(repository.contents(), &object).try_collect().await.unwrap();
    let size = path.metadata().unwrap().len();
    for changed in [&all[0], &all[3], all.last().unwrap()] {
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, changed.start + 5).unwrap();
        file.write_all_at(&[byte[0] ^ 1], changed.start + 5).unwrap();
        let dense = RestoreOptions { sparse: false, ..options(&target) };
        let totals = run(&repository, &root, &dense).await.unwrap().totals;
        let counts = (totals.bytes_fetched, totals.bytes_written, totals.bytes_unchanged);
        assert_eq!(counts, (changed.length, changed.length, size - changed.length));
        assert_eq!(rows(&target), inputs("tree-b"));
    }
    // A file that is too short or too long is mended in place.
    for length in [0, size - 1, size + 5] {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        run(&repository, &root, &options(&target)).await.unwrap();
        assert_eq!(rows(&target), inputs("tree-b"), "{length}");
    }
    assert_eq!(path.metadata().unwrap().ino(), inode);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_are_holes_in_new_files_and_in_those_that_exist() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository = golden("splitter-fixed-1m", scratch.path()).await;
    let root = only_root(&repository).await;
    let target = folder.path().join("t");
    let path = target.join("big.bin");
    let written = || path.metadata().unwrap().blocks() * 512;
    let size = entry_at(repository.contents(), &root, "big.bin").await.unwrap().size;
    let (full, sparse) = (size, size - (4 << 20));
    let dense = RestoreOptions { sparse: false, ..options(&target) };
    let report = run(&repository, &root, &dense).await.unwrap();
    assert!(written() >= full && report.totals.bytes_written == size, "{}", written());
    for existing in [Existing::Overwrite, Existing::Verify] {
        let options = RestoreOptions { existing, ..options(&target) };
        let report = run(&repository, &root, &options).await.unwrap();
        assert!(written() <= sparse, "{existing:?} {}", written());
        assert!(report.totals.bytes_written <= sparse);
        assert_eq!(rows(&target), inputs("tree-b"), "{existing:?}");
        std::fs::write(&path, vec![0xee; usize::try_from(size).unwrap()]).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_piece_that_is_lost_is_told_once_and_everything_else_comes_back() {
    let (scratch, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut maker = Maker::begin(scratch.path()).await;
    let mut large = maker.file_of("large", &[b"one", b"two", b"three"]);
    // Two of its pieces lie in no pack.
    let lost = Maker::lost();
    let piece = |start, length, object| lifeboat_kopia::format::listing::Piece { start, length, object };
    let one = lifeboat_kopia::format::object_id::ObjectId::direct(maker.content(None, b"one"));
    let zone = |object: lifeboat_kopia::format::object_id::ObjectId| lifeboat_kopia::format::object_id::ObjectId {
        is_compressed: true,
        ..object
    };
    let pieces = [piece(0, 3, one), piece(3, 3, zone(lost)), piece(6, 5, zone(lost)), piece(11, 3, one)];
    let listing = maker.content(Some(b'x'), &lifeboat_kopia::format::listing::write(&pieces));
    large.object.as_mut().unwrap().content = listing;
    large.size = 14;
    let mut gone = maker.file("gone", b"gone");
    gone.object = Some(lost);
    let mut long = maker.file("long", b"it is longer");
    long.size = 5;
    let mut short = maker.file("short", b"it is shorter");
    short.size = 50;
    let small = maker.file("small", b"small");
    let root = maker.directory("", vec![large, gone, long, short, small]);
    let repository = maker.finish(scratch.path()).await;
    let target = folder.path().join("t");
    let report = run(&repository, &root, &options(&target)).await.unwrap();
    let missing = format!("content {} is missing in the repository", lost.content);
    let expected = [
        ("gone", &*missing),
        ("large", &missing),
        ("long", "the snapshot has it with 5 bytes, its object has at least 12"),
        ("short", "the snapshot has it with 50 bytes, its object has 13"),
    ];
    assert_eq!(failures(&report), expected);
    assert_eq!(std::fs::read(target.join("small")).unwrap(), b"small");
    // The rest of a large file may be of use, but is not taken for the whole.
    assert_eq!(std::fs::read(target.join("large")).unwrap(), b"one\0\0\0\0\0\0\0\0one");
    assert_eq!(target.join("large").metadata().unwrap().mtime(), 0);
    assert_eq!(report.totals.files, 1);

    let strict = RestoreOptions { stop_at_first_error: true, target: folder.path().join("u"), ..options(&target) };
    let report = run(&repository, &root, &strict).await.unwrap();
    assert_eq!((report.failed, report.failures.len()), (1, 1));
    let none_kept = RestoreOptions { errors_kept: 1, ..options(&folder.path().join("v")) };
    let report = run(&repository, &root, &none_kept).await.unwrap();
    let kept: &[EntryFailure] = &report.failures;
    assert_eq!((report.failed, kept.len()), (4, 1));
}
