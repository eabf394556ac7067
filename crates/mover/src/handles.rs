//! Open files, of which there are only so many at once.

use crate::failure::Failed;
use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub(crate) use lifeboat_kopia::snapshot::MAX_DEPTH;

/// The directories that stay open when one far below is opened again: those above it are wanted next.
pub(crate) const KEPT_OPEN: usize = 32;

/// The failure of an entry that lies too deep.
pub(crate) fn too_deep() -> Failed {
    Failed::Because(format!("it lies in more than {MAX_DEPTH} directories, and is left out"))
}

/// The place of one open file. It may be empty at any time; who needs the file opens it again then.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    file: Mutex<Option<Arc<File>>>,
}

impl Slot {
    /// A place with a file that nobody takes out.
    pub(crate) fn with(file: Arc<File>) -> Self {
        Self { file: Mutex::new(Some(file)) }
    }

    pub(crate) fn get(&self) -> Option<Arc<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn close(&self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The places whose files are open, the oldest first.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    limit: usize,
    slots: Mutex<VecDeque<Weak<Slot>>>,
}

impl OpenFiles {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, slots: Mutex::default() }
    }

    /// Puts a file into its place, and closes the one that was opened longest ago when there are too many.
    pub(crate) fn keep(&self, slot: &Arc<Slot>, file: &Arc<File>) {
        *slot.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file.clone());
        let oldest = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.push_back(Arc::downgrade(slot));
            if slots.len() > self.limit { slots.pop_front() } else { None }
        };
        if let Some(oldest) = oldest.and_then(|slot| slot.upgrade()) {
            oldest.close();
        }
    }
}

/// The identity of a file beyond its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The device of the file system.
    pub(crate) fn device(self) -> u64 {
        self.device
    }

    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Opens a name of a directory, never through a link, never waiting for the other end of a pipe.
pub(crate) fn open_beneath(directory: &File, name: &OsStr, flags: OFlags, mode: Mode) -> Result<File, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    openat(directory, name, flags, mode).map(File::from)
}

/// Opens a name again that was this file before. Whatever else has the name now is refused.
pub(crate) fn reopen(directory: &File, name: &OsStr, flags: OFlags, identity: Identity) -> Result<Arc<File>, Failed> {
    let file = open_beneath(directory, name, flags, Mode::empty()).map_err(Failed::to("open it again"))?;
    let stat = fstat(&file).map_err(Failed::to("look at it"))?;
    if Identity::of(&stat) == identity {
        Ok(Arc::new(file))
    } else {
        Err(Failed::Because("another program has replaced it meanwhile".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_was_opened_first_is_closed_when_there_are_too_many() {
        let open = OpenFiles::new(2);
        let slots = [(); 3].map(|()| Arc::new(Slot::default()));
        let file = Arc::new(File::open("/dev/null").unwrap());
        let is_open = || slots.each_ref().map(|slot| slot.get().is_some());
        open.keep(&slots[0], &file);
        open.keep(&slots[1], &file);
        assert_eq!(is_open(), [true, true, false]);
        open.keep(&slots[2], &file);
        assert_eq!(is_open(), [false, true, true]);
        open.keep(&slots[0], &file);
        assert_eq!(is_open(), [true, false, true]);
    }
}
