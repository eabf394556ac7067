//! `lifeboat restore create|plan|diff|get|describe|logs|cancel|delete`.

use super::cancel::{CancelArgs, Cancellable};
use super::describe::DescribeArgs;
use super::logs::LogsArgs;
use super::preview::{PreviewArgs, preview_restore};
use super::table::{selector, time};
use super::{
    DeleteArgs, Format, GetArgs, Operation, OutputArgs, TableKind, client, create, delete, get, missing,
    one_way_to_select, submitted,
};
use crate::flags::Optional;
use crate::globals::Globals;
use crate::output::Output;
use crate::preview;
use crate::spec::RestoreSpecArgs;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use jiff::{Timestamp, Zoned};
use lifeboat_api::{Backup, DownloadTargetKind, ObjectMeta, Restore, RestorePhase, label_value, well_known};
use lifeboat_api::{NoneOfSchedule, SourceCluster, choose_of_schedule};
use lifeboat_client::{Client, ObjectIdentity};
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

/// Contents of the restore to create.
#[derive(Debug, Args)]
struct RestoreContentArgs {
    /// The backup to restore
    #[arg(long, default_value = "", value_name = "NAME")]
    from_backup: String,
    /// The schedule whose newest backup to restore
    #[arg(long, default_value = "", value_name = "NAME")]
    from_schedule: String,
    /// With --from-schedule, also take a backup that has partially failed
    #[arg(long, default_value = "")]
    allow_partially_failed: Optional<bool>,
    /// With --from-schedule, take the newest backup of the cluster of this UID, or of "any", instead of this one's own
    #[arg(long, default_value = "", value_name = "UID")]
    source_cluster: String,
    #[command(flatten)]
    spec: RestoreSpecArgs,
}

/// A restore to be made.
#[derive(Debug, Args)]
pub(crate) struct RestoreCreateArgs {
    /// Its name; made of the backup's and the time when left out
    name: Option<String>,
    #[command(flatten)]
    wanted: RestoreContentArgs,
    /// Only say what would be created, updated, left and skipped, and where objects differ; nothing is written. Asks the
    /// cluster and the storage location from here, by your own rights, and knows no settings of the server, unless --by-server lets
    /// the server do it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    preview: PreviewArgs,
    /// With --dry-run, also list the objects that would be created or are unchanged
    #[arg(long)]
    details: bool,
    /// Wait until it has ended
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    show: OutputArgs,
}

/// A restore that is not made.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    wanted: RestoreContentArgs,
    #[command(flatten)]
    preview: PreviewArgs,
    /// Also list the objects that would be created or are unchanged
    #[arg(long)]
    details: bool,
    /// Form of the output: text when left out
    #[arg(long, short, value_enum)]
    output: Option<Output>,
}

/// A restore that is not made, of which only what differs is shown.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    wanted: RestoreContentArgs,
    #[command(flatten)]
    preview: PreviewArgs,
    /// Form of the output: text when left out
    #[arg(long, short, value_enum)]
    output: Option<Output>,
}

impl RestoreCommand {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Create(args) => args.run(globals).await,
            Self::Plan(args) => args.run(globals).await,
            Self::Diff(args) => args.run(globals).await,
            Self::Get(args) => get::<Restore>(&args, globals).await,
            Self::Describe(args) => Box::pin(args.run_restores(globals)).await,
            Self::Logs(args) => args.run::<Restore>(DownloadTargetKind::RestoreLog, globals).await,
            Self::Cancel(args) => args.run::<Restore>(globals).await,
            Self::Delete(args) => delete::<Restore>(&args, globals).await,
        }
    }
}

impl RestoreContentArgs {
    /// The restore as it would be created, once there is something to restore from.
    async fn restore(&self, client: &Client) -> Result<Restore> {
        if !self.source_cluster.is_empty() && self.from_schedule.is_empty() {
            bail!("--source-cluster says whose backups of a schedule count: use it with --from-schedule");
        }
        if self.from_backup.is_empty() == self.from_schedule.is_empty() {
            bail!("either a backup or schedule must be specified, but not both");
        }
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
            let schedule = &self.from_schedule;
            let from = SourceCluster::parse(&self.source_cluster);
            let this = client.cluster.uid().await?;
            let partly = *self.allow_partially_failed == Some(true);
            match choose_of_schedule(&backups, schedule, partly, |backup| from.admits(backup, &this)) {
                Ok(newest) if partly => {
                    restore.spec.backup_name.clone_from(&newest.metadata.name);
                    restore.spec.schedule_name.clear();
                }
                Ok(_) if !self.source_cluster.is_empty() => {
                    let annotations = &mut restore.metadata.annotations;
                    annotations.insert(well_known::ANNOTATION_SOURCE_CLUSTER.to_owned(), self.source_cluster.clone());
                }
                // The server says what is wrong when there is none at all.
                Ok(_) | Err(NoneOfSchedule::Usable) => {}
                Err(NoneOfSchedule::Admitted(why)) => bail!(why),
            }
        }
        Ok(restore)
    }

    fn source(&self) -> &str {
        if self.from_backup.is_empty() { &self.from_schedule } else { &self.from_backup }
    }
}

impl RestoreCreateArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if !self.dry_run {
            self.preview.refuse(self.details)?;
        }
        let client = client(globals).await?;
        let mut restore = self.wanted.restore(&client).await?;
        let source = self.wanted.source();
        let name = self.name.unwrap_or_else(|| format!("{source}-{}", Zoned::now().strftime("%Y%m%d%H%M%S")));
        restore.metadata.name.clone_from(&name);
        restore.metadata.namespace.clone_from(&globals.namespace);
        if self.dry_run {
            let output = self.show.output.and_then(Format::machine);
            let show = preview::ShownParts { output, details: self.details, ..self.preview.show(globals) };
            return Box::pin(preview_restore(restore, &client, globals, show, &self.preview)).await;
        }
        if !create(&client, &restore, &self.show).await? {
            return Ok(ExitCode::SUCCESS);
        }
        submitted::<Restore>(&client, &name, self.wait, &globals.program.name).await
    }
}

impl PlanArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let show = preview::ShownParts { details: self.details, output: self.output, ..self.preview.show(globals) };
        plan(&self.wanted, globals, show, &self.preview).await
    }
}

impl DiffArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let show = preview::ShownParts { only_differences: true, output: self.output, ..self.preview.show(globals) };
        plan(&self.wanted, globals, show, &self.preview).await
    }
}

/// Prints what a restore without a name of its own would do.
async fn plan(
    wanted: &RestoreContentArgs,
    globals: &Globals,
    show: preview::ShownParts,
    args: &PreviewArgs,
) -> Result<ExitCode> {
    let client = client(globals).await?;
    let mut restore = wanted.restore(&client).await?;
    restore.metadata.name = format!("{}-plan", wanted.source());
    restore.metadata.namespace.clone_from(&globals.namespace);
    Box::pin(preview_restore(restore, &client, globals, show, args)).await
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

impl TableKind for Restore {
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
