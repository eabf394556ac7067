//! A file or device that is being restored.

use super::attributes::{Attributes, mark_unfinished};
use super::directory::Directory;
use super::run::{Ended, Run};
use super::zeros::stretches;
use crate::RepositoryError;
use crate::failure::Failed;
use crate::handles::{Identity, Slot, open_beneath, reopen};
use crate::progress::add;
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, fadvise, fallocate, fdatasync, fstat, ftruncate};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes of a file that are written before they are sent to the disk.
const UNSENT: u64 = 32 << 20;

/// The state of a file when the restore comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// It does not exist; what is not written is zero.
    New,
    /// It is there, and changed in place.
    InPlace,
    /// It is a block device.
    Device,
}

/// A file. Its pieces are written in any order by any thread; the last one finishes it.
#[derive(Debug)]
pub(super) struct FileTask {
    place: FilePlace,
    kind: FileKind,
    slot: Arc<Slot>,
    state: Mutex<State>,
    has_failed: AtomicBool,
    /// The walk that comes to its pieces, and each piece that is not written.
    pending: AtomicU64,
    /// Bytes that were written since the last were sent to the disk.
    unsent: AtomicU64,
}

#[derive(Debug)]
struct State {
    identity: Option<Identity>,
    /// True when its size is set and its time says that it is not finished.
    is_begun: bool,
}

/// The place and the attributes of a file.
#[derive(Debug)]
pub(super) struct FilePlace {
    pub(super) directory: Arc<Directory>,
    pub(super) name: OsString,
    pub(super) attributes: Attributes,
    pub(super) size: u64,
}

impl FileTask {
    /// A file that is made when its first piece is there.
    pub(super) fn new(place: FilePlace) -> Arc<Self> {
        Self::begin(place, FileKind::New, None)
    }

    /// A file that is there and open.
    pub(super) fn in_place(place: FilePlace, file: File, run: &Run) -> Result<Arc<Self>, Failed> {
        let identity = Identity::of(&fstat(&file).map_err(Failed::to("look at it"))?);
        let task = Self::begin(place, FileKind::InPlace, Some(identity));
        run.open.keep(&task.slot, &Arc::new(file));
        Ok(task)
    }

    /// A device that is open.
    pub(super) fn device(place: FilePlace, file: File) -> Arc<Self> {
        let mut task = Self::build(place, FileKind::Device, None);
        task.slot = Arc::new(Slot::with(Arc::new(file)));
        Arc::new(task)
    }

    fn begin(place: FilePlace, kind: FileKind, identity: Option<Identity>) -> Arc<Self> {
        Arc::new(Self::build(place, kind, identity))
    }

    fn build(place: FilePlace, kind: FileKind, identity: Option<Identity>) -> Self {
        place.directory.add();
        Self {
            place,
            kind,
            slot: Arc::default(),
            state: Mutex::new(State { identity, is_begun: kind == FileKind::Device }),
            has_failed: AtomicBool::new(false),
            pending: AtomicU64::new(1),
            unsent: AtomicU64::new(0),
        }
    }

    pub(super) fn kind(&self) -> FileKind {
        self.kind
    }

    pub(super) fn size(&self) -> u64 {
        self.place.size
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// The open file, with its size, and marked as unfinished.
    fn file(&self, run: &Run) -> Result<Arc<File>, Failed> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match (self.slot.get(), state.identity) {
            (Some(file), _) => file,
            (None, Some(identity)) => {
                reopen(&*self.place.directory.file(run)?, &self.place.name, OFlags::RDWR, identity)?
            }
            (None, None) => {
                // Attributes come last; until then it is nobody else's.
                let mode = if run.options.permissions { 0o600 } else { 0o666 };
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
                let directory = self.place.directory.file(run)?;
                let file = open_beneath(&directory, &self.place.name, flags, Mode::from_raw_mode(mode));
                let file = file.map_err(Failed::to("create it"))?;
                state.identity = Some(Identity::of(&fstat(&file).map_err(Failed::to("look at it"))?));
                Arc::new(file)
            }
        };
        if !state.is_begun {
            let size = file.metadata().map_err(Failed::io("look at it"))?.len();
            if size != self.place.size {
                ftruncate(&file, self.place.size).map_err(Failed::to("set its size"))?;
            }
            mark_unfinished(&file)?;
            state.is_begun = true;
        }
        drop(state);
        if self.kind != FileKind::Device {
            run.open.keep(&self.slot, &file);
        }
        Ok(file)
    }

