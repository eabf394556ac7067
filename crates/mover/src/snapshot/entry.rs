//! Entries of a directory of the file system.

use crate::failure::Failed;
use lifeboat_kopia::format::directory::{DirectoryEntry, EntryType, Summary};
use lifeboat_kopia::format::json::Text;
use lifeboat_kopia::format::object_id::ObjectId;
use lifeboat_kopia::format::time::{SECOND, UnixNanos};
use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

/// The reasons for which an entry is gone.
pub(super) const DELETED: &str = "it was deleted or renamed before it was read";
pub(super) const REPLACED: &str = "another program has put something else into its place";

/// The kinds of entries that a snapshot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    Symlink,
}

/// An entry: of a directory of a million each takes some 150 bytes.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: Box<[u8]>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) modified: UnixNanos,
    /// Its bytes, as soon as they are in the repository.
    pub(super) object: Option<ObjectId>,
    /// The totals below a directory that is finished.
    pub(super) summary: Option<Box<Summary>>,
}

impl Entry {
    pub(super) fn new(kind: Kind, name: &[u8]) -> Self {
        Self {
            name: name.into(),
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            modified: UnixNanos(0),
            object: None,
            summary: None,
        }
    }

    /// An entry as it is now; the kind of what no snapshot has is given instead.
    pub(super) fn of(name: &OsStr, stat: &Stat) -> Result<Self, FileType> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Symlink,
            other => return Err(other),
        };
        let mut entry = Self::new(kind, name.as_bytes());
        entry.set_attributes(stat);
        Ok(entry)
    }

    /// Takes the attributes of a file as it is now.
    pub(super) fn set_attributes(&mut self, stat: &Stat) {
        self.mode = stat.st_mode & 0o7777;
        (self.uid, self.gid) = (stat.st_uid, stat.st_gid);
        self.size = if self.kind == Kind::Directory { 0 } else { u64::try_from(stat.st_size).unwrap_or_default() };
        self.modified = modified(stat);
    }

    pub(super) fn name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    /// The order of the format: directories first, each part by the bytes of the names.
    pub(super) fn key(kind: Kind, name: &[u8]) -> (bool, &[u8]) {
        (kind != Kind::Directory, name)
    }

    pub(super) fn sort_key(&self) -> (bool, &[u8]) {
        Self::key(self.kind, &self.name)
    }

    /// The entry as the repository has it.
    pub(super) fn to_repository(&self) -> DirectoryEntry {
        DirectoryEntry {
            name: Text::from_bytes(&self.name),
            entry_type: match self.kind {
                Kind::Directory => EntryType::Directory,
                Kind::File => EntryType::File,
                Kind::Symlink => EntryType::Symlink,
            },
            mode: self.mode,
            size: self.size,
            modified: self.modified,
            uid: self.uid,
            gid: self.gid,
            object: self.object,
            summary: self.summary.as_deref().cloned(),
        }
    }
}

/// The time of the last change; one that no 64 bits hold becomes the nearest that they do.
pub(super) fn modified(stat: &Stat) -> UnixNanos {
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the types differ by architecture")]
    let (seconds, nanos) = (stat.st_mtime as i64, stat.st_mtime_nsec as i64);
    UnixNanos(seconds.saturating_mul(SECOND).saturating_add(nanos))
}

/// Tells the loss of an entry that was listed from other failures of opening it: one that is there no more, or that is another
/// one, is gone. A file that is there and cannot be opened has failed, whatever the error says.
pub(super) fn gone(directory: &File, name: &OsStr, is_same: impl FnOnce(&Stat) -> bool, failed: Failed) -> Failed {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Failed::Gone(DELETED),
        Ok(stat) if !is_same(&stat) => Failed::Gone(REPLACED),
        _ => failed,
    }
}

/// Looks at each entry of a directory once, in any order. An entry that cannot be looked at hides no other, nor does one that
/// is gone meanwhile. Gives the error that ended the list before its end.
pub(super) fn each(directory: &File, see: impl FnMut(&OsStr, Result<Stat, Failed>)) -> Result<Option<Failed>, Failed> {
    let names = Dir::read_from(directory).map_err(Failed::to("list it"))?;
    Ok(look_at(directory, names.map(|entry| entry.map(|entry| entry.file_name().to_bytes().to_vec())), see))
}

fn look_at(
    directory: &File,
    names: impl Iterator<Item = Result<Vec<u8>, Errno>>,
    mut see: impl FnMut(&OsStr, Result<Stat, Failed>),
) -> Option<Failed> {
    for name in names {
        let name = match name {
            Ok(name) => name,
            Err(error) => return Some(Failed::to("list the rest of it")(error)),
        };
        let name = OsStr::from_bytes(&name);
        if name == "." || name == ".." {
            continue;
        }
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => see(name, Ok(stat)),
            Err(Errno::NOENT) => see(name, Err(Failed::Gone(DELETED))),
            Err(e) => see(name, Err(Failed::to("look at it")(e))),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_before_an_error_of_the_list_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("one"), "x").unwrap();
        let directory = File::open(folder.path()).unwrap();
        let names = [Ok(b"one".to_vec()), Err(Errno::IO), Ok(b"never".to_vec())];
        let mut seen = Vec::new();
        let failed = look_at(&directory, names.into_iter(), |name, stat| seen.push((name.to_owned(), stat.is_ok())));
        assert_eq!(seen, [("one".into(), true)]);
        assert!(failed.unwrap().to_string().contains("list the rest of it"));
    }

    #[test]
    fn an_entry_that_goes_while_it_is_listed_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let directory = File::open(folder.path()).unwrap();
        let names = [Ok(b"renamed".to_vec())];
        let mut seen = Vec::new();
        let failed = look_at(&directory, names.into_iter(), |name, stat| seen.push((name.to_owned(), stat.err())));
        assert_eq!((seen, failed), (vec![("renamed".into(), Some(Failed::Gone(DELETED)))], None));
    }

    #[test]
    fn an_entry_that_is_gone_is_told_from_one_that_cannot_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        let directory = File::open(folder.path()).unwrap();
        let failed = || Failed::to("open it")(Errno::NOENT);
        let of = |name: &str| {
            let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_file();
            gone(&directory, OsStr::new(name), is_file, failed())
        };
        // A broken file system may list what nobody can open.
        assert_eq!(["file", "link", "none"].map(of), [failed(), Failed::Gone(REPLACED), Failed::Gone(DELETED)]);
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(of("file"), Failed::Gone(DELETED));
    }
}
