//! `lifeboat volume cat`.

use super::saved::{OpenVolume, SavedVolumeArgs};
use crate::commands::repo::cat::{PrintedBytes, print_bytes};
use anyhow::Result;
use clap::Args;
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

/// `lifeboat volume cat BACKUP VOLUME [PATH]`.
#[derive(Debug, Args)]
pub(crate) struct VolumeCatArgs {
    #[command(flatten)]
    pub(crate) volume: SavedVolumeArgs,
    /// The path of a file in the volume; left out for a block device, whose bytes are printed
    #[arg(default_value = "", hide_default_value = true)]
    path: String,
}

impl VolumeCatArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.volume.open(&self.path, globals).await?;
        opened.gaps.warn(&opened.snapshot);
        let OpenVolume { source, entry, length, described, .. } = opened;
        let what = if self.path.is_empty() { described } else { format!("{} of {described}", self.path) };
        print_bytes(&source, PrintedBytes { entry: &entry, length }, &what).await
    }
}
