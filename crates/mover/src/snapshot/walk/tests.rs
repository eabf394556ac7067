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
    let list_all = |root: &Arc<Directory>| {
        let (entries, rules) = list(&run, root, &Arc::new(Rules::default())).unwrap();
        ListedDirectory { entries, rules }
    };
    let before = root();
    let (first, summary) = save_listed(&run, &before, list_all(&before), &[]).await.unwrap();
    assert_eq!((summary.files, summary.symlinks, summary.directories), (9, 2, 4));
    run.flush().await.unwrap();
    run.writer.repository().contents().refresh().await.unwrap();
    // None of them is as the first snapshot has it, so that each is read.
    for name in ["kept", "deleted", "now-a-link", "now-a-directory", "long", "long-now-a-link"] {
        File::options().append(true).open(at(name)).unwrap().write_all(b"more").unwrap();
    }
    let after = root();
    let listed = list_all(&after);
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
    let (_, summary) = save_listed(&run, &after, listed, &[first]).await.unwrap();
    // Symlinks are as they were, and taken over from the first: nobody has looked at them again.
    assert_eq!((summary.files, summary.symlinks, summary.directories, summary.failed), (1, 2, 1, 0));
    let (deleted, replaced) =
        ("it was deleted before it was read", "another program has put something else into its place");
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
    entries.retain(|entry| entry.kind == Kind::Symlink);
    for entry in &mut entries {
        entry.object = None;
    }
    let links = ListedDirectory { entries, rules: Arc::default() };
    let (_, summary) = save_listed(&run, &root(), links, &[]).await.unwrap();
    assert_eq!((summary.symlinks, summary.failed), (0, 0));
    run.note(|notes, _| assert_eq!((notes.vanished.count, notes.failed.count), (10, 0)));
}
