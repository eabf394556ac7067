//! A walk through the keys of a directory.

use super::folder::{DIRECTORY, open_folder};
use crate::Listed;
use crate::key::{components, is_temporary};
use crate::page::Mark;
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

/// Goes through the objects whose keys begin with a prefix, in key order. It reads a folder when it comes to it, and none
/// that its listing is past.
pub(super) struct KeyWalk<'a> {
    prefix: &'a str,
    /// The folders that it is in, the innermost last.
    open: Vec<Folder>,
    #[cfg(test)]
    read: usize,
}

struct Folder {
    itself: OwnedFd,
    /// The common beginning of the keys in it: empty, or a text that ends with a slash.
    start: String,
    /// Keys of files, and what keys in folders begin with, the first of them last.
    left: Vec<String>,
}

impl<'a> KeyWalk<'a> {
    /// Begins at the folder that holds all keys with this prefix; without it there are none.
    pub(super) fn open(root: &OwnedFd, prefix: &'a str) -> Result<Self, Errno> {
        let mut walk = Self {
            prefix,
            open: Vec::new(),
            #[cfg(test)]
            read: 0,
        };
        let start = prefix.rfind('/').map_or("", |at| &prefix[..=at]);
        let parts = match start.strip_suffix('/').map(components) {
            None => Vec::new(),
            Some(Some(parts)) => parts.into_iter().map(str::to_owned).collect(),
            Some(None) => return Ok(walk),
        };
        match open_folder(root, &parts, false) {
            Ok(folder) => walk.enter(folder, start.to_owned())?,
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(e) => return Err(e),
        }
        Ok(walk)
    }

    /// The first object, of those that were not given out, that the listing is not past.
    pub(super) fn next(&mut self, mark: &Mark) -> Result<Option<Listed>, Errno> {
        while let Some(folder) = self.open.last_mut() {
            let Some(key) = folder.left.pop().filter(|_| !mark.is_past_all(&folder.start)) else {
                self.open.pop();
                continue;
            };
            let name = &key[folder.start.len()..];
            if let Some(name) = name.strip_suffix('/') {
                if mark.is_past_all(&key) {
                    continue;
                }
                match rustix::fs::openat(&folder.itself, name, DIRECTORY, Mode::empty()) {
                    Ok(below) => self.enter(below, key)?,
                    // Gone meanwhile.
                    Err(Errno::NOENT) => {}
                    Err(e) => return Err(e),
                }
            } else if !mark.is_past(&key)
                && let Some((size, modified)) = file(&folder.itself, name)?
            {
                return Ok(Some(Listed { key, size: Some(size), modified }));
            }
        }
        Ok(None)
    }

    fn enter(&mut self, folder: OwnedFd, start: String) -> Result<(), Errno> {
        let mut left = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." || is_temporary(name) {
                continue;
            }
            let key = match file_type(&folder, &entry)? {
                // The slash sorts it among the files beside it as the keys in it are sorted.
                Some(FileType::Directory) => format!("{start}{name}/"),
                Some(FileType::RegularFile) => format!("{start}{name}"),
                _ => continue,
            };
            if key.starts_with(self.prefix) {
                left.push(key);
            }
        }
        left.sort_unstable_by(|a, b| b.cmp(a));
        self.open.push(Folder { itself: folder, start, left });
        #[cfg(test)]
        {
            self.read += 1;
        }
        Ok(())
    }
}

/// None when it is gone meanwhile.
fn file_type(folder: &OwnedFd, entry: &DirEntry) -> Result<Option<FileType>, Errno> {
    match entry.file_type() {
        // Not every file system says it here.
        FileType::Unknown => match rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e),
        },
        known => Ok(Some(known)),
    }
}

/// Size and time of a file; none when it is gone meanwhile, or something else.
fn file(folder: &OwnedFd, name: &str) -> Result<Option<(u64, Option<SystemTime>)>, Errno> {
    let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(e) => return Err(e),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    Ok(Some((size, time(stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)))))
}

