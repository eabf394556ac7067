//! Trees of snapshots as rows, and what they were made of.

use crate::fixture::{folder, unzip};
use bytes::Bytes;
use futures::TryStreamExt;
use lifeboat_kopia::content::read_plan::{Sink, read};
use lifeboat_kopia::format::directory::{DirectoryEntry, EntryType};
use lifeboat_kopia::format::json::Text;
use lifeboat_kopia::object::{bytes, extents};
use lifeboat_kopia::snapshot::{EntryState, TreeEntry, entries};
use lifeboat_kopia::{KopiaError, Repository};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// What is compared of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: char,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) modified: i64,
    pub(crate) size: u64,
    /// The hash of a file, the target of a link.
    pub(crate) data: String,
}

/// The rows of a tree by path, the tree's own name first.
pub(crate) type Rows = BTreeMap<String, Row>;

/// The inputs whose path begins with the name of a tree.
pub(crate) fn inputs(tree: &str) -> Rows {
    let all: Vec<Value> = serde_json::from_slice(&std::fs::read(folder().join("inputs.json")).unwrap()).unwrap();
    // Bytes were written as the characters of the same number.
    let bytes = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    let mut rows = Rows::new();
    for entry in &all {
        let path = entry["path"].as_str().unwrap();
        let path = Text::from_bytes(&bytes(path)).as_str().to_owned();
        if path.split('/').next() != Some(tree) {
            continue;
        }
        let number = |key: &str| entry.get(key).and_then(Value::as_u64).unwrap_or(0);
        let target = entry.get("target").and_then(Value::as_str).map(|text| String::from_utf8(bytes(text)).unwrap());
        let hash = entry.get("sha256").and_then(Value::as_str).map(str::to_owned);
        let row = Row {
            kind: entry["type"].as_str().unwrap().chars().next().unwrap(),
            mode: u32::from_str_radix(entry["mode"].as_str().unwrap(), 8).unwrap(),
            owner: (u32::try_from(number("uid")).unwrap(), u32::try_from(number("gid")).unwrap()),
            modified: entry["mtime_ns"].as_i64().unwrap(),
            size: target.as_ref().map_or(number("size"), |target| target.len() as u64),
            data: target.or(hash).unwrap_or_default(),
        };
        rows.insert(path, row);
    }
    rows
}

/// Gathers pieces of files, each at its place.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) bytes: Mutex<HashMap<String, Vec<u8>>>,
    pub(crate) errors: Mutex<Vec<(String, String)>>,
}

/// The path of a file, and the offset and length of a piece.
pub(crate) type Place = (String, u64, u64);

impl Sink<Place> for Files {
    fn take(&self, bytes: &Bytes, tags: Vec<Place>) -> Result<(), KopiaError> {
        for (path, offset, length) in tags {
            let mut files = self.bytes.lock().unwrap();
            let file = files.entry(path).or_default();
            let (start, length) = (usize::try_from(offset).unwrap(), usize::try_from(length).unwrap());
            if file.len() < start + length {
                file.resize(start + length, 0xee);
            }
            file[start..start + length].copy_from_slice(&bytes[..length]);
        }
        Ok(())
    }

    fn fail(&self, error: KopiaError, tags: Vec<Place>) -> Result<(), KopiaError> {
        let mut errors = self.errors.lock().unwrap();
        errors.extend(tags.into_iter().map(|(path, ..)| (path, error.to_string())));
        Ok(())
    }
}

/// All entries below an entry, by path.
pub(crate) async fn walk(
    repository: &Repository,
    root: &DirectoryEntry,
    errors: &mut Vec<(String, String)>,
) -> Vec<(String, TreeEntry)> {
    let mut found = vec![(root.name.as_str().to_owned(), TreeEntry::new(root.clone()))];
    let mut next = 0;
    while let Some((path, entry)) = found.get(next).cloned() {
        next += 1;
        if entry.entry.entry_type != EntryType::Directory {
            continue;
        }
        let mut children = entries(repository.contents(), &entry.entry.object.unwrap());
        loop {
            match children.try_next().await {
                Ok(Some(child)) => found.push((format!("{path}/{}", child.entry.name.as_str()), child)),
                Ok(None) => break,
                Err(e) => {
                    errors.push((path.clone(), e.to_string()));
                    break;
                }
            }
        }
    }
    found
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Files that are larger than this are read as a stream and not kept.
const LARGE: u64 = 64 << 20;

/// Reads a tree with all its bytes. Files that cannot be read are in `errors` and not in the rows.
pub(crate) async fn read_tree(repository: &Repository, root: &DirectoryEntry) -> (Rows, Vec<(String, String)>) {
    let mut errors = Vec::new();
    let found = walk(repository, root, &mut errors).await;
    let contents = repository.contents();
    let files = Arc::new(Files::default());
    let mut wanted = Vec::new();
    let mut large = HashMap::new();
    for (path, entry) in &found {
        let TreeEntry { entry, state } = entry;
        if entry.entry_type == EntryType::Directory {
            continue;
        }
        assert_eq!(*state, EntryState::Whole, "{path}");
        let object = entry.object.unwrap();
        if entry.size > LARGE {
            let mut digest = Sha256::new();
            let mut stream = bytes(contents, &object);
            while let Some(bytes) = stream.try_next().await.unwrap() {
                digest.update(&bytes);
            }
            large.insert(path.clone(), hex::encode(digest.finalize()));
            continue;
        }
        let mut extents = extents(contents, &object);
        loop {
            match extents.try_next().await {
                Ok(Some(extent)) => wanted.push(extent.wanted((path.clone(), extent.start, extent.length))),
                Ok(None) => break,
                Err(e) => {
                    errors.push((path.clone(), e.to_string()));
                    break;
                }
            }
        }
    }
    let wanted = futures::stream::iter(wanted.into_iter().map(Ok));
    read(contents, wanted, contents.limits(), files.clone()).await.unwrap();
    errors.append(&mut files.errors.lock().unwrap());
    let bytes = files.bytes.lock().unwrap();
    let mut rows = Rows::new();
    for (path, TreeEntry { entry, .. }) in found {
        if errors.iter().any(|(failed, _)| *failed == path) {
            continue;
        }
        let data = || bytes.get(&path).unwrap_or_else(|| panic!("{path} was not read"));
        let (kind, data) = match entry.entry_type {
            EntryType::Directory => ('d', String::new()),
            EntryType::File => ('f', large.get(&path).cloned().unwrap_or_else(|| hash(data()))),
            EntryType::Symlink => ('s', String::from_utf8(data().clone()).unwrap()),
            EntryType::Unknown(word) => panic!("{path}: {word}"),
        };
        let row = Row {
            kind,
            mode: entry.mode,
            owner: (entry.uid, entry.gid),
            modified: entry.modified.0,
            size: if kind == 'd' { 0 } else { entry.size },
            data,
        };
        rows.insert(path, row);
    }
    (rows, errors)
}

/// The bytes of an input, from the archive of all inputs.
pub(crate) fn input(path: &str) -> Vec<u8> {
    let tar = unzip(&folder().join("inputs.tar.gz"));
    let mut archive = tar::Archive::new(tar.as_slice());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path_bytes().as_ref() == path.as_bytes() {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
            return bytes;
        }
    }
    panic!("{path} is no input");
}
