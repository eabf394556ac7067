//! Snapshots of trees, and what a file system shows of them.
#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use lifeboat_bucket::{BlobStore, Entry, ListOptions, Memory};
use lifeboat_kopia::blobs::layout::Layout;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::format::snapshot::Source as SnapshotSource;
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::{Clock, OpenOptions, Random, Repository, WriteOptions};
use lifeboat_mount::{Mount, MountOptions, NodeKind, ROOT, Roots, Tree, TreeOptions};
use lifeboat_mover::snapshot::{SnapshotOptions, snapshot};
use lifeboat_mover::tree::{Source, SourceEntry};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Numbers that look random; the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn random() -> Random {
    static STATE: AtomicU64 = AtomicU64::new(7);
    Arc::new(|bytes: &mut [u8]| {
        for byte in bytes {
            let next = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            *byte = ((next ^ next >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8;
        }
    })
}

/// A tree on disk, and a snapshot of it in memory.
struct Ground {
    folder: TempDir,
    store: Arc<Memory>,
    source: Source,
    root: SourceEntry,
}

impl Ground {
    async fn new(fill: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fill(&tree);
        let now = AtomicI64::new(1_795_900_000_000_000_000);
        let clock: Clock = Arc::new(move || UnixNanos(now.fetch_add(1_000_000, Ordering::Relaxed)));
        let store = Arc::new(Memory::default());
        let password = || Password::new("mounted-passw0rd".to_owned());
        Repository::create(store.clone(), &password(), &NewRepository::default(), &random(), &Layout::Flat)
            .await
            .unwrap();
        let options = OpenOptions {
            scratch: folder.path().to_owned(),
            clock: clock.clone(),
            memory: 16 << 20,
            threads: 2,
            indexes: IndexSource::IndexBlobs,
        };
        let repository = Repository::open(store.clone(), password(), options.clone()).await.unwrap();
        let writing = WriteOptions {
            user: "u".to_owned(),
            host: "h".to_owned(),
            random: random(),
            threads: 2,
            memory: 32 << 20,
            uploads: 4,
        };
        let writer = repository.writer(writing).await.unwrap();
        let source = SnapshotSource { host: "h".to_owned(), user: "u".to_owned(), path: "/tree".to_owned() };
        let report =
            snapshot(&writer, &tree, SnapshotOptions::new(source, clock, random()), &Arc::default()).await.unwrap();
        assert!(report.is_whole());
        let repository = Repository::open(store.clone(), password(), options).await.unwrap();
        let root = SourceEntry::from(report.document.root.as_ref().unwrap());
        Self { folder, store, source: Source::Kopia(Arc::new(repository)), root }
    }

    fn tree(&self) -> std::path::PathBuf {
        self.folder.path().join("tree")
    }

    fn mounted(&self, options: TreeOptions) -> Tree {
        Tree::new(self.source.clone(), Roots::Directory(Box::new(self.root.clone())), options)
    }
}

/// Files in folders, some of them in folders of folders, and one of several contents.
fn fill(tree: &Path) {
    let mut dice = Dice(1);
    for folder in 0..30 {
        let folder = tree.join(format!("d{}/e{folder}", folder % 4));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..dice.below(8) {
            let bytes: Vec<u8> = (0..dice.below(3000)).map(|_| dice.below(256) as u8).collect();
            fs::write(folder.join(format!("f{file}")), bytes).unwrap();
        }
    }
    let long: Vec<u8> = (0..20 << 20).map(|_| dice.below(256) as u8).collect();
    fs::write(tree.join("long"), long).unwrap();
    fs::write(tree.join("empty"), "").unwrap();
    fs::write(tree.join(std::ffi::OsStr::from_bytes(b"\xc3\xa4 \n")), "odd").unwrap();
    symlink("d1/e1", tree.join("link")).unwrap();
    fs::set_permissions(tree.join("empty"), fs::Permissions::from_mode(0o4750)).unwrap();
    fs::create_dir(tree.join("nothing")).unwrap();
}

/// An entry as a program sees it: type and permissions, size, time, owner, target of a symlink.
type Row = (u32, u64, i64, i64, u32, u32, Option<OsString>);

fn rows(folder: &Path) -> BTreeMap<OsString, Row> {
    let mut rows = BTreeMap::new();
    let mut waiting = vec![OsString::new()];
    while let Some(path) = waiting.pop() {
        let at = folder.join(&path);
        let found = at.symlink_metadata().unwrap();
        let target = found.is_symlink().then(|| fs::read_link(&at).unwrap().into_os_string());
        let size = if found.is_dir() { 0 } else { found.len() };
        let row = (found.mode(), size, found.mtime(), found.mtime_nsec(), found.uid(), found.gid(), target);
        if found.is_dir() {
            let below = fs::read_dir(&at).unwrap().map(|entry| Path::new(&path).join(entry.unwrap().file_name()));
            waiting.extend(below.map(std::path::PathBuf::into_os_string));
        }
        rows.insert(path, row);
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inode_stays_what_it_was_however_much_was_forgotten() {
    let ground = Ground::new(fill).await;
    let expected = rows(&ground.tree());
    for entries in [0, 3, 40, 1_000_000] {
        let tree = ground.mounted(TreeOptions { entries, bytes: 1 << 20, files_ahead: 1 });
        let (mut inodes, mut dice) = (BTreeMap::from([(OsString::new(), ROOT)]), Dice(entries as u64));
        for _ in 0..800 {
            let paths: Vec<&OsString> = expected.keys().collect();
            let path = paths[dice.below(paths.len() as u64) as usize];
            // By names from the root, as programs go.
            let (mut inode, mut so_far) = (ROOT, OsString::new());
            for name in Path::new(path) {
                (inode, _) = tree.find(inode, name).await.unwrap();
                so_far = Path::new(&so_far).join(name).into_os_string();
                assert_eq!(*inodes.entry(so_far.clone()).or_insert(inode), inode, "{}", so_far.display());
            }
            let known = tree.attributes(inode).await.unwrap();
            let (mode, size, .., target) = &expected[path];
            assert_eq!((u32::from(known.permissions), known.size), (mode & 0o7777, *size), "{}", path.display());
            match known.kind {
                NodeKind::Directory => {
                    let listed = tree.list(inode, 0, usize::MAX).await.unwrap();
                    let names: Vec<OsString> = listed.into_iter().map(|entry| entry.name).collect();
                    let mut below: Vec<OsString> = fs::read_dir(ground.tree().join(path))
                        .unwrap()
                        .map(|entry| entry.unwrap().file_name())
                        .collect();
                    below.sort();
                    assert_eq!(names, below);
                }
                NodeKind::Symlink => {
                    let found = tree.target(inode).await.unwrap();
                    assert_eq!(Some(found.as_ref()), target.as_deref().map(OsStrExt::as_bytes));
                }
                _ => assert_eq!(known.kind, NodeKind::File),
            }
        }
        // Two entries never have one inode.
        let different: std::collections::BTreeSet<u64> = inodes.values().copied().collect();
        assert_eq!(different.len(), inodes.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_part_of_a_file_has_the_bytes_that_were_saved() {
    let ground = Ground::new(fill).await;
    let bytes = fs::read(ground.tree().join("long")).unwrap();
    for files_ahead in [0, 1] {
        let tree = ground.mounted(TreeOptions { files_ahead, bytes: 12 << 20, ..TreeOptions::default() });
        let (inode, _) = tree.find(ROOT, "long".as_ref()).await.unwrap();
        let file = tree.open(inode).await.unwrap();
        let mut dice = Dice(9);
        let (mut forward, end) = (0_u64, bytes.len() as u64);
        for _ in 0..400 {
            let length = dice.below(600_000);
            // Half of the readings go forward, as a program does that copies.
            let from = if dice.below(2) == 0 { forward } else { dice.below(end + 10) };
            let read = tree.read(&file, from, u32::try_from(length).unwrap()).await.unwrap();
            let wanted = from.min(end) as usize..(from + length).min(end) as usize;
            assert!(
                read == Bytes::copy_from_slice(&bytes[wanted.start.min(wanted.end)..wanted.end]),
                "{from} {length}"
            );
            forward = (from + length) % end;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_see_the_tree_as_it_was_saved_and_cannot_change_it() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("not run: it mounts, for which it needs /dev/fuse and root");
        return;
    }
    let ground = Ground::new(fill).await;
    let at = tempfile::tempdir().unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let report = told.clone();
    let options = MountOptions {
        name: "test".to_owned(),
        allows_others: false,
        report: Arc::new(move |text| report.lock().unwrap().push(text)),
    };
    let taken = Mount::begin(ground.mounted(TreeOptions::default()), &ground.tree(), options.clone());
    assert!(
        taken
            .unwrap_err()
            .to_string()
            .ends_with("is not empty, and a mount would hide what is in it: name an empty folder")
    );
    let mut mount = Mount::begin(ground.mounted(TreeOptions::default()), at.path(), options.clone()).unwrap();
    let (tree, folder) = (ground.tree(), at.path().to_owned());
    let compared = tokio::task::spawn_blocking(move || {
        let expected = rows(&tree);
        assert_eq!(rows(&folder), expected);
        for path in expected.iter().filter(|(_, row)| row.0 & 0o170_000 == 0o100_000).map(|(path, _)| path) {
            let (read, saved) = (fs::read(folder.join(path)).unwrap(), fs::read(tree.join(path)).unwrap());
            assert!(read == saved, "{}", path.display());
        }
        let long = fs::File::open(folder.join("long")).unwrap();
        let mut end = [0; 10];
        assert_eq!(long.read_at(&mut end, (20 << 20) - 4).unwrap(), 4);
        for refused in [fs::write(folder.join("new"), "x"), fs::remove_file(folder.join("empty"))] {
            assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(fs::read(folder.join("none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    });
    compared.await.unwrap();
    mount.unmount().unwrap();
    tokio::time::timeout(Duration::from_secs(60), mount.ended()).await.unwrap().unwrap();
    assert_eq!(fs::read_dir(at.path()).unwrap().count(), 0);
    assert_eq!(*told.lock().unwrap(), Vec::<String>::new());
    // Without its data the repository still has names, and says which bytes are lost.
    let page = ground.store.list(ListOptions { prefix: "p".to_owned(), ..ListOptions::default() }).await.unwrap();
    let packs = page.entries.into_iter().map(|entry| match entry {
        Entry::Object(object) => object.key,
        Entry::Prefix(prefix) => panic!("{prefix} is no object"),
    });
    ground.store.delete(&packs.collect::<Vec<_>>()).await.unwrap();
    let mut mount = Mount::begin(ground.mounted(TreeOptions::default()), at.path(), options).unwrap();
    let folder = at.path().to_owned();
    let read = tokio::task::spawn_blocking(move || {
        assert!(fs::read_dir(&folder).unwrap().any(|entry| entry.unwrap().file_name() == "long"));
        [fs::read(folder.join("long")), fs::read(folder.join("long"))].map(|read| read.unwrap_err().raw_os_error())
    });
    assert_eq!(read.await.unwrap(), [Some(rustix::io::Errno::IO.raw_os_error()); 2]);
    mount.unmount().unwrap();
    tokio::time::timeout(Duration::from_secs(60), mount.ended()).await.unwrap().unwrap();
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].starts_with("/long cannot be read: "), "{told:?}");
}
