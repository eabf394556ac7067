//! `lifeboat repo`.

use super::table::time;
use super::{GetArgs, TableKind, get};
use crate::globals::Globals;
use crate::repository::cat::CatArgs;
use crate::repository::create::CreateArgs;
use crate::repository::diff::RepoDiffArgs;
use crate::repository::list::LsArgs;
use crate::repository::maintenance::MaintenanceCommand;
use crate::repository::password::PasswordCommand;
use crate::repository::restore::RestoreArgs;
use crate::repository::snapshot::SnapshotArgs;
use crate::repository::snapshots::SnapshotsArgs;
use crate::repository::stats::StatsArgs;
use crate::repository::verify::VerifyArgs;
use anyhow::Result;
use clap::Subcommand;
use jiff::Timestamp;
use lifeboat_api::{BackupRepository, BackupRepositoryPhase, ObjectMeta};
use std::process::ExitCode;

/// Work with repositories of volume data.
#[derive(Debug, Subcommand)]
pub(crate) enum RepoCommand {
    /// List repositories
    Get(GetArgs),
    /// Make a kopia repository in a bucket or directory, without a cluster
    Create(CreateArgs),
    /// Take a snapshot of a directory, a file or a block device into a kopia repository, without a cluster
    Snapshot(Box<SnapshotArgs>),
    /// List the snapshots of a kopia repository, without a cluster
    Snapshots(SnapshotsArgs),
    /// List a directory of a snapshot, without a cluster
    Ls(LsArgs),
    /// Print a file of a snapshot, without a cluster
    Cat(CatArgs),
    /// Restore a snapshot, or a path in it, into a folder, a file or a device, without a cluster
    Restore(Box<RestoreArgs>),
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
            Self::Create(args) => args.run(globals).await,
            Self::Snapshot(args) => Box::pin(args.run(globals)).await,
            Self::Snapshots(args) => args.run(globals).await,
            Self::Ls(args) => args.run(globals).await,
            Self::Cat(args) => args.run(globals).await,
            Self::Restore(args) => Box::pin(args.run(globals)).await,
            Self::Verify(args) => Box::pin(args.run(globals)).await,
            Self::Diff(args) => Box::pin(args.run(globals)).await,
            Self::Stats(args) => Box::pin(args.run(globals)).await,
            Self::Password(command) => Box::pin(command.run(globals)).await,
            Self::Maintenance(command) => command.run(globals).await,
        }
    }
}

impl TableKind for BackupRepository {
    const COLUMNS: &'static [&'static str] = &["NAME", "STATUS", "LAST MAINTENANCE"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        let phase = self.status.phase.unwrap_or(BackupRepositoryPhase::New);
        let maintained = self.status.last_maintenance_time;
        let maintained = if maintained.is_some() { time(maintained) } else { "<never>".to_owned() };
        vec![self.metadata.name.clone(), phase.as_str().to_owned(), maintained]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_that_of_velero() {
        let now = Timestamp::UNIX_EPOCH;
        let mut repository = BackupRepository::default();
        repository.metadata.name = "shop-default-kopia".into();
        assert_eq!(repository.cells(now), ["shop-default-kopia", "New", "<never>"]);
        repository.status.phase = Some(BackupRepositoryPhase::NotReady);
        assert_eq!(repository.cells(now)[1], "NotReady");
    }
}