/// The time of a stat, to the nanosecond; also one before 1970, which some tools leave.
fn time(seconds: i64, nanoseconds: u32) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole)?,
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole)?,
    };
    second.checked_add(Duration::from_nanos(u64::from(nanoseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::page_of;
    use crate::{Directory, Entry, ListOptions};

    fn bucket(keys: &[String]) -> (tempfile::TempDir, Directory) {
        let root = tempfile::tempdir().unwrap();
        for key in keys {
            let path = root.path().join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, key).unwrap();
        }
        let bucket = Directory::open(root.path()).unwrap();
        (root, bucket)
    }

    /// The names of each page, and how many folders were read for it.
    fn pages(bucket: &Directory, mut options: ListOptions) -> Vec<(Vec<String>, usize)> {
        let mut pages = Vec::new();
        loop {
            let mut walk = KeyWalk::open(&bucket.inner.root, &options.prefix).unwrap();
            let page = page_of(&options, |mark| walk.next(mark)).unwrap();
            let name = |entry: Entry| match entry {
                Entry::Prefix(prefix) => prefix,
                Entry::Object(info) => {
                    assert_eq!(info.size, Some(info.key.len() as u64), "{info:?}");
                    info.key
                }
            };
            pages.push((page.entries.into_iter().map(name).collect(), walk.read));
            match page.continuation {
                None => return pages,
                next => options.continuation = next,
            }
        }
    }

    fn options(prefix: &str, delimiter: Option<&str>, page_size: usize) -> ListOptions {
        let delimiter = delimiter.map(str::to_owned);
        ListOptions { prefix: prefix.to_owned(), delimiter, page_size, ..ListOptions::default() }
    }

    #[test]
    fn pages_of_every_size_are_the_listing() {
        let keys = [
            "a-",
            "a-/x",
            "a-b/c/d",
            "a.",
            "a./x",
            "a/-",
            "a/-x/y",
            "a/.x",
            "a/0",
            "a/b",
            "a/b-c",
            "a/b-c.d/e",
            "a/b.c",
            "a/c/d/e/f",
            "a/c/d/e0",
            "a0",
            "a0b/c",
            "b",
            "é/漢",
        ];
        // A name is a file or a folder, not both.
        let folder_too = |key: &str| keys.iter().any(|other| other.starts_with(&format!("{key}/")));
        let keys: Vec<String> = keys.into_iter().filter(|key| !folder_too(key)).map(str::to_owned).collect();
        let (_root, bucket) = bucket(&keys);
        for prefix in
            ["", "a", "a-", "a/", "a/b", "a/b-c", "a/c/d/", "a/c/d/e", "a0", "none", "none/x", "b/", "//", "é/"]
        {
            for delimiter in [None, Some("/"), Some("-"), Some("/c")] {
                let mut expected: Vec<String> = Vec::new();
                for key in keys.iter().filter(|key| key.starts_with(prefix)) {
                    let rolled =
                        delimiter.and_then(|d| key[prefix.len()..].find(d).map(|at| prefix.len() + at + d.len()));
                    expected.push(key[..rolled.unwrap_or(key.len())].to_owned());
                }
                expected.sort();
                expected.dedup();
                for page_size in [0, 1, 2, 3, 5, 100] {
                    let pages = pages(&bucket, options(prefix, delimiter, page_size));
                    let names: Vec<String> = pages.into_iter().flat_map(|(names, _)| names).collect();
                    assert_eq!(names, expected, "{prefix:?} {delimiter:?} {page_size}");
                }
            }
        }
    }

    #[test]
    fn a_page_reads_the_folders_of_its_own_keys() {
        let keys: Vec<String> =
            (0..20).flat_map(|folder| (0..5).map(move |n| format!("b/{folder:02}/x/{n}"))).collect();
        let (_root, bucket) = bucket(&keys);
        let read = |options| pages(&bucket, options).into_iter().map(|(_, read)| read).collect::<Vec<_>>();
        // The one above, two of each of its own, two to see that there is more, two to go on where the last one ended.
        let ten = [[7].as_slice(), &[9; 8], &[7]].concat();
        assert_eq!(read(options("b/", None, 10)), ten);
        // Of each folder only whether there is anything in it.
        assert_eq!(read(options("b/", Some("/"), 10)), [23, 21]);
        assert_eq!(read(options("b/07/", None, 0)), [2]);
    }

    #[test]
    fn a_listing_has_times_to_the_nanosecond_as_the_file_system_has_them() {
        let (_root, bucket) = bucket(&["a".to_owned(), "b".to_owned()]);
        let after = SystemTime::UNIX_EPOCH + Duration::new(1_704_164_645, 123_456_789);
        let before = SystemTime::UNIX_EPOCH - Duration::from_nanos(7);
        for (name, time) in [("a", after), ("b", before)] {
            let file = std::fs::File::options().write(true).open(bucket.inner.path.join(name)).unwrap();
            file.set_modified(time).unwrap();
        }
        let mut walk = KeyWalk::open(&bucket.inner.root, "").unwrap();
        let page = page_of(&ListOptions::default(), |mark| walk.next(mark)).unwrap();
        let times = page.entries.into_iter().map(|entry| match entry {
            Entry::Object(listed) => listed.modified,
            Entry::Prefix(_) => None,
        });
        assert_eq!(times.collect::<Vec<_>>(), [Some(after), Some(before)]);
    }
}
