//! Opens folders beneath a root.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Flags with which folders are opened: never through a link.
pub(super) const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the folder with these components, never through a link; makes missing ones when asked.
pub(super) fn open_folder(root: &OwnedFd, parts: &[String], make: bool) -> Result<OwnedFd, Errno> {
    let mut at = rustix::fs::openat(root, ".", DIRECTORY, Mode::empty())?;
    for part in parts {
        let next = rustix::fs::openat(&at, part.as_str(), DIRECTORY, Mode::empty());
        at = match next {
            Err(Errno::NOENT) if make => {
                match rustix::fs::mkdirat(&at, part.as_str(), Mode::RWXU) {
                    Ok(()) => rustix::fs::fsync(&at)?,
                    Err(Errno::EXIST) => {}
                    Err(e) => return Err(e),
                }
                rustix::fs::openat(&at, part.as_str(), DIRECTORY, Mode::empty())?
            }
            other => other?,
        };
    }
    Ok(at)
}
