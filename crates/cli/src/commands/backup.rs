//! `lifeboat backup create|get|describe|logs|download|contents|cancel|hold|release|delete`.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod download;
pub(crate) mod hold;

use crate::commands::backup::delete::{BackupDeleteArgs, request_deletion};
use crate::commands::backup::describe::BackupDescribeArgs;
use crate::commands::backup::download::DownloadArgs;
use crate::commands::backup::hold::{HoldArgs, ReleaseArgs};
use crate::resource::cancel::{CancelArgs, Cancellable};
use crate::resource::logs::LogsArgs;
use crate::resource::moving::TransfersOf;
use crate::resource::{GetArgs, Operation, get};
use anyhow::Result;
use clap::Subcommand;
use create::BackupCreateArgs;
use lifeboat_api::{Backup, BackupPhase, DownloadTargetKind};
use lifeboat_client::Client;
use lifeboat_standalone::contents::ContentsArgs;
use lifeboat_terminal::flags::globals::Globals;
use std::process::ExitCode;

/// Work with backups.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Make a backup
    Create(Box<BackupCreateArgs>),
    /// List backups
    Get(GetArgs),
    /// Show what is in backups and what became of them
    Describe(BackupDescribeArgs),
    /// Print the log of a backup
    Logs(LogsArgs),
    /// Download the archive of a backup
    Download(DownloadArgs),
    /// Show what is in a backup by type, print its objects, or write them into files
    Contents(Box<ContentsArgs>),
    /// End backups that wait or run
    Cancel(CancelArgs),
    /// Keep backups, whatever their time and whoever asks for their deletion
    Hold(HoldArgs),
    /// End the hold of backups
    Release(ReleaseArgs),
    /// Delete backups and all that belongs to them
    Delete(BackupDeleteArgs),
}

impl BackupCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Get(args) => get::<Backup>(&args, globals).await,
            Self::Describe(args) => Box::pin(args.run(globals)).await,
            Self::Logs(args) => args.run::<Backup>(DownloadTargetKind::BackupLog, globals).await,
            Self::Contents(args) => Box::pin(args.run(globals)).await,
            Self::Download(args) => args.run(globals).await,
            Self::Cancel(args) => args.run::<Backup>(globals).await,
            Self::Hold(args) => args.run(globals).await,
            Self::Release(args) => args.run(globals).await,
            Self::Delete(args) => args.run(globals).await,
        }
    }
}

impl Operation for Backup {
    const WORD: &'static str = "backup";
    const TITLE: &'static str = "Backup";
    const DATA: &'static str = "disk snapshots, backup files, restores";
    const TRANSFERS: TransfersOf = TransfersOf::Backups;

    fn phase_word(&self) -> &'static str {
        self.status.phase.map_or("New", BackupPhase::as_str)
    }

    fn progress(&self) -> Option<(i64, i64)> {
        self.status.progress.as_ref().map(|progress| (progress.items_backed_up, progress.total_items))
    }

    fn backup_name(&self) -> &str {
        &self.metadata.name
    }

    async fn request_deletion(&self, client: &Client, waits_for_restores: bool) -> Result<()> {
        request_deletion(client, self, waits_for_restores).await
    }
}

impl Cancellable for Backup {
    fn cancel(&mut self) {
        self.spec.cancel = true;
    }

    fn is_cancelled(&self) -> bool {
        self.spec.cancel
    }

    fn reason(&self) -> &str {
        &self.status.failure_reason
    }
}
