//! The first look at the place of an entry: what is there, and whether it may go.

use super::directory::Directory;
use super::extra::remove_tree;
use super::options::Existing;
use super::run::Run;
use crate::failure::Failed;
use rustix::fs::{AtFlags, FileType, Stat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;

pub(super) fn look(at: &File, name: &OsStr) -> Result<Option<Stat>, Failed> {
    match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(Failed::to("look at its place")(e)),
    }
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Removes what is in the place of something else.
pub(super) fn make_room(run: &Run, directory: &Directory, name: &OsStr, stat: &Stat) -> Result<(), Failed> {
    let at = directory.file(run)?;
    if !kind(stat).is_dir() {
        return unlinkat(&at, name, AtFlags::empty()).map_err(Failed::to("remove what is in its place"));
    }
    match unlinkat(&at, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) if run.options.delete_extra => {
            run.note(|report| report.deleted += 1);
            remove_tree(run, &at, name, directory.device())
        }
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            let why = "a directory that is not empty is in its place; it is removed only where entries that the snapshot does not have are deleted";
            Err(Failed::Because(why.to_owned()))
        }
        other => other.map_err(Failed::to("remove the directory in its place")),
    }
}

pub(super) fn keeps(run: &Run) -> Result<(), Failed> {
    match run.options.existing {
        Existing::Keep => Err(Failed::Because("it is there already, and what is there is kept".to_owned())),
        _ => Ok(()),
    }
}
