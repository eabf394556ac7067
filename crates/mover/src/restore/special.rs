//! Pipes and devices, which have no bytes. They are made at once.

use super::directory::Directory;
use super::in_place::{keeps, kind, look, make_room};
use super::run::Run;
use crate::failure::Failed;
use crate::handles::open_beneath;
use crate::tree::{Attributes, SpecialFile};
use rustix::fs::{FileType, Mode, OFlags, chmod, fstat, mknodat};
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Makes a pipe or device with its attributes. A socket is counted and left out.
pub(super) fn prepare_special(
    run: &Run,
    directory: &Arc<Directory>,
    name: &OsStr,
    special: SpecialFile,
    attributes: &Attributes,
) -> Result<(), Failed> {
    let (file_type, number) = match special {
        SpecialFile::Socket => {
            run.note(|report| report.sockets += 1);
            return Ok(());
        }
        SpecialFile::Pipe => (FileType::Fifo, 0),
        SpecialFile::CharacterDevice(number) => (FileType::CharacterDevice, number),
        SpecialFile::BlockDevice(number) => (FileType::BlockDevice, number),
    };
    let at = directory.file(run)?;
    let existing = if directory.is_new() { None } else { look(&at, name)? };
    if let Some(stat) = &existing {
        keeps(run)?;
        if kind(stat) == file_type && (file_type == FileType::Fifo || stat.st_rdev == number) {
            return set_attributes(run, directory, name, attributes);
        }
        make_room(run, directory, name, stat)?;
    }
    mknodat(&at, name, file_type, Mode::from_raw_mode(0o600), number).map_err(Failed::to("make the pipe or device"))?;
    set_attributes(run, directory, name, attributes)
}

fn set_attributes(run: &Run, directory: &Directory, name: &OsStr, attributes: &Attributes) -> Result<(), Failed> {
    let at = directory.file(run)?;
    if run.options.permissions {
        // The file itself, whatever has its name now; opening a device would wake it.
        let file = open_beneath(&at, name, OFlags::PATH, Mode::empty()).map_err(Failed::to("open it"))?;
        let stat = fstat(&file).map_err(Failed::to("look at it"))?;
        if kind(&stat).is_symlink() {
            return Err(Failed::Because("another program has replaced it meanwhile".to_owned()));
        }
        let mode = Mode::from_raw_mode(attributes.mode & 0o777);
        chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode).map_err(Failed::to("set its permissions"))?;
    }
    attributes.apply_to_link(&at, name, run)
}
