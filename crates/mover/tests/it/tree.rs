//! Trees of the file system as rows, and what the golden repositories were made of.

use crate::fixture::{folder, is_root};
use lifeboat_kopia::format::json::Text;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The parts of an entry that are compared.
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

/// The rows of a tree by path, its root as the empty path.
pub(crate) type Rows = BTreeMap<String, Row>;

/// The owner as it is compared: without the right to set it there is nothing to compare.
fn owner(uid: u64, gid: u64) -> (u32, u32) {
    if is_root() { (u32::try_from(uid).unwrap(), u32::try_from(gid).unwrap()) } else { (0, 0) }
}

/// The permissions as they come back: files of others get no setuid and setgid without the right to give files away.
fn mode(entry: &Value) -> u32 {
    let mode = u32::from_str_radix(entry["mode"].as_str().unwrap(), 8).unwrap();
    if is_root() || entry["type"] != "f" { mode } else { mode & 0o1777 }
}

/// The inputs of a tree.
pub(crate) fn inputs(tree: &str) -> Rows {
    let all: Vec<Value> = serde_json::from_slice(&std::fs::read(folder().join("inputs.json")).unwrap()).unwrap();
    // Bytes were written as the characters of the same number.
    let bytes = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    let mut rows = Rows::new();
    for entry in &all {
        let path = Text::from_bytes(&bytes(entry["path"].as_str().unwrap())).as_str().to_owned();
        let Some(path) = path.strip_prefix(tree).filter(|path| path.is_empty() || path.starts_with('/')) else {
            continue;
        };
        let number = |key: &str| entry.get(key).and_then(Value::as_u64).unwrap_or(0);
        let target = entry.get("target").and_then(Value::as_str).map(|text| String::from_utf8(bytes(text)).unwrap());
        let hash = entry.get("sha256").and_then(Value::as_str).map(str::to_owned);
        let row = Row {
            kind: entry["type"].as_str().unwrap().chars().next().unwrap(),
            mode: mode(entry),
            owner: owner(number("uid"), number("gid")),
            modified: entry["mtime_ns"].as_i64().unwrap(),
            size: target.as_ref().map_or(number("size"), |target| target.len() as u64),
            data: target.or(hash).unwrap_or_default(),
        };
        rows.insert(path.trim_start_matches('/').to_owned(), row);
    }
    rows
}

fn row(path: &Path) -> Row {
    let metadata = path.symlink_metadata().unwrap();
    let kind = metadata.file_type();
    let (kind, data) = if kind.is_dir() {
        ('d', String::new())
    } else if kind.is_symlink() {
        ('s', path.read_link().unwrap().to_str().unwrap().to_owned())
    } else {
        let mut digest = Sha256::new();
        let mut file = std::fs::File::open(path).unwrap();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer).unwrap() {
                0 => break,
                count => digest.update(&buffer[..count]),
            }
        }
        ('f', hex::encode(digest.finalize()))
    };
    Row {
        kind,
        mode: metadata.mode() & 0o7777,
        owner: owner(metadata.uid().into(), metadata.gid().into()),
        modified: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
        size: if kind == 'd' { 0 } else { metadata.len() },
        data,
    }
}

fn visit(root: &Path, path: &str, each: &mut impl FnMut(&str, &Path)) {
    let at = if path.is_empty() { root.to_owned() } else { root.join(path) };
    each(path, &at);
    if !at.symlink_metadata().unwrap().is_dir() {
        return;
    }
    for entry in std::fs::read_dir(&at).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let below = if path.is_empty() { name } else { format!("{path}/{name}") };
        visit(root, &below, each);
    }
}

/// All entries of a folder.
pub(crate) fn rows(root: &Path) -> Rows {
    let mut rows = Rows::new();
    visit(root, "", &mut |path, at| {
        rows.insert(path.to_owned(), row(at));
    });
    rows
}

/// The paths of a folder.
pub(crate) fn paths(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    visit(root, "", &mut |path, _| paths.push(path.to_owned()));
    paths.sort();
    paths.into_iter().filter(|path| !path.is_empty()).collect()
}

/// The inode of each entry, and the time at which anything of it was changed.
pub(crate) fn changes(root: &Path) -> BTreeMap<String, (u64, i64, i64)> {
    let mut changes = BTreeMap::new();
    visit(root, "", &mut |path, at| {
        let metadata = at.symlink_metadata().unwrap();
        changes.insert(path.to_owned(), (metadata.ino(), metadata.ctime(), metadata.ctime_nsec()));
    });
    changes
}
