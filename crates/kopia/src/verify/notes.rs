//! Notes of what a verification has read, by which the next one goes on where it was cut off.
//!
//! A note is the keyed hash of a content, of its place in a pack, and of the length and the time of that pack in the
//! bucket. So a content that maintenance has moved since has no note, and is read again, as are all of a pack that was
//! put there again. The notes go when the verification has ended.

use super::packs::ListedPack;
use super::report::VerifyOptions;
use crate::crypto::Crypto;
use crate::format::index::Entry;
use crate::format::time::{DAY, MINUTE, UnixNanos};
use crate::guard::Clock;
use crate::object::Extent;
use crate::{KopiaError, Repository};
use std::fmt;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The time after the last note up to which all count, in nanoseconds: bytes may go bad after they were read.
const KEPT: i64 = 7 * DAY;
/// The most contents that are noted, in 32 MiB.
const MOST: usize = 1 << 22;
/// The first bytes of a file; the times of its beginning and of its last note follow.
const MAGIC: [u8; 8] = *b"LBVERIF2";
/// The bytes before the notes.
const HEADER: usize = 24;
/// The place of the time of the last note.
const LAST: u64 = 16;
/// The time of the last note is written so often, in nanoseconds.
const TIME_STEP: i64 = MINUTE;
/// The attempts at a file that others remove.
const ATTEMPTS: usize = 10;
/// The bytes of a note. Of 50 million contents and as many notes as there can be, one in 100,000 verifications mistakes one.
const NOTE: usize = 8;
/// The end of the names of files.
const SUFFIX: &str = "verification";

/// Notes of a verification: of the one that was cut off, and of the one that goes on.
pub struct VerifyNotes {
    path: PathBuf,
    clock: Clock,
    begun: UnixNanos,
    /// The notes that were there, sorted.
    earlier: Vec<u64>,
    log: Mutex<Log>,
}

impl fmt::Debug for VerifyNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyNotes").field("path", &self.path).field("begun", &self.begun).finish_non_exhaustive()
    }
}

/// The file to which notes are added. It is locked as long as this lives.
#[derive(Debug)]
struct Log {
    file: File,
    /// The end of the file.
    end: u64,
    /// The time of the last note, as the file has it.
    last: UnixNanos,
    /// The notes for which there is room.
    left: usize,
    failure: Option<String>,
}

impl VerifyNotes {
    /// Opens the notes of the verification with these options in a folder, which is made where it is missing. Those to
    /// which nothing was added for more than seven days are removed; with `from_start` all of this verification are.
    ///
    /// # Errors
    /// A folder or file that cannot be made or read, or that another process uses.
    pub fn open(
        folder: &Path,
        repository: &Repository,
        options: &VerifyOptions,
        from_start: bool,
    ) -> Result<Self, KopiaError> {
        let contents = repository.contents().clone();
        let clock: Clock = Arc::new(move || contents.now());
        Self::open_at(&folder.join(file_name(repository, options)), clock, from_start)
    }

