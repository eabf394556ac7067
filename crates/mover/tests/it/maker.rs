//! Repositories that are made by hand, with directories that no kopia would write.

use crate::fixture::{bucket, open};
use lifeboat_bucket::Memory;
use lifeboat_kopia::Repository;
use lifeboat_kopia::format::content_id::{ContentHash, ContentId};
use lifeboat_kopia::format::directory::{Directory, DirectoryEntry, EntryType, write};
use lifeboat_kopia::format::index::{Entry, build};
use lifeboat_kopia::format::listing::{self, Piece};
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::time::UnixNanos;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The time of all entries, unless a test sets another one.
pub(crate) const MODIFIED: UnixNanos = UnixNanos(1_600_000_000_123_456_789);

/// A pack that is being filled.
pub(crate) struct Maker {
    store: Arc<Memory>,
    repository: Arc<Repository>,
    pack: Vec<u8>,
    entries: BTreeMap<ContentId, Entry>,
}

const PACK: &str = "p00000000000000000000000000000001-s0000000000000000148";

impl Maker {
    /// Begins with a repository of kopia.
    pub(crate) async fn begin(scratch: &Path) -> Self {
        let store = bucket("comp-zstd-fastest").await;
        let repository = open(store.clone(), scratch).await;
        Self { store, repository, pack: Vec::new(), entries: BTreeMap::new() }
    }

    /// Adds a content.
    pub(crate) fn content(&mut self, prefix: Option<u8>, bytes: &[u8]) -> ContentId {
        let crypto = self.repository.crypto();
        let id = ContentId::new(prefix, crypto.hash(bytes)).unwrap();
        if self.entries.contains_key(&id) {
            return id;
        }
        let sealed = crypto.seal_content(&id, bytes, [7; 12]).unwrap();
        let entry = Entry {
            id,
            timestamp: 1_795_800_000,
            is_deleted: false,
            pack: PACK.to_owned(),
            offset: u32::try_from(self.pack.len()).unwrap(),
            packed_length: u32::try_from(sealed.len()).unwrap(),
            original_length: u32::try_from(bytes.len()).unwrap(),
            compression: 0,
            format_version: 3,
            key: 0,
        };
        self.pack.extend_from_slice(&sealed);
        self.entries.insert(id, entry);
        id
    }

    /// Adds an object of several contents.
    pub(crate) fn object(&mut self, prefix: Option<u8>, parts: &[&[u8]]) -> ObjectId {
        let mut start = 0;
        let mut pieces = Vec::new();
        for part in parts {
            let object = ObjectId::direct(self.content(prefix, part));
            pieces.push(Piece { start, length: part.len() as u64, object });
            start += part.len() as u64;
        }
        if let [one] = pieces.as_slice() {
            return one.object;
        }
        let listing = self.content(Some(prefix.unwrap_or(b'x')), &listing::write(&pieces));
        ObjectId { levels: 1, is_compressed: false, content: listing }
    }

    /// A content that no pack has.
    pub(crate) fn lost() -> ObjectId {
        ObjectId::direct(ContentId::new(None, ContentHash::new(&[0xab; 16]).unwrap()).unwrap())
    }

    pub(crate) fn entry(name: &str, entry_type: EntryType, object: Option<ObjectId>) -> DirectoryEntry {
        let mode = if entry_type == EntryType::Directory { 0o755 } else { 0o644 };
        DirectoryEntry {
            name: name.into(),
            entry_type,
            mode,
            size: 0,
            modified: MODIFIED,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            object,
            summary: None,
        }
    }

    pub(crate) fn file(&mut self, name: &str, bytes: &[u8]) -> DirectoryEntry {
        self.file_of(name, &[bytes])
    }

    /// A file of several contents.
    pub(crate) fn file_of(&mut self, name: &str, parts: &[&[u8]]) -> DirectoryEntry {
        let object = self.object(None, parts);
        let size = parts.iter().map(|part| part.len() as u64).sum();
        DirectoryEntry { size, ..Self::entry(name, EntryType::File, Some(object)) }
    }

    pub(crate) fn link(&mut self, name: &str, target: &str) -> DirectoryEntry {
        let object = ObjectId::direct(self.content(None, target.as_bytes()));
        DirectoryEntry { size: target.len() as u64, ..Self::entry(name, EntryType::Symlink, Some(object)) }
    }

    pub(crate) fn directory(&mut self, name: &str, entries: Vec<DirectoryEntry>) -> DirectoryEntry {
        self.directory_in(name, entries, usize::MAX)
    }

    /// A directory whose document is cut into contents of some length.
    pub(crate) fn directory_in(&mut self, name: &str, entries: Vec<DirectoryEntry>, length: usize) -> DirectoryEntry {
        let bytes = write(&Directory { entries, summary: None });
        let parts: Vec<&[u8]> = bytes.chunks(length.min(bytes.len())).collect();
        let object = self.object(Some(b'k'), &parts);
        Self::entry(name, EntryType::Directory, Some(object))
    }

    /// Puts everything into the repository, and opens it.
    pub(crate) async fn finish(self, scratch: &Path) -> Arc<Repository> {
        let entries: Vec<Entry> = self.entries.into_values().collect();
        let plain = build(2, &entries).unwrap();
        let (hash, sealed) = self.repository.crypto().seal_blob(&plain, [7; 12]).unwrap();
        let blobs = self.repository.blobs();
        blobs.put(PACK, self.pack.into()).await.unwrap();
        blobs.put(&format!("xn0_{hash}-s0000000000000000148-c1"), sealed.into()).await.unwrap();
        open(self.store, scratch).await
    }
}
