//! Snapshots of trees as they may be.

use crate::device::Loop;
use crate::fixture::{failures, options, run};
use crate::tree::rows;
use crate::written::{Written, problems};
use futures::TryStreamExt;
use lifeboat_kopia::format::directory::{EntryType, Summary};
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::object;
use lifeboat_kopia::snapshot::entry_at;
use lifeboat_mover::snapshot::{LostAttributes, Named, SnapshotOptions};
use rustix::fs::{CWD, FileType, Mode, OFlags, XattrFlags, fsetxattr, mkdirat, mknodat, openat};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

fn names(named: &Named) -> Vec<(&str, &str)> {
    assert_eq!(named.count, named.first.len() as u64);
    let mut names: Vec<_> = named.first.iter().map(|entry| (entry.path.as_str(), entry.why.as_str())).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_and_pipes_are_told_and_hide_nothing() {
    let ground = Written::new().await;
    let tree = ground.tree();
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("d/file"), "x").unwrap();
    let wanted = rows(&tree);
    mknodat(CWD, tree.join("d/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = UnixListener::bind(tree.join("socket")).unwrap();
    // Their making has changed the times of the directories.
    let now = rows(&tree.join("d/file")).remove("").unwrap();
    assert_eq!(now, wanted["d/file"]);
    let repository = ground.open().await;
    let report = ground.take(&repository).await;
    assert!(report.is_whole());
    assert_eq!(names(&report.special), [("d/pipe", "it is a named pipe"), ("socket", "it is a socket")]);
    let restored = ground.restored(&repository, report.document.root.as_ref().unwrap()).await;
    assert_eq!(restored.keys().collect::<Vec<_>>(), ["", "d", "d/file"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_format_does_not_have_is_counted() {
    let ground = Written::new().await;
    let tree = ground.tree();
    fs::create_dir_all(tree.join("d")).unwrap();
    for (name, size) in [("small", 1), ("long", 1 << 20), ("plain", 1)] {
        fs::write(tree.join(name), vec![7; size]).unwrap();
    }
    fs::hard_link(tree.join("plain"), tree.join("d/link")).unwrap();
    // Not every file system has them.
    let set = |name: &str| {
        let file = File::open(tree.join(name)).unwrap();
        u64::from(fsetxattr(&file, "user.origin", b"x", XattrFlags::empty()).is_ok())
    };
    let (files, directories) = (set("small") + set("long"), set("d"));
    let repository = ground.open().await;
    let report = ground.take(&repository).await;
    let expected = LostAttributes { hard_links: 2, access_lists: 0, extended_attributes: files + directories };
    assert_eq!(report.lost_attributes, expected);
    // Files that are taken over are not asked.
    let again = ground.take(&repository).await;
    assert_eq!(again.lost_attributes, LostAttributes { extended_attributes: directories, ..expected });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_without_utf_8_are_kept_as_far_as_the_format_can() {
    let ground = Written::new().await;
    let tree = ground.tree();
    fs::create_dir(&tree).unwrap();
    for name in [&b"a\xff"[..], b"\xfe\xfe", b"\xed\xa0\x80", "\u{fffd}".as_bytes()] {
        fs::write(tree.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let repository = ground.open().await;
    let report = ground.take(&repository).await;
    let again = ground.take(&repository).await;
    assert_eq!(again.document.root, report.document.root);
    // A name that has lost bytes is not found again, so its file is read again, and stored once.
    assert_eq!((again.document.stats.cached_files, again.document.stats.non_cached_files), (1, 3));
    assert_eq!(again.written.packs, 1);
    assert_eq!(problems(&repository).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_deeper_than_any_path_is_saved() {
    const DEPTH: u64 = 1500;
    let ground = Written::new().await;
    fs::create_dir(ground.tree()).unwrap();
    let mut directory = File::open(ground.tree()).unwrap();
    for _ in 1..DEPTH {
        mkdirat(&directory, "deep", Mode::from_raw_mode(0o700)).unwrap();
        directory = openat(&directory, "deep", OFlags::DIRECTORY, Mode::empty()).unwrap().into();
    }
    fs::write(ground.tree().join("file"), "x").unwrap();
    let repository = ground.open().await;
    let report = ground.take(&repository).await;
    let summary = report.document.root.as_ref().unwrap().summary.clone().unwrap();
    assert_eq!((report.is_whole(), summary.directories, summary.files), (true, DEPTH, 1));
    let again = ground.take(&repository).await;
    assert_eq!(again.document.root, report.document.root);
}

/// The length of the file that changes.
const BUSY: usize = 64 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_while_it_is_read_is_named() {
    let ground = Written::new().await;
    fs::create_dir(ground.tree()).unwrap();
    let path = ground.tree().join("busy");
    // So large that the thread has its turn while it is read, also where others have the processors.
    fs::write(&path, vec![1; BUSY]).unwrap();
    fs::write(ground.tree().join("quiet"), "x").unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let (begun, wait) = std::sync::mpsc::sync_channel(1);
    let busy = std::thread::spawn({
        let is_over = is_over.clone();
        move || {
            let file = File::options().write(true).open(path).unwrap();
            let mut time = SystemTime::UNIX_EPOCH;
            while !is_over.load(Ordering::Relaxed) {
                time += Duration::from_secs(1);
                file.set_modified(time).unwrap();
                let _ = begun.try_send(());
            }
        }
    });
    wait.recv().unwrap();
    let repository = ground.open().await;
    let report = ground.take(&repository).await;
    is_over.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    assert_eq!(names(&report.changed), [("busy", "it was changed each time while it was read")]);
    assert!(report.is_whole());
    assert_eq!(report.document.root.unwrap().summary.unwrap().size, BUSY as u64 + 1);
    assert_eq!(report.totals.bytes_read, 2 * BUSY as u64 + 1, "it was read twice");
    // It has a time from before it was read, so that the next snapshot reads it again.
    let again = ground.take(&repository).await;
    assert_eq!((again.document.stats.non_cached_files, again.changed.count, again.written.new_contents), (1, 0, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_content_is_gone_is_read_anew_and_whole_again() {
    let ground = Written::new().await;
    let tree = ground.tree();
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("d/kept"), "kept").unwrap();
    fs::write(tree.join("d/lost"), "lost").unwrap();
    let repository = ground.open().await;
    let first = ground.take(&repository).await.document.root.unwrap();
    let lost = entry_at(repository.contents(), &first, "d/lost").await.unwrap().object.unwrap();
    let writer = ground.writer(&repository).await;
    writer.contents().delete(&lost.content).await.unwrap();
    writer.flush().await.unwrap();
    let report = ground.take(&repository).await;
    let why = format!(
        "d/lost is read anew: what an earlier snapshot has of it is not whole in the repository any more: content {} is marked \
         deleted",
        lost.content
    );
    assert_eq!((report.warnings.as_slice(), report.document.root.as_ref()), (&[why][..], Some(&first)));
    assert_eq!((report.document.stats.cached_files, report.document.stats.non_cached_files), (1, 1));
    repository.contents().refresh().await.unwrap();
    assert!(!repository.contents().find(&lost.content).unwrap().unwrap().is_deleted);
    let restored = ground.restored(&repository, &first).await;
    assert_eq!(restored, rows(&tree));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_that_are_not_named_are_counted() {
    let ground = Written::new().await;
    let tree = ground.tree();
    fs::create_dir(&tree).unwrap();
    for name in ["a", "b", "c", "d"] {
        fs::write(tree.join(name), name).unwrap();
    }
    let repository = ground.open().await;
    let first = ground.take(&repository).await.document.root.unwrap();
    let writer = ground.writer(&repository).await;
    for name in ["a", "b", "c"] {
        let lost = entry_at(repository.contents(), &first, name).await.unwrap().object.unwrap();
        writer.contents().delete(&lost.content).await.unwrap();
    }
    writer.flush().await.unwrap();
    let options = SnapshotOptions { errors_kept: 1, ..ground.options() };
    let report = ground.try_take(&repository, &tree, options, &Arc::default()).await.unwrap();
    let [named, counted] = report.warnings.as_slice() else { panic!("{:?}", report.warnings) };
    assert!(named.contains(" is read anew: "), "{named}");
    assert_eq!(counted, "and 2 more warnings, which are not named");
}

/// The listing of the file is whole, a content that it names is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_file_of_which_one_chunk_is_gone_is_read_anew_and_whole_again() {
    let ground = Written::new().await;
    let tree = ground.tree();
    fs::create_dir(&tree).unwrap();
    for (name, seed) in [("kept", 1_u64), ("lost", 2)] {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        fs::write(tree.join(name), (0..20 << 20).map(|_| next()).collect::<Vec<u8>>()).unwrap();
    }
    let repository = ground.open().await;
    let first = ground.take(&repository).await.document.root.unwrap();
    let object = entry_at(repository.contents(), &first, "lost").await.unwrap().object.unwrap();
    let extents: Vec<_> = object::extents(repository.contents(), &object).try_collect().await.unwrap();
    assert!(object.levels == 1 && extents.len() > 2, "{object} {}", extents.len());
    let writer = ground.writer(&repository).await;
    writer.contents().delete(&extents[1].content).await.unwrap();
    writer.flush().await.unwrap();
    let report = ground.take(&repository).await;
    let why = format!(
        "lost is read anew: what an earlier snapshot has of it is not whole in the repository any more: content {} is marked \
         deleted",
        extents[1].content
    );
    assert_eq!((report.warnings.as_slice(), report.document.root.as_ref()), (&[why][..], Some(&first)));
    assert_eq!((report.document.stats.cached_files, report.document.stats.non_cached_files), (1, 1));
    repository.contents().refresh().await.unwrap();
    assert!(!repository.contents().find(&extents[1].content).unwrap().unwrap().is_deleted);
    assert_eq!(ground.take(&repository).await.document.stats.cached_files, 2);
}

/// Whoever may write into a volume can make such a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_hole_is_longer_than_any_object_fails_alone() {
    let ground = Written::with(NewRepository { splitter: "FIXED-128K".to_owned(), ..NewRepository::default() }).await;
    fs::create_dir(ground.tree()).unwrap();
    File::create(ground.tree().join("hole")).unwrap().set_len(4 << 40).unwrap();
    fs::write(ground.tree().join("quiet"), "x").unwrap();
    let repository = ground.open().await;
    let report = ground.take(&repository).await;
    let why = "it has 4398046511104 bytes, and no object of this repository can have more than 2199023255552";
    assert_eq!(names(&report.failed), [("hole", why)]);
    assert_eq!(report.document.root.unwrap().summary.unwrap().files, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_that_lie_too_deep_are_named_and_what_is_above_is_saved() {
    const BOUND: u64 = 2048;
    let ground = Written::new().await;
    fs::create_dir(ground.tree()).unwrap();
    let mut directory = File::open(ground.tree()).unwrap();
    for _ in 0..BOUND + 10 {
        mkdirat(&directory, "d", Mode::from_raw_mode(0o700)).unwrap();
        directory = openat(&directory, "d", OFlags::DIRECTORY, Mode::empty()).unwrap().into();
    }
    fs::write(ground.tree().join("file"), "x").unwrap();
    let repository = ground.open().await;
    let report = ground.take(&repository).await;
    let path = vec!["d"; BOUND as usize + 1].join("/");
    let why = "it lies in more than 2048 directories, and is left out";
    assert_eq!(names(&report.failed), [(&*path, why)]);
    let summary = report.document.root.as_ref().unwrap().summary.clone().unwrap();
    assert_eq!((summary.directories, summary.files, summary.failed), (BOUND + 1, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_is_saved_itself_gives_a_warning_and_no_file() {
    let ground = Written::new().await;
    let tree = ground.tree();
    fs::create_dir_all(tree.join("below")).unwrap();
    fs::write(tree.join("file"), "x").unwrap();
    let repository = ground.open().await;
    fs::write(tree.join("below/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    let below = ground.take(&repository).await;
    let why = "it says of itself that it is a cache";
    assert_eq!((names(&below.caches), below.warnings), (vec![("below", why)], vec![]));
    fs::rename(tree.join("below/CACHEDIR.TAG"), tree.join("CACHEDIR.TAG")).unwrap();
    let itself = ground.take(&repository).await;
    let warning = "the folder itself has a CACHEDIR.TAG, which says that it is a cache: the snapshot is empty; with \
                   ignoreCacheDirs: false in the policy it is saved";
    assert_eq!((names(&itself.caches), itself.warnings), (vec![(".", why)], vec![warning.to_owned()]));
    assert_eq!(itself.document.root.unwrap().summary.unwrap().files, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_tree_is_saved_alone_or_refused() {
    let ground = Written::new().await;
    let at = |name: &str| ground.folder.path().join(name);
    fs::write(at("file"), "bytes").unwrap();
    fs::write(at("long"), vec![3; 1 << 20]).unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    let repository = ground.open().await;
    let take = async |path: &Path| ground.try_take(&repository, path, ground.options(), &PROGRESS).await;
    for (name, size) in [("file", 5), ("long", 1 << 20), ("link", 5)] {
        let report = take(&at(name)).await.unwrap();
        let root = report.document.root.unwrap();
        assert_eq!((&*root.name, &root.entry_type, root.size), (name, &EntryType::File, size));
        let summary = Summary { size, files: 1, max_time: root.modified, ..Summary::default() };
        assert_eq!((root.summary, report.document.stats.dir_count), (Some(summary), 0));
        assert_eq!(object::length(repository.contents(), &root.object.unwrap()).await.unwrap(), size);
    }
    let refused = take(&at("none")).await.unwrap_err().to_string();
    let none = at("none");
    assert_eq!(refused, format!("{}: cannot find it: No such file or directory (os error 2)", none.display()));
    let refused = take("/dev/null".as_ref()).await.unwrap_err().to_string();
    assert_eq!(refused, "/dev/null is no directory, file or block device: it has no bytes");
    let mut nameless = ground.options();
    nameless.source.host.clear();
    let refused = ground.try_take(&repository, &at("file"), nameless, &PROGRESS).await.unwrap_err().to_string();
    assert_eq!(refused, "a snapshot needs a host, a user and a path as its source");
}

static PROGRESS: std::sync::LazyLock<Arc<lifeboat_mover::Progress>> = std::sync::LazyLock::new(Arc::default);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_saved_as_kopia_saves_it_and_comes_back() {
    let ground = Written::new().await;
    let backing = ground.folder.path().join("backing");
    let file = File::create(&backing).unwrap();
    file.set_len(12 << 20).unwrap();
    file.write_all_at(b"in the middle", 7 << 20).unwrap();
    let Some(device) = Loop::over(&backing) else {
        println!("skipped: this process may not make block devices");
        return;
    };
    let repository = ground.open().await;
    let one = || SnapshotOptions { files_at_once: Some(1), ..ground.options() };
    let report = ground.try_take(&repository, &device.0, one(), &Arc::default()).await.unwrap();
    let root = report.document.root.unwrap();
    let summary = root.summary.clone().unwrap();
    assert_eq!((&*root.name, root.mode), (device.0.to_str().unwrap(), 0o777));
    assert_eq!((summary.files, summary.directories, summary.size), (1, 1, 12 << 20));
    let target = ground.folder.path().join("image");
    let report = run(&repository, &root, &options(&target)).await.unwrap();
    assert_eq!(failures(&report), []);
    assert!(fs::read(&target).unwrap() == fs::read(&backing).unwrap());
    let again = ground.try_take(&repository, &device.0, one(), &Arc::default()).await.unwrap();
    // Of the tree only the directory has a new time in it.
    assert_eq!((again.written.new_contents, again.totals.bytes_read), (2, 12 << 20));
}
