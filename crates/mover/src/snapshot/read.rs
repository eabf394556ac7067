//! Bytes of files and devices, as far as they are there: holes are not read.

use super::attributes::FoundAttributes;
use super::entry::{REPLACED, gone, modified};
use crate::failure::Failed;
use crate::handles::open_beneath;
use bytes::Bytes;
use lifeboat_kopia::content::writer::PIECE;
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, FileType, Mode, OFlags, SeekFrom, Stat, fadvise, fstat, readlinkat, seek};
use rustix::io::{Errno, pread};
use std::ffi::OsStr;
use std::fs::File;
use std::num::NonZero;
use std::ops::Range;

/// The bytes of a long file that stay in the page cache while it is read: the kernel takes the pages of what was read before
/// for what comes next.
const KEPT: u64 = 32 << 20;

/// A part of a file.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Bytes),
    /// So many zeros that were not read.
    Zeros(u64),
}

/// A file that is open, and how it was then.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) stat: Stat,
}

impl Opened {
    /// Opens a file beneath its directory, never through a link. Its access time stays, where the right to that is there.
    pub(super) fn beneath(directory: &File, name: &OsStr) -> Result<Self, Failed> {
        let open = |flags| open_beneath(directory, name, OFlags::RDONLY | flags, Mode::empty());
        let file = match open(OFlags::NOATIME) {
            Err(Errno::PERM) => open(OFlags::empty()),
            other => other,
        };
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_file();
        let file = file.map_err(|e| gone(directory, name, is_file, Failed::to("open it")(e)))?;
        let stat = fstat(&file).map_err(Failed::to("look at it"))?;
        if !is_file(&stat) {
            return Err(Failed::Gone(REPLACED));
        }
        // Both hints cost nothing where they do nothing.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        Ok(Self { file, stat })
    }

    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or_default()
    }

    /// True where the file has fewer blocks than bytes.
    pub(super) fn has_holes(&self) -> bool {
        u64::try_from(self.stat.st_blocks).unwrap_or_default().saturating_mul(512) < self.size()
    }

    /// True where the file is not as it was when it was opened. The time of its last change of any sort shows what a program
    /// hides that sets back the time of its last writing.
    pub(super) fn has_changed(&self) -> Result<bool, Failed> {
        let now = fstat(&self.file).map_err(Failed::to("look at it"))?;
        let seen = |stat: &Stat| (stat.st_size, modified(stat), stat.st_ctime, stat.st_ctime_nsec);
        Ok(seen(&now) != seen(&self.stat))
    }

    /// The attributes of the file that a snapshot does not have.
    pub(super) fn attributes(&self) -> FoundAttributes {
        FoundAttributes::of(&self.file)
    }

    /// Lets the system forget its pages, which nobody else may want.
    pub(super) fn forget(&self) {
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
    }
}

/// A small file or a symlink that was read whole.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    /// Its state before it was read; `None` for a symlink.
    pub(super) stat: Option<Stat>,
    /// The attributes that a snapshot does not have; those of a symlink are not asked.
    pub(super) attributes: FoundAttributes,
    /// True where it was changed both times while it was read, or ended before its length.
    pub(super) has_changed: bool,
}

/// Reads a small file, and once more where it is changed meanwhile. One that has more than `most` bytes, whatever was known of
/// it before, gives `None`. One that was deleted after it was read is as it was then.
pub(super) fn whole(directory: &File, name: &OsStr, most: u64) -> Result<Option<Whole>, Failed> {
    let first = once(directory, name, most)?;
    if !first.as_ref().is_some_and(|first| first.has_changed) {
        return Ok(first);
    }
    match once(directory, name, most) {
        Err(Failed::Gone(_)) => Ok(first),
        again => again,
    }
}

