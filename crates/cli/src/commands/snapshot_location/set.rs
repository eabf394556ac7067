//! `lifeboat snapshot-location set`.

use crate::commands::location::create::credential;
use crate::resource::change::change;
use anyhow::Result;
use clap::Args;
use lifeboat_api::VolumeSnapshotLocation;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, KeyValuePairs};
use std::io::Write;
use std::process::ExitCode;

/// Settings to change of a location.
#[derive(Debug, Args)]
pub(crate) struct SnapshotLocationSetArgs {
    /// Its name
    name: String,
    /// The Secret with the credentials and its key
    #[arg(long, value_parser = flags::pairs, value_name = "SECRET=KEY")]
    credential: Vec<KeyValuePairs>,
}

impl SnapshotLocationSetArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = globals.client().await?;
        let credential = credential(&self.credential)?;
        change(&client, &self.name, "configured", |before: &VolumeSnapshotLocation| {
            let mut after = before.clone();
            after.spec.credential = credential.clone().or(after.spec.credential.take());
            Ok(Some(after))
        })
        .await?;
        writeln!(std::io::stdout(), "Volume snapshot location \"{}\" configured successfully.", self.name)?;
        Ok(ExitCode::SUCCESS)
    }
}
