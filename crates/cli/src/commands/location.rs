//! `lifeboat backup-location create|get|set|delete`.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod set;

use crate::resource::DeleteArgs;
use anyhow::Result;
use clap::Subcommand;
use create::LocationCreateArgs;
use delete::delete;
use get::LocationGetArgs;
use lifeboat_terminal::flags::globals::Globals;
use set::SetArgs;
use std::process::ExitCode;

/// Work with storage locations.
#[derive(Debug, Subcommand)]
pub(crate) enum LocationCommand {
    /// Make a storage location
    Create(Box<LocationCreateArgs>),
    /// List storage locations
    Get(LocationGetArgs),
    /// Change a storage location
    Set(SetArgs),
    /// Delete storage locations, and the backups and repositories in the cluster that lie there; the bucket stays
    Delete(DeleteArgs),
}

impl LocationCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Get(args) => args.run(globals).await,
            Self::Set(args) => args.run(globals).await,
            Self::Delete(args) => delete(&args, globals).await,
        }
    }
}
