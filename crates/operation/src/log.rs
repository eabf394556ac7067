//! The compressed log of an operation: a small part of it in memory, the rest in a file without a name.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io::{self, Write as _};
use std::mem;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limits on the compressed log of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes in memory; half of them go into the file at once.
    pub(crate) memory: usize,
    /// Bytes in memory as long as the file cannot be written.
    pub(crate) without_file: usize,
    /// Bytes in all.
    pub(crate) all: u64,
}

/// The compressed log of an operation, as one file: gzip members one after the other. It stays as it is, whatever is logged
/// later.
#[derive(Clone)]
pub struct Log {
    /// Nothing is changed in it but behind what any log has of it.
    file: Option<Arc<File>>,
    /// Bytes of the file that are of this log; they come first.
    in_file: u64,
    rest: Bytes,
}

impl Log {
    /// Bytes of it.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.in_file + self.rest.len() as u64
    }

    /// At most so many bytes from this one on, and none at the end only. It may wait for the disk.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn read_at(&self, at: u64, most: usize) -> io::Result<Bytes> {
        match &self.file {
            Some(file) if at < self.in_file => {
                let length = usize::try_from(self.in_file - at).map_or(most, |left| left.min(most));
                let mut piece = vec![0; length];
                file.read_exact_at(&mut piece, at)?;
                Ok(piece.into())
            }
            _ => {
                let end = self.rest.len();
                let begin = usize::try_from(at.saturating_sub(self.in_file)).map_or(end, |begin| begin.min(end));
                Ok(self.rest.slice(begin..begin.saturating_add(most).min(end)))
            }
        }
    }
}

impl Debug for Log {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("length", &self.length()).finish_non_exhaustive()
    }
}

/// The share of the space of a log that a line may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineSpace {
    /// Three quarters, so that what went wrong has room when what went well has filled its part.
    Most,
    /// All of it.
    All,
}

/// A log that grows.
pub(crate) struct LogWriter {
    limits: Limits,
    scratch: PathBuf,
    /// Made when something is put into it.
    file: Option<Arc<File>>,
    /// Bytes of the file that were written whole.
    in_file: u64,
    /// Members that have ended, behind those of the file.
    packed: Vec<u8>,
    /// The member that goes on, as far as it is not in the file.
    member: GzEncoder<Vec<u8>>,
    /// Bytes in memory at which the file is written next.
    spill_at: usize,
    /// The error of the last attempt to write the file, unless it was written since.
    failure: Option<io::Error>,
    left_out: Option<LeftOut>,
}

/// Lines that a log has no room for.
struct LeftOut {
    lines: u64,
    /// The limit that the first of them would have passed.
    why: String,
}

impl LogWriter {
    /// An empty log, which has its file in this folder.
    pub(crate) fn new(limits: Limits, scratch: &Path) -> Self {
        Self {
            limits,
            scratch: scratch.to_owned(),
            file: None,
            in_file: 0,
            packed: Vec::new(),
            member: member(),
            spill_at: limits.memory / 2,
            failure: None,
            left_out: None,
        }
    }

    /// Adds a line, or counts it when there is no room.
    pub(crate) fn add(&mut self, line: &str, room: LineSpace) {
        if self.is_full(room) {
            match &mut self.left_out {
                Some(left_out) => left_out.lines += 1,
                None => self.left_out = Some(LeftOut { lines: 1, why: self.why_full() }),
            }
            return;
        }
        self.append(line);
    }

    /// Adds a line that has room always.
    pub(crate) fn append(&mut self, line: &str) {
        // Compressing into a Vec cannot fail.
        let _ = self.member.write_all(line.as_bytes());
        if self.in_memory() >= self.spill_at {
            self.spill();
        }
    }

    /// Text for the log about the lines that it lacks.
    pub(crate) fn lacks(&self) -> Option<String> {
        let LeftOut { lines, why } = self.left_out.as_ref()?;
        Some(format!("{lines} more lines are left out: the log of one operation holds {why}"))
    }

    /// Everything up to now. What is added later is in the next one, behind the same.
    pub(crate) fn snapshot(&mut self) -> Log {
        // Compressing into a Vec cannot fail.
        self.packed.extend(mem::replace(&mut self.member, member()).finish().unwrap_or_default());
        Log { file: self.file.clone(), in_file: self.in_file, rest: Bytes::copy_from_slice(&self.packed) }
    }

    /// Bytes that are not in the file.
    pub(crate) fn in_memory(&self) -> usize {
        self.packed.len() + self.member.get_ref().len()
    }

    fn is_full(&self, room: LineSpace) -> bool {
        let Limits { without_file, all, .. } = self.limits;
        let (without_file, all) = match room {
            LineSpace::Most => (without_file / 4 * 3, all / 4 * 3),
            LineSpace::All => (without_file, all),
        };
        let in_memory = self.in_memory();
        self.in_file + in_memory as u64 >= all || self.failure.is_some() && in_memory >= without_file
    }

    fn why_full(&self) -> String {
        let Limits { without_file, all, .. } = self.limits;
        match &self.failure {
            Some(e) => {
                let place = self.scratch.display();
                format!("{} MiB when scratch space in {place} cannot be used: {e}", without_file >> 20)
            }
            None => format!("{} MiB", all >> 20),
        }
    }

