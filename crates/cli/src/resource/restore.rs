//! `lifeboat restore create|get|describe|logs|cancel|delete`.

use super::cancel::{CancelArgs, Cancellable};
use super::describe::DescribeArgs;
use super::logs::LogsArgs;
use super::table::{selector, time};
use super::{
    DeleteArgs, GetArgs, Operation, Show, Shown, client, create, delete, get, missing, one_way_to_select, submitted,
};
use crate::flags::Optional;
use crate::globals::Globals;
use crate::spec::RestoreSpecArgs;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use jiff::{Timestamp, Zoned};
use lifeboat_api::{Backup, DownloadTargetKind, ObjectMeta, Restore, RestorePhase, label_value, well_known};
use lifeboat_client::Client;
use std::process::ExitCode;

/// Work with restores.
#[derive(Debug, Subcommand)]
pub(crate) enum RestoreCommand {
    /// Make a restore
    Create(Box<CreateArgs>),
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

/// A restore to be made.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name; made of the backup's and the time when left out
    name: Option<String>,
    /// The backup to restore
    #[arg(long, default_value = "", value_name = "NAME")]
    from_backup: String,
    /// The schedule whose newest backup to restore
    #[arg(long, default_value = "", value_name = "NAME")]
    from_schedule: String,
    /// With --from-schedule, also take a backup that has partially failed
    #[arg(long, default_value = "")]
    allow_partially_failed: Optional<bool>,
    #[command(flatten)]
    spec: RestoreSpecArgs,
    /// Wait until it has ended
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    show: Show,
}

impl RestoreCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Get(args) => get::<Restore>(&args, globals).await,
            Self::Describe(args) => args.run_restores(globals).await,
            Self::Logs(args) => args.run::<Restore>(DownloadTargetKind::RestoreLog, globals).await,
            Self::Cancel(args) => args.run::<Restore>(globals).await,
            Self::Delete(args) => delete::<Restore>(&args, globals).await,
        }
    }
}

impl CreateArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.from_backup.is_empty() == self.from_schedule.is_empty() {
            bail!("either a backup or schedule must be specified, but not both");
        }
        let client = client(globals).await?;
        let mut restore = Restore::default();
        self.spec.apply(&mut restore);
        one_way_to_select(restore.spec.label_selector.as_ref(), &restore.spec.or_label_selectors)?;
        restore.spec.backup_name.clone_from(&self.from_backup);
        restore.spec.schedule_name.clone_from(&self.from_schedule);
        let errors = lifeboat_select::RestoreFilter::validate(&restore.spec);
        if !errors.is_empty() {
            bail!("{}", errors.join("; "));
        }
        if self.from_schedule.is_empty() {
            if client.get::<Backup>(&self.from_backup).await?.is_none() {
                return Err(missing::<Backup>(&self.from_backup));
            }
        } else {
            let label = format!("{}={}", well_known::LABEL_SCHEDULE_NAME, label_value(&self.from_schedule));
            let backups: Vec<Backup> = client.list(&label).await?;
            if backups.is_empty() {
                bail!("No backups found for the schedule {}", self.from_schedule);
            }
            if *self.allow_partially_failed == Some(true) {
                use lifeboat_api::BackupPhase::{Completed, PartiallyFailed};
                let usable = backups.iter().filter(|b| matches!(b.status.phase, Some(Completed | PartiallyFailed)));
                if let Some(newest) = usable.max_by_key(|b| b.status.start_timestamp) {
                    restore.spec.backup_name.clone_from(&newest.metadata.name);
                    restore.spec.schedule_name.clear();
                }
            }
        }
        let source = if self.from_backup.is_empty() { &self.from_schedule } else { &self.from_backup };
        let name = self.name.unwrap_or_else(|| format!("{source}-{}", Zoned::now().strftime("%Y%m%d%H%M%S")));
        restore.metadata.name.clone_from(&name);
        restore.metadata.namespace.clone_from(&globals.namespace);
        if !create(&client, &restore, &self.show).await? {
            return Ok(ExitCode::SUCCESS);
        }
        submitted::<Restore>(&client, &name, self.wait, &globals.program.name).await
    }
}

impl Operation for Restore {
    const WORD: &'static str = "restore";
    const TITLE: &'static str = "Restore";
    const DATA: &'static str = "restore files in object storage";

    fn phase_word(&self) -> &'static str {
        self.status.phase.map_or("New", RestorePhase::as_str)
    }

    fn progress(&self) -> Option<(i64, i64)> {
        self.status.progress.as_ref().map(|progress| (progress.items_restored, progress.total_items))
    }

    fn backup_name(&self) -> &str {
        &self.spec.backup_name
    }

    async fn request_deletion(&self, client: &Client) -> Result<()> {
        client.delete::<Self>(&self.metadata.name).await?;
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

impl Shown for Restore {
    const COLUMNS: &'static [&'static str] =
        &["NAME", "BACKUP", "STATUS", "STARTED", "COMPLETED", "ERRORS", "WARNINGS", "CREATED", "SELECTOR"];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, _: Timestamp) -> Vec<String> {
        let status = &self.status;
        let phase = status.phase.map_or("New", RestorePhase::as_str);
        let deleting = if self.metadata.deletion_timestamp.is_some() { " (Deleting)" } else { "" };
        vec![
            self.metadata.name.clone(),
            self.spec.backup_name.clone(),
            format!("{phase}{deleting}"),
            time(status.start_timestamp),
            time(status.completion_timestamp),
            status.errors.to_string(),
            status.warnings.to_string(),
            time(self.metadata.creation_timestamp),
            selector(self.spec.label_selector.as_ref()),
        ]
    }
}
