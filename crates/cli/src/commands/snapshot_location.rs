//! `lifeboat snapshot-location create|get|set`.

pub(crate) mod create;
pub(crate) mod set;

use crate::resource::{GetArgs, get};
use anyhow::Result;
use clap::Subcommand;
use create::SnapshotLocationCreateArgs;
use lifeboat_api::VolumeSnapshotLocation;
use lifeboat_terminal::flags::globals::Globals;
use set::SnapshotLocationSetArgs;
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

impl SnapshotLocationCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Get(args) => get::<VolumeSnapshotLocation>(&args, globals).await,
            Self::Set(args) => args.run(globals).await,
        }
    }
}
