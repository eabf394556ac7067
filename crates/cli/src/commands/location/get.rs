//! `lifeboat backup-location get`.

use crate::resource::{GetArgs, find, show};
use anyhow::Result;
use clap::Args;
use lifeboat_api::BackupStorageLocation;
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

/// Which locations to list.
#[derive(Debug, Args)]
pub(crate) struct LocationGetArgs {
    #[command(flatten)]
    which: GetArgs,
    /// Only the default one
    #[arg(long)]
    default: bool,
}

impl LocationGetArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let mut found: Vec<BackupStorageLocation> = find(&self.which, &globals.client().await?).await?;
        found.retain(|location| location.spec.default || !self.default);
        show(&found, &self.which.show)
    }
}
