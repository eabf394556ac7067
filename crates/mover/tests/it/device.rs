//! Block devices.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A block device over a file.
pub(crate) struct Loop(pub(crate) PathBuf);

impl Loop {
    /// `None` where this process may not make one.
    pub(crate) fn over(file: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        made.status.success().then(|| Self(String::from_utf8(made.stdout).unwrap().trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        assert!(Command::new("losetup").arg("--detach").arg(&self.0).status().unwrap().success());
    }
}