    fn open_at(path: &Path, clock: Clock, from_start: bool) -> Result<Self, KopiaError> {
        let now = clock();
        let failed =
            |attempt: &'static str| move |source| KopiaError::Scratch { attempt, path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("make the folder of notes"))?;
            remove_old(folder, now);
        }
        let file = open_locked(path).map_err(failed("open notes"))?;
        let found = if from_start { None } else { read_notes(&file, now).map_err(failed("read notes"))? };
        let (header, mut earlier) =
            found.filter(|(_, earlier)| !earlier.is_empty()).unwrap_or((Header { begun: now, last: now }, Vec::new()));
        let end = (HEADER + earlier.len() * NOTE) as u64;
        if earlier.is_empty() {
            file.set_len(0).map_err(failed("cut notes"))?;
            file.write_all_at(&header.to_bytes(), 0).map_err(failed("write notes"))?;
        }
        let left = MOST.saturating_sub(earlier.len());
        let log = Mutex::new(Log { file, end, last: header.last, left, failure: None });
        earlier.sort_unstable();
        Ok(Self { path: path.to_owned(), clock, begun: header.begun, earlier, log })
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
        let now = (self.clock)();
        let mut log = self.log();
        if log.failure.is_some() {
            return;
        }
        if log.left == 0 {
            log.failure = Some(format!("{} has notes of {MOST} contents, and takes no more", self.path.display()));
            return;
        }
        log.left -= 1;
        if let Err(error) = log.write(note, now) {
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

impl Log {
    fn write(&mut self, note: u64, now: UnixNanos) -> io::Result<()> {
        self.file.write_all_at(&note.to_le_bytes(), self.end)?;
        self.end += NOTE as u64;
        if now.0.saturating_sub(self.last.0) >= TIME_STEP {
            self.file.write_all_at(&now.0.to_le_bytes(), LAST)?;
            self.last = now;
        }
        Ok(())
    }
}

/// The note of a content as an extent wants it, at this place of this pack. A pack without a time may be another one
/// later: what is in it has no note.
pub(super) fn note(crypto: &Crypto, entry: &Entry, pack: ListedPack, extent: &Extent) -> Option<u64> {
    let modified = pack.modified?;
    let mut bytes = format!("{} {} ", entry.id, entry.pack).into_bytes();
    for number in [entry.offset, entry.packed_length, entry.original_length, entry.compression] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [extent.length, pack.length] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(modified.0.to_le_bytes());
    bytes.extend([entry.format_version, entry.key, u8::from(extent.is_compressed)]);
    let hash = crypto.hash(&bytes);
    hash.as_bytes().first_chunk().map(|first| u64::from_le_bytes(*first))
}

/// The name of the file: another one for each repository, place of it, and choice of files.
fn file_name(repository: &Repository, options: &VerifyOptions) -> String {
    let mut bytes = repository.format().unique_id.clone();
    let place = repository.blobs().describe();
    bytes.extend((place.len() as u64).to_le_bytes());
    bytes.extend(place.as_bytes());
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

/// The times in the first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    begun: UnixNanos,
    last: UnixNanos,
}

impl Header {
    /// Reads a header; `None` of other bytes.
    fn of(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (begun, rest) = rest.split_first_chunk::<8>()?;
        let last = rest.first_chunk::<8>()?;
        let [begun, last] = [begun, last].map(|time| UnixNanos(i64::from_le_bytes(*time)));
        (*magic == MAGIC).then_some(Self { begun, last })
    }

    fn to_bytes(self) -> Vec<u8> {
        [MAGIC, self.begun.0.to_le_bytes(), self.last.0.to_le_bytes()].concat()
    }

    /// True for notes that count. A clock that was set back says nothing of their age.
    fn is_fresh(self, now: UnixNanos) -> bool {
        self.begun <= now && (0..=KEPT).contains(&now.0.saturating_sub(self.last.0))
    }
}

/// Opens a file, made where it is missing, that no other process uses.
fn open_locked(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    for _ in 0..ATTEMPTS {
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::Error::other("the same verification runs already")),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The one who had it may have removed it before it was locked.
        let named = std::fs::metadata(path).map(|named| (named.dev(), named.ino())).ok();
        let opened = file.metadata()?;
        if named == Some((opened.dev(), opened.ino())) {
            return Ok(file);
        }
    }
    Err(io::Error::other("others make and remove it all the time"))
}

/// The header and the notes of a file; `None` where they are too old, or of something else.
fn read_notes(file: &File, now: UnixNanos) -> io::Result<Option<(Header, Vec<u64>)>> {
    let mut bytes = Vec::new();
    file.take((HEADER + MOST * NOTE) as u64).read_to_end(&mut bytes)?;
    let Some(header) = Header::of(&bytes).filter(|header| header.is_fresh(now)) else { return Ok(None) };
    let notes = bytes.get(HEADER..).unwrap_or_default().chunks_exact(NOTE);
    let notes = notes.filter_map(|note| note.first_chunk().map(|note| u64::from_le_bytes(*note)));
    Ok(Some((header, notes.collect())))
}

/// Removes notes that count no more and that nobody uses. Those that cannot be removed harm nothing.
fn remove_old(folder: &Path, now: UnixNanos) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|end| end != SUFFIX) {
            continue;
        }
        let Ok(mut file) = File::open(&path) else { continue };
        let mut bytes = [0; HEADER];
        let is_read = file.read_exact(&mut bytes).is_ok();
        if is_read && Header::of(&bytes).is_some_and(|header| !header.is_fresh(now)) && file.try_lock().is_ok() {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests;
