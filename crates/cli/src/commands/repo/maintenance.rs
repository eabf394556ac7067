//! `lifeboat repo maintenance`.

mod info;
mod run;
mod set;

use anyhow::Result;
use clap::Subcommand;
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

/// Merge the indexes of a kopia repository, and delete what no snapshot needs any more, without a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum MaintenanceCommand {
    /// Run what is due, or show what would be done
    Run(run::RunArgs),
    /// Show the owner, the intervals and the last runs
    Info(info::InfoArgs),
    /// Set the owner and the intervals
    Set(set::SetArgs),
}

impl MaintenanceCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Run(args) => Box::pin(args.run(globals)).await,
            Self::Info(args) => args.run(globals).await,
            Self::Set(args) => Box::pin(args.run(globals)).await,
        }
    }
}
