//! Keeps on this machine what was read of archives that have no index in their bucket, so that such an archive is read
//! once: indexes, and objects.

use crate::kept_files::KeptFiles;
use lifeboat_archive::ReadLimits;
use lifeboat_archive::index::{Index, Row};
use sha2::{Digest, Sha256};
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;
use tokio::task::spawn_blocking;

/// First words of a kept index; another format gets other ones.
const INDEX: &str = "lifeboat.io/kept-index/v1";
/// First words of the kept contents for an object.
const OBJECT: &str = "lifeboat.io/kept-object/v1";
/// Bytes that all files have together, at most.
const MOST: u64 = 1 << 30;
/// The ends of the names of our files.
const SUFFIXES: &[&str] = &[".index", ".object"];

/// A folder with indexes, and with contents that callers keep for objects. Files in it that cannot be read count as
/// absent.
#[derive(Clone, Debug)]
pub struct ArchiveCache {
    files: KeptFiles,
}

/// The archive that an index is of: one that is written again is another one.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveVersion {
    pub(crate) place: String,
    pub(crate) key: String,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
}

impl ArchiveVersion {
    fn file(&self) -> String {
        let written = self.modified.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        format!("{}.index", digest(&[&self.place, &self.key, &self.size.to_string(), &written.to_string()]))
    }
}

/// The name of the file with the kept contents for the object of a row. It is the same for all archives in which the
/// object has the same bytes.
fn object_file(row: &Row) -> String {
    let (resource, hash) = (row.resource.to_string(), hex::encode(row.hash));
    format!("{}.object", digest(&[&resource, &row.namespace, &row.name, &row.length.to_string(), &hash]))
}

/// Another digest for each list of texts.
fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex::encode(hasher.finalize())
}

impl ArchiveCache {
    /// Creates the cache of this folder, which is made when something is kept, for its owner alone.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { files: KeptFiles::new(folder, MOST, SUFFIXES) }
    }

    /// The kept contents for the object of a row.
    pub async fn object(&self, row: &Row) -> Option<Vec<u8>> {
        let (files, name) = (self.files.clone(), object_file(row));
        let (words, content) = spawn_blocking(move || files.read(&name)).await.ok()??;
        (words == OBJECT).then_some(content)
    }

    /// Keeps this of the object of a row. A folder that cannot be used changes nothing else.
    pub async fn keep_object(&self, row: &Row, content: Vec<u8>) {
        let (files, name) = (self.files.clone(), object_file(row));
        if let Ok(Err(e)) = spawn_blocking(move || files.keep(&name, OBJECT, &content)).await {
            tracing::warn!(error = %e, "what was read of an archive cannot be kept: the archive is read again next time");
        }
    }

    /// The index of an archive; `None` when it is not there as it was kept.
    pub(crate) fn index(&self, of: &ArchiveVersion, limits: ReadLimits) -> Option<Index> {
        let (words, index) = self.files.read(&of.file())?;
        let copy = words.strip_prefix(INDEX)?.strip_prefix(' ')?.parse().ok()?;
        // The bounds were checked on the archive when its copy was made.
        Index::read(index.as_slice(), copy, limits.of_copy()).ok()
    }

    /// Keeps an index, which belongs to a copy of the archive with so many bytes.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub(crate) fn keep_index(&self, of: &ArchiveVersion, copy: u64, index: &[u8]) -> io::Result<()> {
        self.files.keep(&of.file(), &format!("{INDEX} {copy}"), index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_archive::gzip::Packer;
    use lifeboat_archive::tarball::{Assembler, ObjectEntry, Segment};
    use lifeboat_object::GroupResource;
    use std::time::Duration;

    const AT: SystemTime = SystemTime::UNIX_EPOCH;

    fn of(key: &str) -> ArchiveVersion {
        ArchiveVersion { place: "bucket".to_owned(), key: key.to_owned(), size: 7, modified: AT }
    }

    /// The index of an archive with one object, and the size of the archive.
    fn index() -> (u64, Vec<u8>) {
        let (mut assembler, mut segment) = (Assembler::new(), Segment::default());
        let resource = GroupResource::new("", "pods");
        let body = br#"{"metadata":{"name":"a","namespace":"n"}}"#;
        let (version, namespace) = ("v1", Some("n"));
        let object =
            ObjectEntry { resource: &resource, version, preferred: true, namespace, name: "a", body: [body, b""] };
        segment.push_object(&object, 0).unwrap();
        let _ = assembler.append(segment.compress(&mut Packer::new(1)));
        let (_, summary, index) = assembler.finish();
        (summary.size, index)
    }

    #[test]
    fn what_was_kept_of_an_archive_is_read_again_and_of_another_one_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ArchiveCache::new(folder.path().to_owned());
        let limits = ReadLimits::default();
        assert!(cache.index(&of("k"), limits).is_none());
        let (size, index) = index();
        cache.keep_index(&of("k"), size, &index).unwrap();
        let names: Vec<_> = cache.index(&of("k"), limits).unwrap().rows().map(|row| row.name.clone()).collect();
        assert_eq!(names, ["a".into()]);
        for other in [
            ArchiveVersion { place: "other".to_owned(), ..of("k") },
            ArchiveVersion { key: "other".to_owned(), ..of("k") },
            ArchiveVersion { size: 8, ..of("k") },
            ArchiveVersion { modified: AT + Duration::from_nanos(1), ..of("k") },
        ] {
            assert!(cache.index(&other, limits).is_none(), "{other:?}");
        }
        // An index belongs to the copy that it was made with.
        cache.keep_index(&of("k"), size + 1, &index).unwrap();
        assert!(cache.index(&of("k"), limits).is_none());
    }

    #[tokio::test]
    async fn a_kept_object_is_read_again_and_another_state_of_it_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ArchiveCache::new(folder.path().to_owned());
        let (size, index) = index();
        let index = Index::read(index.as_slice(), size, ReadLimits::default()).unwrap();
        let row = index.row(0).unwrap().clone();
        assert_eq!(cache.object(&row).await, None);
        cache.keep_object(&row, b"content".to_vec()).await;
        assert_eq!(cache.object(&row).await, Some(b"content".to_vec()));
        for other in [
            Row { hash: [0; 16], ..row.clone() },
            Row { length: 1, ..row.clone() },
            Row { name: "b".into(), ..row.clone() },
            Row { namespace: "other".into(), ..row.clone() },
            Row { resource: std::sync::Arc::new(GroupResource::new("other", "pods")), ..row.clone() },
        ] {
            assert_eq!(cache.object(&other).await, None, "{other:?}");
        }
        // Which of the members it stands in is that of one archive.
        assert_eq!(cache.object(&Row { member: 7, offset: 9, ..row }).await, Some(b"content".to_vec()));
    }
}
