//! Indexes of archives that have none in their bucket, kept on this machine, so that what is in such an archive is read once.

use lifeboat_archive::ReadLimits;
use lifeboat_archive::index::Index;
use sha2::{Digest, Sha256};
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// First line of a kept index; another format gets another one.
const FORMAT: &str = "lifeboat.io/kept-index/v1";
/// Bytes that all kept indexes have together, at most; a larger one stays for as long as no other is kept.
const MOST: u64 = 1 << 30;
/// The end of the names of our files: others in the folder are not ours to remove.
const SUFFIX: &str = ".index";

/// A folder with indexes: names and hashes of objects, and nothing else of them. What cannot be read in it counts as absent.
#[derive(Clone, Debug)]
pub struct IndexCache {
    folder: PathBuf,
    most: u64,
}

/// Which archive an index is of: one that is written again is another one.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveVersion<'a> {
    pub(crate) place: &'a str,
    pub(crate) key: &'a str,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
}

impl ArchiveVersion<'_> {
    /// A name of its own.
    fn file(&self) -> String {
        let written = self.modified.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let mut hasher = Sha256::new();
        for part in [self.place, self.key, &self.size.to_string(), &written.to_string()] {
            hasher.update(part.len().to_le_bytes());
            hasher.update(part);
        }
        format!("{}{SUFFIX}", hex::encode(hasher.finalize()))
    }
}

impl IndexCache {
    /// In this folder, which is made when something is kept, for its owner alone.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, most: MOST }
    }

    /// The index of an archive; `None` when it is not there as it was kept.
    pub(crate) fn read(&self, of: &ArchiveVersion<'_>, limits: ReadLimits) -> Option<Index> {
        let bytes = std::fs::read(self.folder.join(of.file())).ok()?;
        let (archive, index) = parts(&bytes)?;
        // They were held against the archive, and not against its copy, when that was made.
        let limits = ReadLimits { total: u64::MAX, entries: u64::MAX, ..limits };
        Index::read(index, archive, limits).ok()
    }

    /// Keeps an index, which belongs to a copy of the archive with so many bytes; then removes the oldest ones, when all together are
    /// too many.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub(crate) fn keep(&self, of: &ArchiveVersion<'_>, copy: u64, index: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        // A temporary file is for its owner alone.
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)?;
        writeln!(file, "{FORMAT} {copy} {}", hex::encode(Sha256::digest(index)))?;
        file.write_all(index)?;
        let name = of.file();
        file.persist(self.folder.join(&name))?;
        self.remove_oldest(&name)
    }

    fn remove_oldest(&self, new: &str) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.ends_with(SUFFIX)) else { continue };
            // Another process may have removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            files.push((name == new, metadata.modified()?, metadata.len(), entry.path()));
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, _, size, _)| size).sum();
        for (is_new, _, size, path) in files {
            if is_new || bytes <= self.most {
                break;
            }
            remove(&path)?;
            bytes -= size;
        }
        Ok(())
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The size of the copy that an index belongs to, and the index, of a file that is whole.
fn parts(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, index) = (std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]);
    let [format, copy, digest] = *line.split(' ').collect::<Vec<_>>() else { return None };
    let is_whole = format == FORMAT && digest == hex::encode(Sha256::digest(index));
    is_whole.then_some(())?;
    Some((copy.parse().ok()?, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_archive::gzip::Packer;
    use lifeboat_archive::tarball::{Assembler, ObjectEntry, Segment};
    use lifeboat_object::GroupResource;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    const AT: SystemTime = SystemTime::UNIX_EPOCH;

    fn of(key: &str) -> ArchiveVersion<'_> {
        ArchiveVersion { place: "bucket", key, size: 7, modified: AT }
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

    fn names(index: &Index) -> Vec<&str> {
        index.rows().map(|row| &*row.name).collect()
    }

    #[test]
    fn what_was_kept_of_an_archive_is_read_again_and_of_another_one_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = IndexCache::new(folder.path().join("a/b"));
        let limits = ReadLimits::default();
        assert!(cache.read(&of("k"), limits).is_none());
        let (size, index) = index();
        cache.keep(&of("k"), size, &index).unwrap();
        assert_eq!(names(&cache.read(&of("k"), limits).unwrap()), ["a"]);
        let later = AT + Duration::from_nanos(1);
        for other in [
            ArchiveVersion { place: "other", ..of("k") },
            ArchiveVersion { key: "other", ..of("k") },
            ArchiveVersion { size: 8, ..of("k") },
            ArchiveVersion { modified: later, ..of("k") },
        ] {
            assert!(cache.read(&other, limits).is_none(), "{other:?}");
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&cache.folder), 0o700);
        assert_eq!(mode(&cache.folder.join(of("k").file())), 0o600);
    }

    #[test]
    fn a_file_that_is_not_whole_counts_as_absent_and_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = IndexCache::new(folder.path().to_owned());
        let (size, index) = index();
        let (path, limits) = (folder.path().join(of("k").file()), ReadLimits::default());
        cache.keep(&of("k"), size, &index).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for broken in [&whole[..whole.len() - 1], &flipped, b"", b"x\n", &whole[1..]] {
            std::fs::write(&path, broken).unwrap();
            assert!(cache.read(&of("k"), limits).is_none());
        }
        cache.keep(&of("k"), size, &index).unwrap();
        assert!(cache.read(&of("k"), limits).is_some());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let (size, index) = index();
        let mut cache = IndexCache::new(folder.path().to_owned());
        let other = folder.path().join("notes.txt");
        std::fs::write(&other, vec![0; 10_000]).unwrap();
        for (age, key) in ["a", "b", "c"].into_iter().enumerate() {
            cache.keep(&of(key), size, &index).unwrap();
            let file = std::fs::File::open(folder.path().join(of(key).file())).unwrap();
            file.set_modified(AT + Duration::from_secs(age as u64)).unwrap();
        }
        let one = std::fs::metadata(folder.path().join(of("a").file())).unwrap().len();
        cache.most = 2 * one;
        cache.keep(&of("d"), size, &index).unwrap();
        let kept = |key: &str| cache.read(&of(key), ReadLimits::default()).is_some();
        assert_eq!(["a", "b", "c", "d"].map(kept), [false, false, true, true]);
        cache.most = 1;
        cache.keep(&of("e"), size, &index).unwrap();
        let kept = |key: &str| cache.read(&of(key), ReadLimits::default()).is_some();
        assert_eq!(["c", "d", "e"].map(kept), [false, false, true]);
        assert!(other.exists());
    }
}
