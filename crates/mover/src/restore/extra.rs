//! Deletion of entries that the snapshot does not have.

use super::directory::{DIRECTORY, Directory};
use super::names::KnownNames;
use super::run::{Ended, Run};
use crate::failure::Failed;
use crate::handles::open_beneath;
use rustix::fs::{AtFlags, Dir, FileType, Mode, fstat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The deepest nesting that is removed: each level is an open directory.
const MAX_DEPTH: usize = 100;
/// The directory that file systems make for themselves at their root.
const LOST_AND_FOUND: &str = "lost+found";

/// Removes what a directory of the snapshot does not have.
pub(super) fn delete_extra(run: &Run, directory: &Arc<Directory>, names: &KnownNames) -> Result<(), Ended> {
    let listed = directory.file(run).and_then(|file| {
        let listing = Dir::read_from(&file).map_err(Failed::to("list the directory"))?;
        Ok((file, listing))
    });
    let (file, listing) = match listed {
        Ok(listed) => listed,
        Err(failed) => return run.fail(&directory.path(OsStr::new("")), &failed),
    };
    for entry in listing {
        let _step = run.enter()?;
        let entry = match entry {
            Ok(entry) => entry,
            Err(e) => return run.fail(&directory.path(OsStr::new("")), &Failed::to("list the directory")(e)),
        };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let is_own = name == "." || name == ".." || directory.depth() == 0 && name == LOST_AND_FOUND;
        if is_own || names.contains(name) {
            continue;
        }
        match remove_tree(run, &file, name, directory.device()) {
            Ok(()) => run.note(|report| report.deleted += 1),
            Err(failed) => run.fail(&directory.path(name), &failed)?,
        }
    }
    Ok(())
}

/// A directory that is being emptied.
struct Level {
    file: File,
    listing: Dir,
    name: OsString,
}

/// Removes a name with everything below it. Symlinks are removed themselves; what is on another device stays.
pub(super) fn remove_tree(run: &Run, at: &File, name: &OsStr, device: u64) -> Result<(), Failed> {
    if !remove_or_enter(at, name)? {
        return Ok(());
    }
    let mut levels = vec![Level::open(at, name, device)?];
    while let Some(level) = levels.last_mut() {
        if run.is_over() {
            return Err(Failed::Because("the restore was ended".to_owned()));
        }
        match level.listing.next() {
            Some(entry) => {
                let entry = entry.map_err(Failed::to("list a directory in it"))?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." || !remove_or_enter(&level.file, name)? {
                    continue;
                }
                let next = Level::open(&level.file, name, device)?;
                if levels.len() >= MAX_DEPTH {
                    return Err(Failed::Because(format!(
                        "it has more than {MAX_DEPTH} directories in each other: remove it by hand"
                    )));
                }
                levels.push(next);
            }
            None => {
                let Some(done) = levels.pop() else { break };
                let above = levels.last().map_or(at, |level| &level.file);
                unlinkat(above, &done.name, AtFlags::REMOVEDIR).map_err(Failed::to("delete a directory"))?;
            }
        }
    }
    Ok(())
}

/// Removes what is no directory. True for a directory, which is to be emptied first.
fn remove_or_enter(at: &File, name: &OsStr) -> Result<bool, Failed> {
    let stat = match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(false),
        stat => stat.map_err(Failed::to("look at what is to be deleted"))?,
    };
    if FileType::from_raw_mode(stat.st_mode).is_dir() {
        return Ok(true);
    }
    match unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(Failed::to("delete it")(e)),
    }
}

impl Level {
    fn open(at: &File, name: &OsStr, device: u64) -> Result<Self, Failed> {
        let file = open_beneath(at, name, DIRECTORY, Mode::empty())
            .map_err(Failed::to("open a directory that is to be deleted"))?;
        if fstat(&file).map_err(Failed::to("look at it"))?.st_dev != device {
            return Err(Failed::Because("another file system is mounted in it, and is not emptied".to_owned()));
        }
        let listing = Dir::read_from(&file).map_err(Failed::to("list a directory that is to be deleted"))?;
        Ok(Self { file, listing, name: name.to_owned() })
    }
}
