//! Restores from repositories that restic wrote.

use crate::fixture::{failures, is_root, options};
use lifeboat_bucket::{BlobStore, Memory, PutOptions};
use lifeboat_mover::Progress;
use lifeboat_mover::restore::{RestoreOptions, RestoreReport, restore_from};
use lifeboat_mover::tree::{Source, SourceEntry};
use lifeboat_restic::{OpenOptions, Repository};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../restic/tests/golden")
}

/// A repository as a bucket in memory.
async fn bucket(name: &str) -> Arc<Memory> {
    let file = BufReader::new(std::fs::File::open(folder().join(format!("{name}.tar.gz"))).unwrap());
    let mut archive = tar::Archive::new(flate2::bufread::GzDecoder::new(file));
    let store = Memory::default();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let (key, mut bytes) = (entry.path().unwrap().to_str().unwrap().to_owned(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        store.put(&key, bytes.into(), PutOptions::default()).await.unwrap();
    }
    Arc::new(store)
}

async fn open(store: Arc<Memory>, scratch: &Path) -> Repository {
    let options = OpenOptions { scratch: scratch.to_owned(), memory: 16 << 20, threads: 2 };
    Repository::open(store, b"matrix-passw0rd", options).await.unwrap()
}

/// The root of the newest snapshot.
async fn newest(repository: &Repository) -> SourceEntry {
    let snapshots = repository.snapshots().await.unwrap();
    SourceEntry::root_of_restic(snapshots.last().unwrap().document.as_ref().unwrap().tree)
}

async fn run(repository: &Repository, root: &SourceEntry, options: &RestoreOptions) -> RestoreReport {
    let source = Source::Restic(repository.clone());
    restore_from(&source, root, options, &Arc::new(Progress::default())).await.unwrap()
}

/// Bytes as the characters of the same numbers.
fn characters(bytes: &OsStr) -> String {
    bytes.as_bytes().iter().copied().map(char::from).collect()
}

/// The entries of a folder by path, as `expected.json` has them.
fn entries(root: &Path) -> BTreeMap<String, Value> {
    let (mut all, mut names, mut waiting) = (BTreeMap::new(), HashMap::new(), vec![OsString::new()]);
    while let Some(path) = waiting.pop() {
        let mut children: Vec<OsString> =
            std::fs::read_dir(root.join(&path)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        children.sort();
        for name in children {
            let below = Path::new(&path).join(name);
            let at = root.join(&below);
            let metadata = at.symlink_metadata().unwrap();
            let kind = metadata.file_type();
            let modified = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
            let mut entry = json!({
                "path": characters(below.as_os_str()), "mode": format!("{:04o}", metadata.mode() & 0o7777),
                "uid": metadata.uid(), "gid": metadata.gid(), "modified": modified,
            });
            if kind.is_dir() {
                entry["type"] = "directory".into();
                waiting.push(below.clone().into_os_string());
            } else if kind.is_symlink() {
                entry["type"] = "symlink".into();
                entry["target"] = characters(at.read_link().unwrap().as_os_str()).into();
            } else if kind.is_fifo() {
                entry["type"] = "pipe".into();
            } else {
                entry["type"] = "file".into();
                entry["size"] = metadata.len().into();
                entry["sha256"] = hex::encode(Sha256::digest(std::fs::read(&at).unwrap())).into();
                if metadata.nlink() > 1 {
                    names.entry(metadata.ino()).or_insert_with(Vec::new).push(characters(below.as_os_str()));
                }
            }
            all.insert(characters(below.as_os_str()), entry);
        }
    }
    for same in names.into_values() {
        let first = same.iter().min_by_key(|path| (path.matches('/').count(), (*path).clone())).unwrap().clone();
        for path in same {
            all.get_mut(&path).unwrap()["sameAs"] = first.clone().into();
        }
    }
    all
}

/// The inode of each file.
fn inodes(root: &Path) -> BTreeMap<String, u64> {
    let inode = |path: String| {
        let bytes: Vec<u8> = path.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let inode = root.join(OsStr::from_bytes(&bytes)).symlink_metadata().unwrap().ino();
        (path, inode)
    };
    entries(root).into_keys().map(inode).collect()
}

/// The entries of the tree that was saved, as a version has them: restic 0.14 has lost bytes of targets that are no UTF-8.
fn expected(version: &str) -> BTreeMap<String, Value> {
    let all: Vec<Value> = serde_json::from_slice(&std::fs::read(folder().join("expected.json")).unwrap()).unwrap();
    let mut all: BTreeMap<_, _> =
        all.into_iter().map(|entry| (entry["path"].as_str().unwrap().to_owned(), entry)).collect();
    if version == "v1" {
        all.get_mut("d/dangling").unwrap()["target"] = characters(OsStr::new("\u{fffd}/no")).into();
    }
    all
}

/// The part that this user can compare, without extended attributes, which the file system of the test may not know.
fn comparable(mut entries: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for entry in entries.values_mut() {
        let entry = entry.as_object_mut().unwrap();
        entry.remove("extendedAttributes");
        if !is_root() {
            for key in ["uid", "gid", "mode"] {
                entry.remove(key);
            }
        }
    }
    entries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_velero_saved_with_restic_comes_back_whole() {
    for version in ["v1", "v2"] {
        let (scratch, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let repository = open(bucket(version).await, scratch.path()).await;
        let root = newest(&repository).await;
        let report = run(&repository, &root, &options(target.path())).await;
        assert_eq!(failures(&report), [], "{version}");
        assert_eq!(comparable(entries(target.path())), comparable(expected(version)), "{version}");
        // Again: what is there is left alone, other names of a file too.
        let before = inodes(target.path());
        let report = run(&repository, &root, &options(target.path())).await;
        assert_eq!((failures(&report), report.totals.bytes_fetched), (vec![], 0), "{version}");
        assert_eq!(inodes(target.path()), before, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extended_attributes_come_back_where_the_file_system_has_them() {
    let (scratch, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository = open(bucket("v2").await, scratch.path()).await;
    let root = newest(&repository).await;
    let report = run(&repository, &root, &options(target.path())).await;
    let read = |path: &str, name: &str| {
        let mut value = [0_u8; 64];
        let length = rustix::fs::getxattr(target.path().join(path), name, &mut value);
        length.map_or_else(|_| String::new(), |length| hex::encode(&value[..length]))
    };
    let found = [read("one", "user.origin"), read("d", "user.on-directory")];
    let expected = expected("v2");
    let wanted = [
        expected["one"]["extendedAttributes"]["user.origin"].as_str().unwrap(),
        expected["d"]["extendedAttributes"]["user.on-directory"].as_str().unwrap(),
    ];
    match report.extended_attributes_not_set {
        0 => assert_eq!(found, wanted),
        count => assert_eq!((found, count), ([String::new(), String::new()], 2)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_pack_of_restic_is_told_at_each_file_that_needs_it() {
    let (scratch, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = bucket("v2").await;
    let repository = open(store.clone(), scratch.path()).await;
    let root = newest(&repository).await;
    // The largest holds pieces of files; those of directories are small.
    let packs = store.list(lifeboat_bucket::ListOptions { prefix: "data/".to_owned(), ..Default::default() }).await;
    let packs = packs.unwrap().entries.into_iter().filter_map(|entry| match entry {
        lifeboat_bucket::Entry::Object(listed) => Some((listed.size, listed.key)),
        lifeboat_bucket::Entry::Prefix(_) => None,
    });
    let (_, largest) = packs.max().unwrap();
    store.delete(&[largest]).await.unwrap();
    let report = run(&repository, &root, &options(target.path())).await;
    assert!(report.failed > 0);
    for (path, why) in failures(&report) {
        let is_told = why.starts_with("pack ") && why.ends_with(" is missing in the repository")
            || why.starts_with("it is another name of ");
        assert!(is_told, "{path}: {why}");
    }
    // The rest is there.
    assert_eq!(std::fs::read_link(target.path().join("link")).unwrap(), Path::new("d/e/deep"));
}
