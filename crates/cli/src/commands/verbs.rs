//! Alternative commands with the verb first: `lifeboat get backups` is `lifeboat backup get`.

use super::backup::BackupCommand;
use super::backup::create::BackupCreateArgs;
use super::location::LocationCommand;
use super::location::create::LocationCreateArgs;
use super::plugin::PluginCommand;
use super::restore::RestoreCommand;
use super::restore::create::RestoreCreateArgs;
use super::schedule::ScheduleCommand;
use super::schedule::create::ScheduleCreateArgs;
use super::snapshot_location::SnapshotLocationCommand;
use crate::commands::backup::delete::BackupDeleteArgs;
use crate::commands::backup::describe::BackupDescribeArgs;
use crate::commands::location::get::LocationGetArgs;
use crate::commands::plugin::get::PluginGetArgs;
use crate::commands::schedule::delete::ScheduleDeleteArgs;
use crate::commands::schedule::describe::ScheduleDescribeArgs;
use crate::commands::snapshot_location::create::SnapshotLocationCreateArgs;
use crate::resource::describe::DescribeArgs;
use crate::resource::{DeleteArgs, GetArgs};
use anyhow::Result;
use clap::Subcommand;
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

/// `lifeboat get`.
#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    /// List backups
    #[command(alias = "backup")]
    Backups(GetArgs),
    /// List restores
    #[command(alias = "restore")]
    Restores(GetArgs),
    /// List schedules
    #[command(alias = "schedule")]
    Schedules(GetArgs),
    /// List storage locations
    #[command(alias = "backup-location")]
    BackupLocations(LocationGetArgs),
    /// List snapshot locations
    #[command(alias = "snapshot-location")]
    SnapshotLocations(GetArgs),
    /// List the plugins of the server
    #[command(alias = "plugin")]
    Plugins(PluginGetArgs),
}

/// `lifeboat create`.
#[derive(Debug, Subcommand)]
pub(crate) enum CreateCommand {
    /// Make a backup
    Backup(Box<BackupCreateArgs>),
    /// Make a restore
    Restore(Box<RestoreCreateArgs>),
    /// Make a schedule
    Schedule(Box<ScheduleCreateArgs>),
    /// Make a storage location
    BackupLocation(Box<LocationCreateArgs>),
    /// Make a snapshot location
    SnapshotLocation(SnapshotLocationCreateArgs),
}

/// `lifeboat delete`.
#[derive(Debug, Subcommand)]
pub(crate) enum DeleteCommand {
    /// Delete backups and all that belongs to them
    #[command(alias = "backups")]
    Backup(BackupDeleteArgs),
    /// Delete restores and their files; what they restored stays
    #[command(alias = "restores")]
    Restore(DeleteArgs),
    /// Delete schedules; their backups stay, unless the schedule owns them: what its rules keep until they are released, the others until
    /// their time is over
    #[command(alias = "schedules")]
    Schedule(ScheduleDeleteArgs),
    /// Delete storage locations, and the backups and repositories in the cluster that lie there; the bucket stays
    #[command(alias = "backup-locations")]
    BackupLocation(DeleteArgs),
}

/// `lifeboat describe`.
#[derive(Debug, Subcommand)]
pub(crate) enum DescribeCommand {
    /// Show what is in backups and what became of them
    #[command(alias = "backup")]
    Backups(BackupDescribeArgs),
    /// Show what was restored and what became of it
    #[command(alias = "restore")]
    Restores(DescribeArgs),
    /// Show when schedules make backups, and which
    #[command(alias = "schedule")]
    Schedules(ScheduleDescribeArgs),
}

impl GetCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Backups(args) => Box::pin(BackupCommand::Get(args).run(globals)).await,
            Self::Restores(args) => Box::pin(RestoreCommand::Get(args).run(globals)).await,
            Self::Schedules(args) => ScheduleCommand::Get(args).run(globals).await,
            Self::BackupLocations(args) => LocationCommand::Get(args).run(globals).await,
            Self::SnapshotLocations(args) => SnapshotLocationCommand::Get(args).run(globals).await,
            Self::Plugins(args) => PluginCommand::Get(args).run(globals).await,
        }
    }
}

impl CreateCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Backup(args) => Box::pin(BackupCommand::Create(args).run(globals)).await,
            Self::Restore(args) => Box::pin(RestoreCommand::Create(args).run(globals)).await,
            Self::Schedule(args) => ScheduleCommand::Create(args).run(globals).await,
            Self::BackupLocation(args) => LocationCommand::Create(args).run(globals).await,
            Self::SnapshotLocation(args) => SnapshotLocationCommand::Create(args).run(globals).await,
        }
    }
}

impl DescribeCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Backups(args) => Box::pin(BackupCommand::Describe(args).run(globals)).await,
            Self::Restores(args) => Box::pin(RestoreCommand::Describe(args).run(globals)).await,
            Self::Schedules(args) => ScheduleCommand::Describe(args).run(globals).await,
        }
    }
}

impl DeleteCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Backup(args) => Box::pin(BackupCommand::Delete(args).run(globals)).await,
            Self::Restore(args) => Box::pin(RestoreCommand::Delete(args).run(globals)).await,
            Self::Schedule(args) => ScheduleCommand::Delete(args).run(globals).await,
            Self::BackupLocation(args) => LocationCommand::Delete(args).run(globals).await,
        }
    }
}
