//! `lifeboat snapshot-location create`.

use crate::commands::location::create::credential;
use crate::resource::{OutputArgs, create};
use anyhow::Result;
use clap::Args;
use lifeboat_api::VolumeSnapshotLocation;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::{self, KeyValuePairs};
use std::io::Write;
use std::process::ExitCode;

/// A location to be made.
#[derive(Debug, Args)]
pub(crate) struct SnapshotLocationCreateArgs {
    /// Its name
    name: String,
    /// Whose plugin takes the snapshots, such as aws
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// The Secret with the credentials and its key
    #[arg(long, value_parser = flags::pairs, value_name = "SECRET=KEY")]
    credential: Vec<KeyValuePairs>,
    /// Settings of the provider
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    config: Vec<KeyValuePairs>,
    /// Labels for the location
    #[arg(long, value_parser = flags::pairs, value_name = "KEY=VALUE,…")]
    labels: Vec<KeyValuePairs>,
    #[command(flatten)]
    show: OutputArgs,
}

impl SnapshotLocationCreateArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let location = self.location(globals)?;
        if create(&globals.client().await?, &location, &self.show).await? {
            writeln!(std::io::stdout(), "Snapshot volume location \"{}\" configured successfully.", self.name)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn location(&self, globals: &Globals) -> Result<VolumeSnapshotLocation> {
        let mut location = VolumeSnapshotLocation::default();
        location.metadata.name.clone_from(&self.name);
        location.metadata.namespace.clone_from(&globals.namespace);
        location.metadata.labels = flags::merged(&self.labels);
        location.spec.provider.clone_from(&self.provider);
        location.spec.config = flags::merged(&self.config);
        location.spec.credential = credential(&self.credential)?;
        Ok(location)
    }
}