    /// Moves what is in memory into the file. This is done in place, under the lock of the journal and on a thread that other
    /// tasks wait for: half of what memory holds, a MiB, is copied into the kernel's memory, which takes less than a
    /// millisecond, once for thousands of lines. What the file does not take stays in memory, and is tried again when as much
    /// has come again, for a full disk may have room then.
    fn spill(&mut self) {
        self.failure = self.write_out().err();
        self.spill_at = self.limits.memory / 2;
        if self.failure.is_some() {
            self.spill_at += self.in_memory();
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(Arc::new(tempfile::tempfile_in(&self.scratch)?)),
        };
        for part in [&mut self.packed, self.member.get_mut()] {
            // What a write leaves behind that fails is written over by the next one.
            file.write_all_at(part, self.in_file)?;
            self.in_file += part.len() as u64;
            part.clear();
        }
        Ok(())
    }
}

fn member() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::new(3))
}

#[cfg(test)]
impl Log {
    /// The whole text, read in pieces of so many bytes.
    pub(crate) fn text(&self, most: usize) -> String {
        let mut whole = Vec::new();
        loop {
            let piece = self.read_at(whole.len() as u64, most).unwrap();
            if piece.is_empty() {
                break;
            }
            assert!(piece.len() <= most);
            whole.extend_from_slice(&piece);
        }
        assert_eq!(whole.len() as u64, self.length());
        String::from_utf8(lifeboat_archive::gzip::unpack(&whole, 64 << 20).unwrap()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { memory: 256 << 10, without_file: 1 << 20, all: 64 << 20 };

    /// A line that hardly becomes smaller than 4 KiB.
    fn line(n: u64) -> String {
        let noise = (0..500).map(|i| format!("{:016x}", (n * 500 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        format!("{n} {}\n", noise.collect::<String>())
    }

    fn add(log: &mut LogWriter, numbers: std::ops::Range<u64>) {
        numbers.for_each(|n| log.add(&line(n), LineSpace::All));
    }

    fn text(numbers: std::ops::Range<u64>) -> String {
        numbers.map(line).collect()
    }

    #[test]
    fn every_line_comes_back_in_order_and_memory_holds_no_more_than_its_part() {
        let folder = tempfile::tempdir().unwrap();
        for (memory, count, has_file) in
            [(256 << 10, 10, false), (256 << 10, 200, true), (512 << 10, 500, true), (8 << 20, 500, false)]
        {
            let mut log = LogWriter::new(Limits { memory, ..LIMITS }, folder.path());
            for n in 0..count {
                add(&mut log, n..n + 1);
                assert!(log.in_memory() <= memory, "{} bytes after {n} lines", log.in_memory());
            }
            let closed = log.snapshot();
            assert_eq!((closed.in_file > 0, log.lacks()), (has_file, None), "{memory} {count}");
            for most in [10_000, 1 << 20] {
                assert!(closed.text(most) == text(0..count), "{memory} {count}");
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
    }

    #[test]
    fn a_log_that_was_closed_stays_as_it_is_while_the_next_one_grows() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogWriter::new(LIMITS, folder.path());
        let ends = [5, 6, 200, 200, 201, 500, 700];
        let mut closed = Vec::new();
        let mut begin = 0;
        for end in ends {
            add(&mut log, begin..end);
            closed.push(log.snapshot());
            begin = end;
        }
        for (closed, end) in closed.iter().zip(ends) {
            assert!(closed.text(1 << 20) == text(0..end), "{end}");
        }
    }

    #[test]
    fn without_scratch_space_a_log_keeps_what_memory_holds_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let mut log = LogWriter::new(LIMITS, &missing);
        add(&mut log, 0..1000);
        let closed = log.snapshot();
        assert!((900 << 10..1200 << 10).contains(&closed.length()), "{} bytes", closed.length());
        assert_eq!(closed.in_file, 0);
        let kept = closed.text(1 << 20).lines().count() as u64;
        assert!(closed.text(1 << 20) == text(0..kept), "the first ones");
        let expected = format!(
            "{} more lines are left out: the log of one operation holds 1 MiB when scratch space in {} cannot be used: No \
             such file or directory",
            1000 - kept,
            missing.display()
        );
        let said = log.lacks().unwrap();
        assert!(said.starts_with(&expected), "{said}");
    }

    #[test]
    fn scratch_space_that_comes_back_takes_what_memory_has_held() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let mut log = LogWriter::new(LIMITS, &missing);
        add(&mut log, 0..100);
        assert!(log.in_memory() > LIMITS.memory, "{} bytes", log.in_memory());
        std::fs::create_dir(&missing).unwrap();
        add(&mut log, 100..1000);
        assert!(log.in_memory() <= LIMITS.memory, "{} bytes", log.in_memory());
        assert!(log.snapshot().text(1 << 20) == text(0..1000));
        assert_eq!(log.lacks(), None);
    }

    #[test]
    fn a_log_ends_where_its_room_does_and_what_went_wrong_has_more_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogWriter::new(Limits { all: 2 << 20, ..LIMITS }, folder.path());
        for (room, most) in [(LineSpace::Most, 3 << 19), (LineSpace::All, 2 << 20)] {
            (0..1000).for_each(|n| log.add(&line(n), room));
            let length = log.snapshot().length();
            assert!((most..most + (64 << 10)).contains(&length), "{length}");
        }
        let left_out = 2000 - log.snapshot().text(1 << 20).lines().count();
        let expected = format!("{left_out} more lines are left out: the log of one operation holds 2 MiB");
        assert_eq!(log.lacks(), Some(expected));
    }
}
