//! Directories (kopia: snapshot/snapshotfs, snapshot/manifest.go, fs/entry.go).

mod mode;

use super::FormatError;
use super::json::{ArrayWriter, ObjectWriter, Reader, Text, write_text};
use super::object_id::ObjectId;
use super::time::UnixNanos;
use std::io::{BufRead, BufReader, Read};

const STRUCTURE: &str = "directory";
const STREAM: &str = "kopia:directory";

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryType {
    /// `f`
    File,
    /// `d`
    Directory,
    /// `s`
    Symlink,
    /// Any other word; readers tell it as an error of that entry.
    Unknown(String),
}

impl EntryType {
    fn parse(word: String) -> Self {
        match word.as_str() {
            "f" => Self::File,
            "d" => Self::Directory,
            "s" => Self::Symlink,
            _ => Self::Unknown(word),
        }
    }
    fn word(&self) -> &str {
        match self {
            Self::File => "f",
            Self::Directory => "d",
            Self::Symlink => "s",
            Self::Unknown(word) => word,
        }
    }
}

/// A directory entry, or the root of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The base name as the repository has it. Bytes that were no UTF-8 are U+FFFD there already; the name knows which.
    pub name: Text,
    /// The type.
    pub entry_type: EntryType,
    /// Permission bits and setuid, setgid, sticky at their POSIX positions (0o7777).
    pub mode: u32,
    /// The length of a file, of a link's target; 0 for directories. See `.checkpointed.` for when it is not the object's.
    pub size: u64,
    /// The time of the last change.
    pub modified: UnixNanos,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The bytes; `None` where the entry has no ID or one that cannot be read, which is an error of that entry.
    pub object: Option<ObjectId>,
    /// The totals below a directory.
    pub summary: Option<Summary>,
}

/// The totals below a directory, itself included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// The bytes of all files.
    pub size: u64,
    /// The number of files.
    pub files: u64,
    /// The number of symlinks.
    pub symlinks: u64,
    /// The number of directories, this one included.
    pub directories: u64,
    /// The latest change below it.
    pub max_time: UnixNanos,
    /// The reason for which the directory is not complete.
    pub incomplete: Option<String>,
    /// The number of entries that could not be read.
    pub failed: u64,
    /// The number of entries that could not be read and were passed over by policy.
    pub ignored: u64,
    /// Paths below the root, with the error of each.
    pub errors: Vec<EntryError>,
}

impl Summary {
    /// The number of entries that could not be read, those that a policy passed over among them.
    pub fn unread_entries(&self) -> u64 {
        self.failed.saturating_add(self.ignored)
    }
}

/// An entry that could not be read when the snapshot was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryError {
    /// The path below the root.
    pub path: String,
    /// The error.
    pub error: String,
}

/// A directory with its totals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directory {
    /// The entries in the order of the document.
    pub entries: Vec<DirectoryEntry>,
    /// The totals.
    pub summary: Option<Summary>,
}

