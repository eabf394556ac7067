//! `lifeboat restore create`.

use crate::resource::preview::{PreviewArgs, preview_restore};
use crate::resource::{Format, OutputArgs, create, one_way_to_select, submitted};
use anyhow::{Result, bail};
use clap::Args;
use jiff::Zoned;
use lifeboat_api::{Backup, Restore, label_value, well_known};
use lifeboat_api::{BackupMaker, NoneOfSchedule, SourceCluster, choose_of_schedule, newest_of_schedule};
use lifeboat_client::Client;
use lifeboat_terminal::flags::Optional;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::spec::RestoreSpecArgs;
use lifeboat_terminal::output::errors::{missing, warn};
use lifeboat_view::preview;
use std::process::ExitCode;

/// Contents of the restore to create.
#[derive(Debug, Args)]
pub(crate) struct RestoreContentArgs {
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

impl RestoreContentArgs {
    /// The restore as it would be created, once there is something to restore from.
    pub(crate) async fn restore(&self, client: &Client) -> Result<Restore> {
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
            let chosen = choose_of_schedule(&backups, schedule, partly, |backup| from.admits(backup, &this));
            if let Ok(newest) = &chosen {
                warn(Some(&newest_of_schedule(schedule, newest, BackupMaker::of(newest, &this))));
            }
            match chosen {
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

    pub(crate) fn source(&self) -> &str {
        if self.from_backup.is_empty() { &self.from_schedule } else { &self.from_backup }
    }
}

impl RestoreCreateArgs {
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if !self.dry_run {
            self.preview.refuse(self.details)?;
        }
        let client = globals.client().await?;
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