    /// Reads the bytes that are there, for comparison. `None` where they cannot be read; beyond the end they are zero.
    pub(super) fn read(&self, run: &Run, offset: u64, length: usize) -> Option<Vec<u8>> {
        let file = match self.slot.get() {
            Some(file) => file,
            None => {
                let identity = self.state.lock().unwrap_or_else(PoisonError::into_inner).identity?;
                reopen(&*self.place.directory.file(run).ok()?, &self.place.name, OFlags::RDWR, identity).ok()?
            }
        };
        let mut bytes = vec![0; length];
        let mut at = 0;
        while at < length {
            match file.read_at(bytes.get_mut(at..)?, offset + at as u64) {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        Some(bytes)
    }

    /// Takes note of a piece that will come.
    pub(super) fn add(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes a piece.
    pub(super) fn take(&self, run: &Run, offset: u64, bytes: &[u8]) -> Result<(), Ended> {
        // Where another piece is lost the rest may still be of use, such as of the image of a disk.
        let written = self.file(run).and_then(|file| {
            self.write(run, &file, offset, bytes)?;
            self.send(run, &file, bytes.len() as u64)
        });
        if let Err(failed) = written {
            self.fail(run, &failed)?;
        }
        self.release(run)
    }

    /// Takes note of a piece that cannot be had.
    pub(super) fn lose(&self, run: &Run, error: RepositoryError) -> Result<(), Ended> {
        self.fail_repository(run, error)?;
        self.release(run)
    }

    fn write(&self, run: &Run, file: &File, offset: u64, bytes: &[u8]) -> Result<(), Failed> {
        let write = |bytes: &[u8], offset| {
            file.write_all_at(bytes, offset).map_err(Failed::io("write it"))?;
            add(&run.progress.bytes_written, bytes.len() as u64);
            Ok(())
        };
        if !run.options.sparse {
            return write(bytes, offset);
        }
        for stretch in stretches(offset, bytes) {
            let (at, length) = (offset + stretch.range.start as u64, stretch.range.len() as u64);
            let is_written = match self.kind {
                _ if !stretch.is_zero => false,
                FileKind::New => true,
                // Where the file system or device has no such call zeros are written.
                FileKind::InPlace => {
                    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length).is_ok()
                }
                FileKind::Device => {
                    fallocate(file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, at, length).is_ok()
                }
            };
            if !is_written {
                write(bytes.get(stretch.range).unwrap_or_default(), at)?;
            }
        }
        Ok(())
    }

    /// Sends what was written of a long file to the disk, and drops its pages. At the end everything has to be there; until
    /// then it would fill the memory of the machine, and new pages take longer to get than the disk takes to write.
    fn send(&self, run: &Run, file: &File, bytes: u64) -> Result<(), Failed> {
        if !run.options.sync || self.unsent.fetch_add(bytes, Ordering::Relaxed) + bytes < UNSENT {
            return Ok(());
        }
        self.unsent.store(0, Ordering::Relaxed);
        fdatasync(file).map_err(Failed::to("write it to the disk"))?;
        // Where the kernel keeps them nothing is lost.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
        Ok(())
    }

    /// Records that the file is not as the snapshot has it. Only the first reason is told.
    pub(super) fn fail(&self, run: &Run, failed: &Failed) -> Result<(), Ended> {
        if self.has_failed.swap(true, Ordering::AcqRel) { Ok(()) } else { run.fail(&self.path(), failed) }
    }

    /// As [`FileTask::fail`], for errors of the repository.
    pub(super) fn fail_repository(&self, run: &Run, error: RepositoryError) -> Result<(), Ended> {
        if self.has_failed.swap(true, Ordering::AcqRel) { Ok(()) } else { run.fail_repository(&self.path(), error) }
    }

    fn path(&self) -> String {
        self.place.directory.path(&self.place.name)
    }

    /// Takes note of a piece or of the walk that is done. The last one finishes the file.
    pub(super) fn release(&self, run: &Run) -> Result<(), Ended> {
        if self.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
            return Ok(());
        }
        if !self.has_failed()
            && let Err(failed) = self.finish(run)
        {
            self.fail(run, &failed)?;
        }
        if self.has_failed() {
            // What is there of it may be of use, but is not taken for the whole.
            if self.kind != FileKind::Device
                && let Some(file) = self.slot.get()
            {
                let _ = mark_unfinished(&file);
            }
        } else {
            add(&run.progress.files, 1);
        }
        self.slot.close();
        self.place.directory.release(run)
    }

    fn finish(&self, run: &Run) -> Result<(), Failed> {
        match self.kind {
            FileKind::New => self.place.attributes.apply(&*self.file(run)?, run),
            FileKind::Device => Ok(()),
            // Where nothing was written its time is only set when it differs.
            FileKind::InPlace => {
                let identity = self.state.lock().unwrap_or_else(PoisonError::into_inner).identity;
                let file = match (self.slot.get(), identity) {
                    (None, Some(identity)) => {
                        reopen(&*self.place.directory.file(run)?, &self.place.name, OFlags::RDWR, identity)?
                    }
                    (Some(file), _) => file,
                    (None, None) => self.file(run)?,
                };
                let size = file.metadata().map_err(Failed::io("look at it"))?.len();
                if size != self.place.size {
                    ftruncate(&file, self.place.size).map_err(Failed::to("set its size"))?;
                }
                self.place.attributes.apply(&file, run)
            }
        }
    }
}
