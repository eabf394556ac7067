//! The parts of a backup that change the cluster; the rest only reads it.

use crate::hook::Commands;
use lifeboat_volume::csi::CsiSnapshots;
use lifeboat_volume::fs_backup::FileBackups;
use lifeboat_volume::native::NativeSnapshots;
use std::sync::{Arc, OnceLock};

/// The parts of a backup that change the cluster; a preview has none of them. Clones share them.
#[derive(Clone)]
pub(crate) struct SideEffects {
    /// Runs commands in containers.
    pub(crate) commands: Commands,
    snapshots: Arc<OnceLock<CsiSnapshots>>,
    native: Arc<OnceLock<NativeSnapshots>>,
    files: Arc<OnceLock<FileBackups>>,
}

impl SideEffects {
    pub(crate) fn new(commands: Commands) -> Self {
        Self { commands, snapshots: Arc::default(), native: Arc::default(), files: Arc::default() }
    }

    /// Notes what takes CSI snapshots, so that it can be ended however the backup ends.
    pub(crate) fn hold(&self, snapshots: &CsiSnapshots) {
        // There is one scope in a backup, which holds one.
        let _ = self.snapshots.set(snapshots.clone());
    }

    /// Notes what takes native snapshots, for the same.
    pub(crate) fn hold_native(&self, snapshots: NativeSnapshots) {
        let _ = self.native.set(snapshots);
    }

    /// Notes what saves the files of volumes, for the same.
    pub(crate) fn hold_files(&self, files: FileBackups) {
        let _ = self.files.set(files);
    }

    /// The volumes that are saved by their files, if there is a node agent.
    pub(crate) fn files(&self) -> Option<&FileBackups> {
        self.files.get()
    }

    /// The CSI snapshots of the backup, if any are taken.
    pub(crate) fn snapshots(&self) -> Option<&CsiSnapshots> {
        self.snapshots.get()
    }

    /// The native snapshots of the backup, if there is a location for them.
    pub(crate) fn native(&self) -> Option<&NativeSnapshots> {
        self.native.get()
    }
}
