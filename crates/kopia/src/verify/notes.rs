//! Notes of what a verification has read, by which the next one goes on where it was cut off.
//!
//! A note is the keyed hash of a content and of its place in a pack. Packs never change, so a content that maintenance has
//! moved since has no note, and is read again. The notes go when the verification has ended.

use super::report::VerifyOptions;
use crate::content::index_set::Record;
use crate::crypto::Crypto;
use crate::format::time::{DAY, UnixNanos};
use crate::object::Extent;
use crate::{KopiaError, Repository};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The age up to which notes count, in nanoseconds: bytes may go bad after they were read.
const KEPT: i64 = 7 * DAY;
/// The most contents that are noted, in 32 MiB.
const MOST: usize = 1 << 22;
/// The first bytes of a file; the time of its beginning follows.
const MAGIC: [u8; 8] = *b"LBVERIF1";
/// The bytes before the notes.
const HEADER: usize = 16;
/// The bytes of a note. Of 50 million contents and as many notes as there can be, one in 100,000 verifications mistakes one.
const NOTE: usize = 8;
/// The end of the names of files.
const SUFFIX: &str = "verification";

/// Notes of a verification: of the one that was cut off, and of the one that goes on.
#[derive(Debug)]
pub struct VerifyNotes {
    path: PathBuf,
    begun: UnixNanos,
    /// The notes that were there, sorted.
    earlier: Vec<u64>,
    log: Mutex<Log>,
}

/// The file to which notes are added.
#[derive(Debug)]
struct Log {
    file: File,
    /// The notes for which there is room.
    left: usize,
    failure: Option<String>,
}

impl VerifyNotes {
    /// Opens the notes of the verification with these options in a folder, which is made where it is missing. Those that are
    /// more than seven days old are removed; with `is_anew` all of this verification are.
    ///
    /// # Errors
    /// A folder or file that cannot be made or read.
    pub fn open(
        folder: &Path,
        repository: &Repository,
        options: &VerifyOptions,
        is_anew: bool,
    ) -> Result<Self, KopiaError> {
        let now = repository.contents().now();
        Self::open_at(&folder.join(file_name(repository, options)), now, is_anew)
    }