/// Reads a directory entry by entry, so that one of a million files needs no list of them. `each` may stop the reading by
/// an error. Gives the totals.
///
/// # Errors
/// No directory; those of `each`.
pub fn read<E: From<FormatError>>(
    source: impl Read,
    mut each: impl FnMut(DirectoryEntry) -> Result<(), E>,
) -> Result<Option<Summary>, E> {
    let mut reader = Reader::new(STRUCTURE, BufReader::with_capacity(32 << 10, source));
    let (mut is_directory, mut summary) = (false, None);
    reader.object::<E>(|reader, key| {
        match key {
            "stream" => is_directory = reader.string()? == STREAM,
            "entries" => reader.array::<E>(|reader| each(read_entry(reader)?))?,
            "summary" => summary = Some(read_summary(reader)?),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    if !is_directory {
        return Err(reader.error(format!("the stream is not {STREAM}")).into());
    }
    reader.end()?;
    Ok(summary)
}

/// Reads an entry, in a directory or as the root of a snapshot.
pub(super) fn read_entry<R: BufRead>(reader: &mut Reader<R>) -> Result<DirectoryEntry, FormatError> {
    let mut entry = DirectoryEntry {
        name: Text::default(),
        entry_type: EntryType::Unknown(String::new()),
        mode: 0,
        size: 0,
        modified: UnixNanos::default(),
        uid: 0,
        gid: 0,
        object: None,
        summary: None,
    };
    reader.object::<FormatError>(|reader, key| {
        match key {
            "name" => entry.name = reader.text()?,
            "type" => entry.entry_type = EntryType::parse(reader.string()?),
            "mode" => {
                let text = reader.string()?;
                entry.mode = mode::parse(&text).ok_or_else(|| reader.error(format!("the mode {text:?} is none")))?;
            }
            "size" => entry.size = read_count(reader)?,
            "mtime" => entry.modified = UnixNanos::parse(&reader.string()?)?,
            "uid" => entry.uid = reader.integer()?,
            "gid" => entry.gid = reader.integer()?,
            "obj" => entry.object = ObjectId::parse(&reader.string()?).ok(),
            "summ" => entry.summary = Some(read_summary(reader)?),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(entry)
}

fn read_summary<R: BufRead>(reader: &mut Reader<R>) -> Result<Summary, FormatError> {
    let mut summary = Summary::default();
    reader.object::<FormatError>(|reader, key| {
        match key {
            "size" => summary.size = read_count(reader)?,
            "files" => summary.files = read_count(reader)?,
            "symlinks" => summary.symlinks = read_count(reader)?,
            "dirs" => summary.directories = read_count(reader)?,
            "maxtime" => summary.max_time = UnixNanos::parse(&reader.string()?)?,
            "incomplete" => {
                summary.incomplete = Some(reader.string()?).filter(|reason| !reason.is_empty());
            }
            "numfailed" => summary.failed = read_count(reader)?,
            "numignorederrors" => summary.ignored = read_count(reader)?,
            "errors" => reader.array(|reader| {
                summary.errors.push(read_entry_error(reader)?);
                Ok::<_, FormatError>(())
            })?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(summary)
}

fn read_entry_error<R: BufRead>(reader: &mut Reader<R>) -> Result<EntryError, FormatError> {
    let (mut path, mut error) = (String::new(), String::new());
    reader.object::<FormatError>(|reader, key| {
        match key {
            "path" => path = reader.string()?,
            "error" => error = reader.string()?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(EntryError { path, error })
}

/// A number that kopia holds in 63 bits and never below 0.
fn read_count<R: BufRead>(reader: &mut Reader<R>) -> Result<u64, FormatError> {
    let count: i64 = reader.integer()?;
    u64::try_from(count).map_err(|_| reader.error(format!("the number {count} is below 0")))
}

/// Writes a directory as kopia writes it: equal directories give equal bytes.
pub fn write(directory: &Directory) -> Vec<u8> {
    let mut writer = DirectoryWriter::begin();
    for entry in &directory.entries {
        writer.push(entry);
    }
    writer.end(directory.summary.as_ref())
}

/// A directory that is being written entry by entry, in the order of [`sort`].
#[derive(Debug)]
pub struct DirectoryWriter {
    out: Vec<u8>,
    is_empty: bool,
}

impl DirectoryWriter {
    /// Begins a directory.
    pub fn begin() -> Self {
        Self { out: format!("{{\"stream\":\"{STREAM}\",\"entries\":").into_bytes(), is_empty: true }
    }
    /// Adds an entry.
    pub fn push(&mut self, entry: &DirectoryEntry) {
        self.out.push(if self.is_empty { b'[' } else { b',' });
        self.is_empty = false;
        write_entry(&mut self.out, entry);
    }
    /// Takes the bytes that were written since the last call, so that a directory of a million entries need not be in
    /// memory whole.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
    /// Ends the directory and gives the bytes that were not taken.
    pub fn end(mut self, summary: Option<&Summary>) -> Vec<u8> {
        let end: &[u8] = if self.is_empty { b"null" } else { b"]" };
        self.out.extend_from_slice(end);
        self.out.extend_from_slice(b",\"summary\":");
        match summary {
            Some(summary) => write_summary(&mut self.out, summary),
            None => self.out.extend_from_slice(b"null"),
        }
        self.out.extend_from_slice(b"}\n");
        self.out
    }
}

/// Puts entries into kopia's order: directories first, then the rest, each by the bytes of the names. Names with bytes that
/// are no UTF-8 are ordered by those, so that the caller has to sort by what the file system gave; this is for names that
/// are text.
pub fn sort(entries: &mut [DirectoryEntry]) {
    entries.sort_by(|a, b| {
        let key = |entry: &DirectoryEntry| entry.entry_type != EntryType::Directory;
        (key(a), a.name.as_str()).cmp(&(key(b), b.name.as_str()))
    });
}

/// Writes an entry, in a directory or as the root of a snapshot.
pub(super) fn write_entry(out: &mut Vec<u8>, entry: &DirectoryEntry) {
    let mut object = ObjectWriter::begin(out);
    if !entry.name.is_empty() {
        write_text(object.key("name"), &entry.name);
    }
    object.string_unless_empty("type", entry.entry_type.word());
    if entry.mode != 0 {
        object.quoted("mode", mode::Mode(entry.mode));
    }
    object.number_unless_zero("size", entry.size);
    if entry.modified != UnixNanos::default() {
        object.quoted("mtime", entry.modified);
    }
    object.number_unless_zero("uid", entry.uid);
    object.number_unless_zero("gid", entry.gid);
    match &entry.object {
        Some(id) => object.quoted("obj", id),
        None => object.string("obj", ""),
    }
    if let Some(summary) = &entry.summary {
        write_summary(object.key("summ"), summary);
    }
    object.end();
}

fn write_summary(out: &mut Vec<u8>, summary: &Summary) {
    let mut object = ObjectWriter::begin(out);
    object.plain("size", summary.size);
    object.plain("files", summary.files);
    object.plain("symlinks", summary.symlinks);
    object.plain("dirs", summary.directories);
    object.quoted("maxTime", summary.max_time);
    object.string_unless_empty("incomplete", summary.incomplete.as_deref().unwrap_or_default());
    object.plain("numFailed", summary.failed);
    object.number_unless_zero("numIgnoredErrors", summary.ignored);
    if !summary.errors.is_empty() {
        let mut errors = ArrayWriter::begin(object.key("errors"));
        for error in &summary.errors {
            let mut item = ObjectWriter::begin(errors.item());
            item.string("path", &error.path);
            item.string("error", &error.error);
            item.end();
        }
        errors.end();
    }
    object.end();
}

#[cfg(test)]
mod tests;
