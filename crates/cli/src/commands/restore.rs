//! `lifeboat restore create|plan|diff|get|describe|logs|cancel|delete`.

pub(crate) mod create;
pub(crate) mod describe;
pub(crate) mod plan;

use crate::resource::cancel::{CancelArgs, Cancellable};
use crate::resource::describe::DescribeArgs;
use crate::resource::logs::LogsArgs;
use crate::resource::moving::TransfersOf;
use crate::resource::{DeleteArgs, GetArgs, Operation, delete, get};
use anyhow::Result;
use clap::Subcommand;
use create::RestoreCreateArgs;
use describe::describe;
use lifeboat_api::{DownloadTargetKind, Restore, RestorePhase};
use lifeboat_client::{Client, ObjectIdentity};
use lifeboat_terminal::flags::globals::Globals;
use plan::{DiffArgs, PlanArgs};
use std::process::ExitCode;

/// Work with restores.
#[derive(Debug, Subcommand)]
pub(crate) enum RestoreCommand {
    /// Make a restore
    Create(Box<RestoreCreateArgs>),
    /// Say what a restore would create, update, leave and skip, and where objects differ; nothing is written
    Plan(Box<PlanArgs>),
    /// Show where the objects in the cluster differ from what a restore would make of them; nothing is written
    Diff(Box<DiffArgs>),
    /// List restores
    Get(GetArgs),
    /// Show what was restored and what became of it
    Describe(DescribeArgs),
    /// Print the log of a restore
    Logs(LogsArgs),
    /// End restores that wait or run
    Cancel(CancelArgs),
    /// Delete restores and their files; what they restored stays
    Delete(DeleteArgs),
}

impl RestoreCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Plan(args) => args.run(globals).await,
            Self::Diff(args) => args.run(globals).await,
            Self::Get(args) => get::<Restore>(&args, globals).await,
            Self::Describe(args) => Box::pin(describe(args, globals)).await,
            Self::Logs(args) => args.run::<Restore>(DownloadTargetKind::RestoreLog, globals).await,
            Self::Cancel(args) => args.run::<Restore>(globals).await,
            Self::Delete(args) => delete::<Restore>(&args, globals).await,
        }
    }
}

impl Operation for Restore {
    const WORD: &'static str = "restore";
    const TITLE: &'static str = "Restore";
    const DATA: &'static str = "restore files in object storage";
    const TRANSFERS: TransfersOf = TransfersOf::Restores;

    fn phase_word(&self) -> &'static str {
        self.status.phase.map_or("New", RestorePhase::as_str)
    }

    fn progress(&self) -> Option<(i64, i64)> {
        self.status.progress.as_ref().map(|progress| (progress.items_restored, progress.total_items))
    }

    fn backup_name(&self) -> &str {
        &self.spec.backup_name
    }

    async fn request_deletion(&self, client: &Client, _: bool) -> Result<()> {
        client.delete_exactly::<Self>(&ObjectIdentity::of(&self.metadata)).await?;
        Ok(())
    }
}

impl Cancellable for Restore {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: RestoreCommand,
    }

    #[test]
    fn a_diff_takes_no_flag_that_would_do_nothing() {
        let parse = |verb: &str| Line::try_parse_from(["restore", verb, "--from-backup", "b", "--details"]);
        assert!(matches!(parse("plan").unwrap().command, RestoreCommand::Plan(args) if args.details));
        assert!(parse("diff").unwrap_err().to_string().contains("--details"));
    }
}