fn once(directory: &File, name: &OsStr, most: u64) -> Result<Option<Whole>, Failed> {
    let opened = Opened::beneath(directory, name)?;
    // Some file systems do not know how long their files are.
    let end = match opened.size() {
        0 => most + 1,
        size => size.min(most + 1),
    };
    let bytes = read_range(&opened.file, 0..end, Vec::with_capacity)?;
    let length = bytes.len() as u64;
    if length > most {
        return Ok(None);
    }
    let has_changed = length < opened.size() || opened.has_changed()?;
    opened.forget();
    let attributes = opened.attributes();
    Ok(Some(Whole { bytes: bytes.into(), stat: Some(opened.stat), attributes, has_changed }))
}

/// Reads the target of a symlink.
pub(super) fn link(directory: &File, name: &OsStr) -> Result<Whole, Failed> {
    let is_link = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_symlink();
    let target = readlinkat(directory, name, Vec::new());
    let target = target.map_err(|e| gone(directory, name, is_link, Failed::to("read the symlink")(e)))?;
    let bytes = target.into_bytes().into();
    Ok(Whole { bytes, stat: None, attributes: FoundAttributes::default(), has_changed: false })
}

/// Reads a range, or up to the end of the file in it.
fn read_range(file: &File, range: Range<u64>, buffer: impl Fn(usize) -> Vec<u8>) -> Result<Vec<u8>, Failed> {
    let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    let mut bytes = buffer(length);
    while bytes.len() < length {
        let at = range.start + bytes.len() as u64;
        match pread(file, spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(Failed::to("read it")(e)),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// A file or device whose bytes are read.
pub(super) struct FileReading<'a> {
    pub(super) file: &'a File,
    pub(super) has_holes: bool,
    /// Gives an empty buffer for so many bytes.
    pub(super) buffer: &'a dyn Fn(usize) -> Vec<u8>,
}

/// Gives the pieces of a range of a file in their order, until its end or until nobody takes them. Gives the length.
pub(super) fn pieces(
    reading: &FileReading<'_>,
    range: Range<u64>,
    give: &mut dyn FnMut(Piece) -> bool,
) -> Result<u64, Failed> {
    let FileReading { file, has_holes, buffer } = *reading;
    let mut at = range.start;
    let mut kept = at;
    while at < range.end {
        let (data, end) = if has_holes { extent(file, at, range.end)? } else { (at, range.end) };
        if data > at && !give(Piece::Zeros(data - at)) {
            break;
        }
        at = data;
        while at < end {
            let bytes = read_range(file, at..end.min(at + PIECE as u64), buffer)?;
            if bytes.is_empty() {
                return Ok(at - range.start);
            }
            at += bytes.len() as u64;
            if at - kept >= KEPT {
                let _ = fadvise(file, kept, NonZero::new(at - kept), Advice::DontNeed);
                kept = at;
            }
            if !give(Piece::Bytes(bytes.into())) {
                return Ok(at - range.start);
            }
        }
    }
    Ok(at - range.start)
}

/// The next bytes that are no hole, at or after a place: where they begin and end. Both are the end where there are none.
fn extent(file: &File, at: u64, end: u64) -> Result<(u64, u64), Failed> {
    let data = match seek(file, SeekFrom::Data(at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => return Ok((end, end)),
        // The file system does not know.
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok((at, end)),
        Err(e) => return Err(Failed::to("look for its holes")(e)),
    };
    if data >= end {
        return Ok((end, end));
    }
    let hole = seek(file, SeekFrom::Hole(data)).map_err(Failed::to("look for its holes"))?;
    // A file that is cut at this moment may have none where there were bytes.
    Ok((data.max(at), hole.clamp(data + 1, end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn reading(file: &File, has_holes: bool) -> FileReading<'_> {
        FileReading { file, has_holes, buffer: &Vec::with_capacity }
    }

    #[test]
    fn a_hole_is_given_as_zeros_and_the_rest_as_it_is() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10 << 20).unwrap();
        file.write_all_at(&[7; 4096], 3 << 20).unwrap();
        file.write_all_at(&[8; 4096], 6 << 20).unwrap();
        for range in [0..10 << 20, 1 << 20..(3 << 20) + 100, (6 << 20) + 4096..10 << 20, 5..5] {
            for has_holes in [true, false] {
                let (mut bytes, mut zeros) = (Vec::new(), 0);
                let length = pieces(&reading(&file, has_holes), range.clone(), &mut |piece| {
                    match piece {
                        Piece::Bytes(piece) => bytes.extend_from_slice(&piece),
                        Piece::Zeros(count) => {
                            bytes.resize(bytes.len() + usize::try_from(count).unwrap(), 0);
                            zeros += count;
                        }
                    }
                    true
                });
                assert_eq!(length, Ok(range.end - range.start));
                assert!(bytes == read_range(&file, range.clone(), Vec::with_capacity).unwrap(), "{range:?}");
                assert!(has_holes || zeros == 0);
            }
        }
        let mut read = 0;
        pieces(&reading(&file, true), 0..10 << 20, &mut |piece| {
            if let Piece::Bytes(bytes) = piece {
                read += bytes.len();
            }
            true
        })
        .unwrap();
        // File systems without holes give it all.
        assert!(read == 8192 || read == 10 << 20, "{read}");
    }

    #[test]
    fn a_file_that_is_no_longer_small_is_not_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), [7; 100]).unwrap();
        let directory = File::open(folder.path()).unwrap();
        let read = |most| whole(&directory, OsStr::new("file"), most).unwrap().map(|read| read.bytes.len());
        assert_eq!([100, 99, 0].map(read), [Some(100), None, None]);
    }

    #[test]
    fn a_file_whose_length_nobody_tells_is_small_only_up_to_its_end() {
        // The system makes it as it is read, and tells a length of 0.
        let directory = File::open("/proc").unwrap();
        let read = |most| whole(&directory, OsStr::new("cpuinfo"), most).unwrap().map(|read| read.bytes.len());
        assert!(read(1 << 30).is_some_and(|length| length > 10));
        assert_eq!(read(10), None);
    }

    #[test]
    fn a_file_whose_time_is_set_back_after_a_write_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "one").unwrap();
        let directory = File::open(folder.path()).unwrap();
        let opened = Opened::beneath(&directory, OsStr::new("file")).unwrap();
        assert!(!opened.has_changed().unwrap());
        let time = opened.file.metadata().unwrap().modified().unwrap();
        let file = File::options().write(true).open(folder.path().join("file")).unwrap();
        let changed = || {
            file.write_all_at(b"two", 0).unwrap();
            file.set_modified(time).unwrap();
            opened.has_changed().unwrap()
        };
        // The clock of the file system has ticks.
        assert!((0..10_000_000).any(|_| changed()));
    }

    #[test]
    fn what_is_gone_when_it_is_read_has_not_failed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("directory")).unwrap();
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let directory = File::open(folder.path()).unwrap();
        let is_gone = |failed: Option<Failed>| matches!(failed, Some(Failed::Gone(_)));
        let file = |name: &str| is_gone(whole(&directory, OsStr::new(name), 100).err());
        assert_eq!(["file", "none", "link", "directory", "socket"].map(file), [false, true, true, true, true]);
        let target = |name: &str| is_gone(link(&directory, OsStr::new(name)).err());
        assert_eq!(["link", "none", "file", "directory"].map(target), [false, true, true, true]);
    }

    #[test]
    fn a_file_that_ends_early_gives_what_it_has() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; 3 << 20], 0).unwrap();
        assert_eq!(pieces(&reading(&file, false), 1 << 20..9 << 20, &mut |_| true), Ok(2 << 20));
        let mut given = 0;
        let take_one = &mut |_| {
            given += 1;
            false
        };
        assert_eq!((pieces(&reading(&file, false), 0..3 << 20, take_one), given), (Ok(PIECE as u64), 1));
    }
}