    fn open_at(path: &Path, now: UnixNanos, is_anew: bool) -> Result<Self, KopiaError> {
        let failed =
            |attempt: &'static str| move |source| KopiaError::Scratch { attempt, path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("make the folder of notes"))?;
            remove_old(folder, now);
        }
        let mut options = File::options();
        options.read(true).append(true).create(true).mode(0o600);
        let mut file = options.open(path).map_err(failed("open notes"))?;
        let found = if is_anew { None } else { read_notes(&file, now).map_err(failed("read notes"))? };
        let (begun, mut earlier) = found.unwrap_or((now, Vec::new()));
        // A note that was cut off would shift all behind it.
        let length = if earlier.is_empty() { 0 } else { HEADER + earlier.len() * NOTE };
        file.set_len(length as u64).map_err(failed("cut notes"))?;
        if earlier.is_empty() {
            let header = [MAGIC, now.0.to_le_bytes()].concat();
            file.write_all(&header).map_err(failed("write notes"))?;
        }
        let log = Mutex::new(Log { file, left: MOST.saturating_sub(earlier.len()), failure: None });
        earlier.sort_unstable();
        let begun = if earlier.is_empty() { now } else { begun };
        Ok(Self { path: path.to_owned(), begun, earlier, log })
    }

    /// The beginning of the verification that was cut off; `None` where there is none.
    pub fn goes_on_from(&self) -> Option<UnixNanos> {
        (!self.earlier.is_empty()).then_some(self.begun)
    }

    /// The reason for which nothing more is noted, where a write has failed.
    pub fn failure(&self) -> Option<String> {
        self.log().failure.clone()
    }

    /// True for a content that was read before.
    pub(super) fn has(&self, note: u64) -> bool {
        self.earlier.binary_search(&note).is_ok()
    }

    /// Notes a content. It is there when the process is killed; a failure ends the notes and not the verification.
    pub(super) fn add(&self, note: u64) {
        let mut log = self.log();
        if log.left == 0 {
            return;
        }
        log.left -= 1;
        if let Err(error) = log.file.write_all(&note.to_le_bytes()) {
            log.left = 0;
            log.failure = Some(format!("write notes into {}: {error}", self.path.display()));
        }
    }

    /// Removes the notes of a verification that has ended: the next one reads everything.
    pub(super) fn remove(&self) {
        // A file that stays has nothing in it.
        let _ = self.log().file.set_len(0);
        let _ = std::fs::remove_file(&self.path);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The note of a content as an extent wants it, at this place of this pack.
pub(super) fn note(crypto: &Crypto, record: &Record, pack: &str, extent: &Extent) -> u64 {
    let mut bytes = format!("{} {pack} ", record.id).into_bytes();
    for number in [record.offset, record.packed_length, record.original_length, record.compression] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(extent.length.to_le_bytes());
    bytes.extend([record.format_version, record.key, u8::from(extent.is_compressed)]);
    let hash = crypto.hash(&bytes);
    // A hash has at least 16 bytes.
    hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// The name of the file: another one for each repository and choice of files.
fn file_name(repository: &Repository, options: &VerifyOptions) -> String {
    let mut bytes = repository.format().unique_id.clone();
    bytes.extend(options.files_percent.to_bits().to_le_bytes());
    bytes.extend(options.seed.to_le_bytes());
    bytes.push(u8::from(options.snapshots.is_some()));
    for id in options.snapshots.iter().flatten() {
        bytes.extend(id.as_bytes());
        bytes.push(b'\n');
    }
    let hash = repository.crypto().hash(&bytes);
    format!("{}.{SUFFIX}", hex::encode(hash.as_bytes()))
}

/// The beginning and the notes of a file; `None` where they are too old, or of something else.
fn read_notes(file: &File, now: UnixNanos) -> io::Result<Option<(UnixNanos, Vec<u64>)>> {
    let mut bytes = Vec::new();
    file.take((HEADER + MOST * NOTE) as u64).read_to_end(&mut bytes)?;
    let Some((begun, notes)) = header(&bytes) else { return Ok(None) };
    let notes = notes.chunks_exact(NOTE).filter_map(|note| note.first_chunk().map(|note| u64::from_le_bytes(*note)));
    Ok(is_fresh(begun, now).then(|| (begun, notes.collect())))
}

/// The beginning in a header, and the bytes behind it; `None` of other bytes.
fn header(bytes: &[u8]) -> Option<(UnixNanos, &[u8])> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (begun, rest) = rest.split_first_chunk::<8>()?;
    (*magic == MAGIC).then(|| (UnixNanos(i64::from_le_bytes(*begun)), rest))
}

/// True for notes that count. A clock that was set back says nothing of their age.
fn is_fresh(begun: UnixNanos, now: UnixNanos) -> bool {
    (0..=KEPT).contains(&now.0.saturating_sub(begun.0))
}

/// Removes notes that count no more. Those that cannot be removed harm nothing.
fn remove_old(folder: &Path, now: UnixNanos) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|end| end != SUFFIX) {
            continue;
        }
        let mut bytes = [0; HEADER];
        let read = File::open(&path).and_then(|mut file| file.read_exact(&mut bytes));
        if read.is_ok() && header(&bytes).is_some_and(|(begun, _)| !is_fresh(begun, now)) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::HashAlgorithm;
    use crate::format::content_id::{ContentHash, ContentId};
    use crate::testing::Fixture;

    const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

    fn at(path: &Path, now: i64) -> VerifyNotes {
        VerifyNotes::open_at(path, UnixNanos(now), false).unwrap()
    }

    #[test]
    fn notes_are_there_again_until_the_verification_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/a.verification");
        let first = at(&path, NOW.0);
        assert_eq!((first.goes_on_from(), first.has(7)), (None, false));
        [7, u64::MAX, 3].iter().for_each(|note| first.add(*note));
        // What a killed process has left of a note counts for nothing.
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"cut").unwrap();
        let second = at(&path, NOW.0 + KEPT);
        assert_eq!(second.goes_on_from(), Some(NOW));
        assert_eq!([3, 7, u64::MAX, 4].map(|note| second.has(note)), [true, true, true, false]);
        second.add(4);
        let third = at(&path, NOW.0 + 1);
        assert_eq!((third.goes_on_from(), third.has(4), third.has(3)), (Some(NOW), true, true));
        third.remove();
        assert!(!path.exists());
        assert_eq!(at(&path, NOW.0 + 1).goes_on_from(), None);
    }

    #[test]
    fn notes_that_are_old_or_of_the_future_or_no_notes_begin_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.verification");
        for (now, is_anew) in [(NOW.0 + KEPT + 1, false), (NOW.0 - 1, false), (NOW.0, true)] {
            let _ = std::fs::remove_file(&path);
            at(&path, NOW.0).add(1);
            let notes = VerifyNotes::open_at(&path, UnixNanos(now), is_anew).unwrap();
            assert_eq!((notes.goes_on_from(), notes.has(1)), (None, false), "{now} {is_anew}");
            notes.add(2);
            assert_eq!(at(&path, now).goes_on_from(), Some(UnixNanos(now)));
        }
        std::fs::write(&path, b"something else that is longer than a header").unwrap();
        let notes = at(&path, NOW.0);
        notes.add(5);
        assert!(at(&path, NOW.0).has(5));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 24);
    }

    #[test]
    fn old_notes_of_others_go_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        at(&path("old.verification"), NOW.0).add(1);
        std::fs::copy(path("old.verification"), path("old.txt")).unwrap();
        std::fs::write(path("b.verification"), b"of somebody else, and longer").unwrap();
        at(&path("young.verification"), NOW.0 + DAY).add(1);
        at(&path("new.verification"), NOW.0 + KEPT + 1).add(1);
        let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["b.verification", "new.verification", "old.txt", "young.verification"]);
    }

    /// What maintenance has moved is read again, and what an index tells otherwise than before.
    #[test]
    fn a_content_at_another_place_has_another_note() {
        let crypto = Fixture::usual().crypto(HashAlgorithm::Blake2b256_128);
        let id = |byte| ContentId::new(None, ContentHash::new(&[byte; 16]).unwrap()).unwrap();
        let record = Record {
            id: id(1),
            timestamp: 1,
            is_deleted: false,
            pack: 0,
            offset: 5,
            packed_length: 9,
            original_length: 7,
            compression: 0,
            format_version: 3,
            key: 0,
        };
        let extent = Extent { start: 0, length: 7, is_compressed: false, content: id(1) };
        let noted = |record: Record, pack: &str, extent: &Extent| note(&crypto, &record, pack, extent);
        let known = noted(record, "p1", &extent);
        // The number of a pack is that of one load.
        let loaded_again = Record { timestamp: 2, pack: 4, ..record };
        assert_eq!(noted(loaded_again, "p1", &Extent { start: 9, ..extent }), known);
        let others = [
            noted(record, "p2", &extent),
            noted(Record { id: id(2), ..record }, "p1", &extent),
            noted(Record { offset: 6, ..record }, "p1", &extent),
            noted(Record { packed_length: 8, ..record }, "p1", &extent),
            noted(Record { original_length: 8, ..record }, "p1", &extent),
            noted(Record { compression: 1, ..record }, "p1", &extent),
            noted(record, "p1", &Extent { length: 6, ..extent }),
            noted(record, "p1", &Extent { is_compressed: true, ..extent }),
        ];
        assert!(others.iter().all(|other| *other != known), "{known} {others:?}");
    }
}
