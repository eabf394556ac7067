//! `lifeboat volume ls`.

use super::saved::{OpenVolume, SavedVolumeArgs};
use crate::commands::repo::list::{ListingArgs, entry_document};
use anyhow::Result;
use clap::Args;
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// `lifeboat volume ls BACKUP VOLUME [PATH]`.
#[derive(Debug, Args)]
pub(crate) struct VolumeLsArgs {
    #[command(flatten)]
    pub(crate) volume: SavedVolumeArgs,
    /// A path in the volume; its root when left out
    #[arg(default_value = "", hide_default_value = true)]
    path: String,
    #[command(flatten)]
    listing: ListingArgs,
}

impl VolumeLsArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let opened = self.volume.open(&self.path, globals).await?;
        opened.gaps.warn(&opened.snapshot);
        let OpenVolume { source, entry, length, described, .. } = opened;
        let Some(size) = length else { return self.listing.print(&source, &entry).await };
        let mut out = std::io::stdout().lock();
        if self.listing.is_json() {
            let mut document = entry_document(&entry);
            (document["type"], document["path"], document["size"]) = ("device".into(), "".into(), size.into());
            writeln!(out, "{document}")?;
        } else {
            writeln!(
                out,
                "{described} is a block device of {size} bytes: it has no files to list; volume restore --into FILE writes it, volume cat prints it"
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
