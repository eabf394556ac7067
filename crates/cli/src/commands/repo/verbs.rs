//! `lifeboat repo`.

use crate::commands::repo::cat::CatArgs;
use crate::commands::repo::create::CreateArgs;
use crate::commands::repo::describe::RepoDescribeArgs;
use crate::commands::repo::diff::RepoDiffArgs;
use crate::commands::repo::list::LsArgs;
use crate::commands::repo::maintenance::MaintenanceCommand;
use crate::commands::repo::mount::MountArgs;
use crate::commands::repo::password::PasswordCommand;
use crate::commands::repo::restore::RestoreArgs;
use crate::commands::repo::snapshot::SnapshotArgs;
use crate::commands::repo::snapshots::SnapshotsArgs;
use crate::commands::repo::stats::StatsArgs;
use crate::commands::repo::verify::VerifyArgs;
use crate::resource::{GetArgs, get};
use anyhow::Result;
use clap::Subcommand;
use lifeboat_api::BackupRepository;
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

/// Work with repositories of volume data.
#[derive(Debug, Subcommand)]
pub(crate) enum RepoCommand {
    /// List repositories
    Get(GetArgs),
    /// Describe repositories: how their maintenance went, and what keeps space from coming back
    Describe(RepoDescribeArgs),
    /// Make a kopia repository in a bucket or directory, without a cluster
    Create(CreateArgs),
    /// Take a snapshot of a directory, a file or a block device into a kopia repository, without a cluster
    Snapshot(Box<SnapshotArgs>),
    /// List the snapshots of a repository, without a cluster
    Snapshots(SnapshotsArgs),
    /// List a directory of a snapshot, without a cluster
    Ls(LsArgs),
    /// Print a file of a snapshot, without a cluster
    Cat(CatArgs),
    /// Restore a snapshot, or a path in it, into a folder, a file or a device, without a cluster
    Restore(Box<RestoreArgs>),
    /// Mount a snapshot, a path in it, or all snapshots on a folder, to look into them with any program, without a cluster
    Mount(Box<MountArgs>),
    /// Read snapshots and compare them, without a cluster
    Verify(VerifyArgs),
    /// Compare two snapshots, or paths in them, without a cluster
    Diff(RepoDiffArgs),
    /// Show what each snapshot has added, how much space is used, and how much maintenance can give back, without a cluster
    Stats(StatsArgs),
    /// Change the password of a kopia repository, without a cluster
    #[command(subcommand)]
    Password(PasswordCommand),
    /// Merge the indexes of a kopia repository, and delete what no snapshot needs any more, without a cluster
    #[command(subcommand)]
    Maintenance(MaintenanceCommand),
}

impl RepoCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Get(args) => get::<BackupRepository>(&args, globals).await,
            Self::Describe(args) => args.run(globals).await,
            Self::Create(args) => args.run(globals).await,
            Self::Snapshot(args) => Box::pin(args.run(globals)).await,
            Self::Snapshots(args) => args.run(globals).await,
            Self::Ls(args) => args.run(globals).await,
            Self::Cat(args) => args.run(globals).await,
            Self::Restore(args) => Box::pin(args.run(globals)).await,
            Self::Mount(args) => Box::pin(args.run(globals)).await,
            Self::Verify(args) => Box::pin(args.run(globals)).await,
            Self::Diff(args) => Box::pin(args.run(globals)).await,
            Self::Stats(args) => Box::pin(args.run(globals)).await,
            Self::Password(command) => Box::pin(command.run(globals)).await,
            Self::Maintenance(command) => command.run(globals).await,
        }
    }
}
