//! A directory of the target that is being restored.

use super::attributes::Attributes;
use super::run::{Ended, Run};
use crate::failure::Failed;
use crate::handles::{Identity, KEPT_OPEN, Slot, reopen};
use crate::progress::add;
use rustix::fs::{Mode, OFlags, fchmod, fstat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The flags by which directories are opened.
pub(super) const DIRECTORY: OFlags = OFlags::DIRECTORY;

/// A directory. It is finished when its listing is done and everything in it.
#[derive(Debug)]
pub(super) struct Directory {
    parent: Option<Arc<Directory>>,
    name: OsString,
    depth: usize,
    identity: Identity,
    slot: Arc<Slot>,
    changes: DirectoryChanges,
    /// The listing, and each entry in it that is not finished.
    pending: AtomicU64,
}

/// A directory that was opened.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    pub(super) file: File,
    pub(super) changes: DirectoryChanges,
}

/// The changes that a restore makes in a directory itself.
#[derive(Debug, Default)]
pub(super) struct DirectoryChanges {
    /// True where it was made by this restore, so that nothing is in it.
    pub(super) is_new: bool,
    /// `None` where it is only the place of something else, and stays as it is.
    pub(super) attributes: Option<Attributes>,
    /// The permissions that it had before it was opened up for writing.
    pub(super) mode_before: Option<u32>,
}

impl Directory {
    /// The directory of the target itself.
    pub(super) fn root(opened: OpenDirectory) -> Result<Arc<Self>, Failed> {
        let OpenDirectory { file, changes } = opened;
        let identity = Identity::of(&fstat(&file).map_err(Failed::to("look at it"))?);
        // It is not among those that are closed when there are too many.
        let slot = Arc::new(Slot::with(Arc::new(file)));
        let (name, pending) = (OsString::new(), AtomicU64::new(1));
        Ok(Arc::new(Self { parent: None, name, depth: 0, identity, slot, changes, pending }))
    }

    /// A directory in this one.
    pub(super) fn child(self: &Arc<Self>, name: &OsStr, opened: OpenDirectory, run: &Run) -> Result<Arc<Self>, Failed> {
        let OpenDirectory { file, changes } = opened;
        let identity = Identity::of(&fstat(&file).map_err(Failed::to("look at it"))?);
        let slot = Arc::new(Slot::default());
        run.open.keep(&slot, &Arc::new(file));
        self.add();
        Ok(Arc::new(Self {
            parent: Some(self.clone()),
            name: name.to_owned(),
            depth: self.depth + 1,
            identity,
            slot,
            changes,
            pending: AtomicU64::new(1),
        }))
    }

    pub(super) fn is_new(&self) -> bool {
        self.changes.is_new
    }

    /// The number of directories above it.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn device(&self) -> u64 {
        self.identity.device()
    }

    /// The path of a name in it, below the target.
    pub(super) fn path(&self, name: &OsStr) -> String {
        let mut names = vec![name];
        let mut at = self;
        while let Some(parent) = &at.parent {
            names.push(&at.name);
            at = parent;
        }
        names.reverse();
        let path = names.join(OsStr::new("/"));
        path.to_string_lossy().into_owned()
    }

    /// Its own path below the target; empty for the target.
    pub(super) fn own_path(&self) -> String {
        self.parent.as_ref().map_or_else(String::new, |parent| parent.path(&self.name))
    }

    /// The open directory. Where it was closed meanwhile it is opened again, from the nearest one above it that is open.
    pub(super) fn file(&self, run: &Run) -> Result<Arc<File>, Failed> {
        let mut closed = Vec::new();
        let mut at = self;
        let mut file = loop {
            if let Some(file) = at.slot.get() {
                break file;
            }
            closed.push(at);
            // The root is always open.
            at = at.parent.as_ref().ok_or_else(|| Failed::Because("the target is closed".to_owned()))?;
        };
        while let Some(directory) = closed.pop() {
            file = reopen(&file, &directory.name, DIRECTORY, directory.identity)?;
            if closed.len() < KEPT_OPEN {
                run.open.keep(&directory.slot, &file);
            }
        }
        Ok(file)
    }

    /// Takes note of one more entry that is not finished.
    pub(super) fn add(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes note of an entry or of the listing that is finished. The last one finishes the directory.
    pub(super) fn release(self: &Arc<Self>, run: &Run) -> Result<(), Ended> {
        let mut at = self;
        while at.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            if let Err(failed) = at.finish(run) {
                run.fail(&at.own_path(), &failed)?;
            }
            match &at.parent {
                Some(parent) => at = parent,
                None => break,
            }
        }
        Ok(())
    }

    fn finish(&self, run: &Run) -> Result<(), Failed> {
        let Some(attributes) = &self.changes.attributes else { return Ok(()) };
        let file = self.file(run)?;
        if let Some(mode) = self.changes.mode_before.filter(|_| !run.options.permissions) {
            fchmod(&file, Mode::from_raw_mode(mode)).map_err(Failed::to("set its permissions"))?;
        }
        attributes.apply(&file, run)?;
        if self.parent.is_some() {
            self.slot.close();
        }
        add(&run.progress.directories, 1);
        Ok(())
    }
}

impl Drop for Directory {
    /// Ends those above it that nobody else has one after the other, however many they are.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut directory) = parent.and_then(Arc::into_inner) {
            parent = directory.parent.take();
        }
    }
}
