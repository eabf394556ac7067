//! `lifeboat snapshot-location create|get|set`.

use super::change::change;
use super::location::credential;
use super::{GetArgs, OutputArgs, TableKind, client, create, get};
use crate::flags::{self, KeyValuePairs};
use crate::globals::Globals;
use anyhow::Result;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use lifeboat_api::{ObjectMeta, VolumeSnapshotLocation};
use std::io::Write;
use std::process::ExitCode;

/// Work with snapshot locations.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotLocationCommand {
    /// Make a snapshot location
    Create(SnapshotLocationCreateArgs),
    /// List snapshot locations
    Get(GetArgs),
    /// Change a snapshot location
    Set(SnapshotLocationSetArgs),
}

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

/// Settings to change of a location.
#[derive(Debug, Args)]
pub(crate) struct SnapshotLocationSetArgs {
    /// Its name
    name: String,
    /// The Secret with the credentials and its key
    #[arg(long, value_parser = flags::pairs, value_name = "SECRET=KEY")]
    credential: Vec<KeyValuePairs>,
}

impl SnapshotLocationCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Get(args) => get::<VolumeSnapshotLocation>(&args, globals).await,
            Self::Set(args) => args.run(globals).await,
        }
    }
}

impl SnapshotLocationCreateArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let location = self.location(globals)?;
        if create(&client(globals).await?, &location, &self.show).await? {
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

impl SnapshotLocationSetArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
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

impl TableKind for VolumeSnapshotLocation {
    const COLUMNS: &'static [&'static str] = &["NAME", "PROVIDER"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        vec![self.metadata.name.clone(), self.spec.provider.clone()]
    }
}
