//! A symlink that is being restored.

use super::attributes::Attributes;
use super::directory::Directory;
use super::run::{Ended, Run};
use crate::RepositoryError;
use crate::failure::Failed;
use crate::progress::add;
use rustix::fs::{AtFlags, symlinkat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The longest target that Linux takes.
pub(super) const MAX_TARGET: u64 = 4095;

/// A symlink.
#[derive(Debug)]
pub(super) struct LinkTask {
    pub(super) directory: Arc<Directory>,
    pub(super) name: OsString,
    pub(super) attributes: Attributes,
    /// The target of the symlink that has the name now.
    pub(super) existing: Option<Vec<u8>>,
}

impl LinkTask {
    /// Makes the symlink, in the place of one with another target.
    pub(super) fn make(&self, run: &Run, target: &[u8]) -> Result<(), Ended> {
        let made = self.directory.file(run).and_then(|directory| {
            if self.existing.is_some() {
                unlinkat(&directory, &self.name, AtFlags::empty()).map_err(Failed::to("replace the symlink"))?;
            }
            symlinkat(OsStr::from_bytes(target), &directory, &self.name).map_err(Failed::to("make the symlink"))?;
            self.attributes.apply_to_link(&directory, &self.name, run)
        });
        self.end(run, made)
    }

    /// Leaves a symlink that has its target, and sets its attributes.
    pub(super) fn keep(&self, run: &Run) -> Result<(), Ended> {
        let kept =
            self.directory.file(run).and_then(|directory| self.attributes.apply_to_link(&directory, &self.name, run));
        add(&run.progress.bytes_unchanged, self.existing.as_ref().map_or(0, Vec::len) as u64);
        self.end(run, kept)
    }

    /// Records that the target cannot be had.
    pub(super) fn lose(&self, run: &Run, error: RepositoryError) -> Result<(), Ended> {
        run.fail_repository(&self.path(), error)?;
        self.directory.release(run)
    }

    /// Records that the symlink cannot be made.
    pub(super) fn refuse(&self, run: &Run, why: &str) -> Result<(), Ended> {
        self.end(run, Err(Failed::Because(why.to_owned())))
    }

    fn end(&self, run: &Run, result: Result<(), Failed>) -> Result<(), Ended> {
        match result {
            Ok(()) => add(&run.progress.symlinks, 1),
            Err(failed) => run.fail(&self.path(), &failed)?,
        }
        self.directory.release(run)
    }

    fn path(&self) -> String {
        self.directory.path(&self.name)
    }
}
