//! `lifeboat local`: backups and restores from this machine, without a server in the cluster.

mod backup;
mod describe;
mod list;
mod restore;
mod verify;

use clap::{Args, Subcommand};
use lifeboat_standalone::contents::LocalContentsArgs;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::object_namespace::ObjectNamespace;
use std::process::ExitCode;

/// `lifeboat local`.
#[derive(Debug, Args)]
pub(crate) struct Local {
    #[command(subcommand)]
    command: LocalCommand,
}

#[derive(Debug, Subcommand)]
enum LocalCommand {
    /// Back up a cluster into a bucket
    Backup(Box<backup::BackupArgs>),
    /// Restore a backup of a bucket into a cluster
    Restore(Box<restore::RestoreArgs>),
    /// List the backups in a bucket
    Ls(list::LsArgs),
    /// Show what is in a backup and what went wrong
    Describe(describe::DescribeArgs),
    /// Show what is in a backup by type, print its objects, or write them into files
    Contents(LocalContentsArgs),
    /// Read a whole backup and compare it with what was written
    Verify(verify::VerifyArgs),
}

impl Local {
    /// The flag that names the namespace of the objects, if the command has one.
    pub(crate) fn object_namespace(&mut self) -> Option<ObjectNamespace<'_>> {
        match &mut self.command {
            LocalCommand::Contents(args) => args.object_namespace(),
            _ => None,
        }
    }

    pub(crate) async fn run(self, globals: &Globals) -> anyhow::Result<ExitCode> {
        match self.command {
            LocalCommand::Backup(args) => Box::pin(args.run(globals)).await,
            LocalCommand::Restore(args) => Box::pin(args.run(globals)).await,
            LocalCommand::Ls(args) => args.run(globals).await,
            LocalCommand::Describe(args) => args.run(globals).await,
            LocalCommand::Contents(args) => Box::pin(args.run(globals)).await,
            LocalCommand::Verify(args) => args.run(globals).await,
        }
    }
}
