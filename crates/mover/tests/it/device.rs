//! Block devices.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A block device over a file.
pub(crate) struct Loop(pub(crate) PathBuf);

impl Loop {
    /// `None` where this process may not make one; root can, where the kernel has them.
    pub(crate) fn over(file: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        if !Path::new("/dev/loop-control").exists() {
            let is_required = std::env::var_os("LIFEBOAT_TEST_DEVICES").is_some();
            assert!(!is_required, "no /dev/loop-control: load the module loop (modprobe loop)");
            return None;
        }
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().expect("losetup runs");
        assert!(made.status.success(), "no block device: {}", String::from_utf8_lossy(&made.stderr));
        Some(Self(String::from_utf8(made.stdout).unwrap().trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        assert!(Command::new("losetup").arg("--detach").arg(&self.0).status().unwrap().success());
    }
}
