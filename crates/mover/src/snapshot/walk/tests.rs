//! Snapshots of a tree that changes while it is read.

use super::*;
use crate::snapshot::policies::Policies;
use crate::snapshot::root::Root;
use crate::snapshot::{Named, SnapshotOptions};
use lifeboat_bucket::Memory;
use lifeboat_kopia::blobs::layout::Layout;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::format::snapshot::Source;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::snapshot::entries as children;
use lifeboat_kopia::{Clock, OpenOptions, Random, Repository, WriteOptions};
use std::fs::{File, create_dir, remove_dir_all, remove_file, rename, write as write_file};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A snapshot into a repository in memory.
async fn begin(scratch: &Path) -> Arc<Run> {
    let now = AtomicI64::new(1_795_900_000_000_000_000);
    let clock: Clock = Arc::new(move || UnixNanos(now.fetch_add(1_000_000, Ordering::Relaxed)));
    let state = AtomicU64::new(7);
    let random: Random = Arc::new(move |bytes: &mut [u8]| {
        for byte in bytes {
            let next = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            *byte = ((next ^ next >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8;
        }
    });
    let (store, password) = (Arc::new(Memory::default()), Password::new("passw0rd".to_owned()));
    Repository::create(store.clone(), &password, &NewRepository::default(), &random, &Layout::Flat).await.unwrap();
    let options = OpenOptions {
        scratch: scratch.to_owned(),
        clock: clock.clone(),
        memory: 16 << 20,
        threads: 2,
        indexes: IndexSource::IndexBlobs,
    };
    let repository = Repository::open(store, password, options).await.unwrap();
    let (user, host) = ("u".to_owned(), "h".to_owned());
    let options = WriteOptions {
        user: user.clone(),
        host: host.clone(),
        random: random.clone(),
        threads: 2,
        memory: 32 << 20,
        uploads: 4,
    };
    let writer = repository.writer(options).await.unwrap();
    let source = Source { host, user, path: "/tree".to_owned() };
    let policies = Policies::load(&repository.manifests().await.unwrap(), &source).unwrap();
    Arc::new(Run::new(writer, SnapshotOptions::new(source, clock, random), Arc::default(), policies))
}

fn names(named: &Named) -> Vec<(&str, &str)> {
    let mut names: Vec<_> = named.first.iter().map(|entry| (entry.path.as_str(), entry.why.as_str())).collect();
    names.sort_unstable();
    names
}

/// The reason for which an entry is gone.
const DELETED: &str = "it was deleted or renamed before it was read";

/// Lists a directory as a walk does first.
fn list_all(run: &Run, directory: &Directory) -> ListedDirectory {
    let (entries, rules) = list(run, directory, &Arc::new(Rules::default())).unwrap();
    ListedDirectory { entries, rules }
}

fn root(run: &Run, folder: &Path) -> Arc<Directory> {
    Root::open(run, folder).unwrap().directory().clone()
}

/// The first entry of a directory, which is one as well, and is listed.
fn first_below(run: &Run, above: &Arc<Directory>) -> (Arc<Directory>, ListedDirectory) {
    let entry = list_all(run, above).entries.first().unwrap().clone();
    let directory = Arc::new(Directory::below(above, &entry, run).unwrap());
    let listed = list_all(run, &directory);
    (directory, listed)
}

/// The names of a directory that is saved, in their order there, with their lengths.
async fn saved(run: &Run, object: &ObjectId) -> Vec<(String, u64)> {
    run.flush().await.unwrap();
    let contents = run.writer.repository().contents();
    contents.refresh().await.unwrap();
    let found: Vec<_> = children(contents, object).try_collect().await.unwrap();
    found.into_iter().map(|child| (child.entry.name.to_string(), child.entry.size)).collect()
}

fn names_of(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_renamed_in_its_directory_is_saved_under_its_new_name() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    for name in ["b", "file.tmp", "z"] {
        write_file(at(name), name).unwrap();
    }
    for name in ["block-1", "block-2", "block-3.tmp"] {
        create_dir(at(name)).unwrap();
        write_file(at(name).join("chunk"), name).unwrap();
    }
    let run = begin(scratch.path()).await;
    let directory = root(&run, folder.path());
    let listed = list_all(&run, &directory);
    for name in ["block-1", "block-2"] {
        remove_dir_all(at(name)).unwrap();
    }
    rename(at("block-3.tmp"), at("block-3")).unwrap();
    rename(at("file.tmp"), at("file")).unwrap();
    rename(at("z"), at("a")).unwrap();
    let (object, summary) = save_listed(&run, &directory, listed, &[]).await.unwrap();
    assert_eq!((summary.files, summary.directories, summary.failed), (4, 2, 0));
    // The order of the format is kept: directories first, each part by name.
    let expected = [("block-3", 0), ("a", 1), ("b", 1), ("file", 8)];
    assert_eq!(saved(&run, &object).await, names_of(&expected));
    let below = directory.state().entries.iter().find(|entry| entry.name() == "block-3").and_then(|entry| entry.object);
    assert_eq!(saved(&run, &below.unwrap()).await, names_of(&[("chunk", 11)]));
    run.note(|notes, _| {
        let vanished = ["block-1", "block-2", "block-3.tmp", "file.tmp", "z"].map(|name| (name, DELETED));
        assert_eq!((names(&notes.vanished), notes.failed.count), (vanished.to_vec(), 0));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_directory_was_deleted_the_one_above_is_listed_again() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    create_dir(at("block")).unwrap();
    write_file(at("block").join("chunk"), "x").unwrap();
    let run = begin(scratch.path()).await;
    let above = root(&run, folder.path());
    let (directory, listed) = first_below(&run, &above);
    create_dir(at("other")).unwrap();
    rename(at("block").join("chunk"), at("other").join("chunk")).unwrap();
    remove_dir_all(at("block")).unwrap();
    let (_, summary) = save_listed(&run, &directory, listed, &[]).await.unwrap();
    assert_eq!((summary.files, summary.failed, above.state().is_stale), (0, 0, true));
    run.note(|notes, _| assert_eq!(names(&notes.vanished), [("block/chunk", DELETED)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_was_made_anew_is_saved_as_it_is_now() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    create_dir(at("index")).unwrap();
    write_file(at("index").join("old"), "x").unwrap();
    let run = begin(scratch.path()).await;
    let above = root(&run, folder.path());
    let ListedDirectory { entries, rules } = list_all(&run, &above);
    above.state().add_entries(entries);
    let (directory, listed) = first_below(&run, &above);
    remove_dir_all(at("index")).unwrap();
    create_dir(at("index")).unwrap();
    write_file(at("index").join("new"), "xyz").unwrap();
    let itself = directory.state().itself.clone();
    let (object, summary) = save_listed(&run, &directory, listed, &[]).await.unwrap();
    above.finish_below(0, itself, object, summary);
    let entries = list_again(&run, &above, &rules).unwrap();
    save_entries(&run, &above, ListedDirectory { entries, rules }, &[]).await.unwrap();
    let (object, summary) = write(&run, &above, Unfinished::default()).await.unwrap();
    assert_eq!((summary.files, summary.size, summary.failed), (1, 3, 0));
    assert_eq!(saved(&run, &object).await, names_of(&[("index", 0)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_whose_files_were_read_may_go() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    create_dir(at("directory")).unwrap();
    write_file(at("directory").join("gone"), "x").unwrap();
    let run = begin(scratch.path()).await;
    let above = root(&run, folder.path());
    let (directory, ListedDirectory { entries, rules }) = first_below(&run, &above);
    directory.state().add_entries(entries);
    directory.fail(&run, OsStr::new("gone"), &Failed::Gone(DELETED), false);
    directory.close();
    rename(at("directory"), at("away")).unwrap();
    assert_eq!(list_again(&run, &directory, &rules).unwrap().len(), 0);
    run.note(|notes, _| {
        assert_eq!(names(&notes.vanished), [("directory", DELETED), ("directory/gone", DELETED)]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_another_one_when_it_is_opened_again_fails() {
    for (is_replaced, why) in [
        (true, "another program has replaced it meanwhile"),
        (false, "cannot open it again: No such file or directory (os error 2)"),
    ] {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        create_dir(at("directory")).unwrap();
        write_file(at("directory").join("file"), "x").unwrap();
        let run = begin(scratch.path()).await;
        let above = root(&run, folder.path());
        let (directory, listed) = first_below(&run, &above);
        directory.close();
        rename(at("directory"), at("away")).unwrap();
        if is_replaced {
            create_dir(at("directory")).unwrap();
        }
        let (_, summary) = save_listed(&run, &directory, listed, &[]).await.unwrap();
        assert_eq!((summary.files, summary.failed), (0, 1));
        run.note(|notes, _| {
            assert_eq!((names(&notes.failed), notes.vanished.count), (vec![("directory/file", why)], 0));
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_listing_tells_nothing_twice() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for name in ["file", "kept"] {
        write_file(at(name), name).unwrap();
    }
    let run = begin(scratch.path()).await;
    let directory = root(&run, folder.path());
    let listed = list_all(&run, &directory);
    remove_file(at("file")).unwrap();
    let (object, summary) = save_listed(&run, &directory, listed, &[]).await.unwrap();
    assert_eq!((summary.files, summary.failed), (1, 0));
    assert_eq!(saved(&run, &object).await, names_of(&[("kept", 4)]));
    run.note(|notes, _| {
        assert_eq!((names(&notes.special), notes.special.count), (vec![("socket", "it is a socket")], 1));
        assert_eq!((names(&notes.vanished), notes.vanished.count), (vec![("file", DELETED)], 1));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_after_the_list_is_told_and_fails_nothing() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    for name in ["kept", "deleted", "now-a-link", "now-a-directory"] {
        write_file(at(name), name).unwrap();
    }
    for name in ["long", "long-now-a-link"] {
        write_file(at(name), vec![7; 1 << 20]).unwrap();
    }
    symlink("kept", at("link")).unwrap();
    symlink("kept", at("link-now-a-file")).unwrap();
    for name in ["directory", "directory-now-a-file", "moved"] {
        create_dir(at(name)).unwrap();
        write_file(at(name).join("file"), name).unwrap();
    }
    let run = begin(scratch.path()).await;
    let root = || Root::open(&run, folder.path()).unwrap().directory().clone();
    let before = root();
    let (first, summary) = save_listed(&run, &before, list_all(&run, &before), &[]).await.unwrap();
    assert_eq!((summary.files, summary.symlinks, summary.directories), (9, 2, 4));
    run.flush().await.unwrap();
    run.writer.repository().contents().refresh().await.unwrap();
    // None of them is as the first snapshot has it, so that each is read.
    for name in ["kept", "deleted", "now-a-link", "now-a-directory", "long", "long-now-a-link"] {
        File::options().append(true).open(at(name)).unwrap().write_all(b"more").unwrap();
    }
    let after = root();
    let listed = list_all(&run, &after);
    for name in ["deleted", "now-a-link", "now-a-directory", "long", "long-now-a-link", "link", "link-now-a-file"] {
        remove_file(at(name)).unwrap();
    }
    for name in ["directory", "directory-now-a-file"] {
        remove_dir_all(at(name)).unwrap();
    }
    for name in ["now-a-link", "long-now-a-link"] {
        symlink("kept", at(name)).unwrap();
    }
    for name in ["link-now-a-file", "directory-now-a-file"] {
        write_file(at(name), "other").unwrap();
    }
    create_dir(at("now-a-directory")).unwrap();
    rename(at("moved"), at("away")).unwrap();
    // So late that no file can have been written at its time.
    let parent = ParentDirectory { object: first, start: UnixNanos(i64::MAX) };
    let (_, summary) = save_listed(&run, &after, listed, &[parent]).await.unwrap();
    // Symlinks are as they were, and taken over from the first: nobody has looked at them again.
    // What has come into the place of others is saved: two symlinks, a file, and two directories, of which one has a file.
    assert_eq!((summary.files, summary.symlinks, summary.directories, summary.failed), (3, 4, 3, 0));
    let (deleted, replaced) = (DELETED, "another program has put something else into its place");
    run.note(|notes, _| {
        let expected = [
            ("deleted", deleted),
            ("directory", deleted),
            ("directory-now-a-file", replaced),
            ("long", deleted),
            ("long-now-a-link", replaced),
            ("moved", deleted),
            ("now-a-directory", replaced),
            ("now-a-link", replaced),
        ];
        assert_eq!((names(&notes.vanished), notes.vanished.count), (expected.to_vec(), 8));
        assert_eq!((notes.failed.count, notes.passed_over.count), (0, 0));
    });
    assert_eq!((run.stats().error_count, run.stats().ignored_error_count), (0, 0));
    // Without a snapshot before it there are symlinks to read, which are gone as well.
    let mut entries = after.state().entries.clone();
    entries.retain(|entry| entry.kind == Kind::Symlink && entry.name.starts_with(b"link"));
    for entry in &mut entries {
        entry.object = None;
    }
    let links = ListedDirectory { entries, rules: Arc::default() };
    let (_, summary) = save_listed(&run, &root(), links, &[]).await.unwrap();
    assert_eq!((summary.files, summary.symlinks, summary.failed), (4, 2, 0));
    run.note(|notes, _| assert_eq!((notes.vanished.count, notes.failed.count), (10, 0)));
}
