//! `lifeboat backup create|get|describe|logs|download|contents|cancel|hold|release|delete`.

use super::cancel::{CancelArgs, Cancellable};
use super::deletion::{BackupDeleteArgs, request_deletion};
use super::describe::BackupDescribeArgs;
use super::download::DownloadArgs;
use super::hold::{HoldArgs, ReleaseArgs};
use super::logs::LogsArgs;
use super::preview::preview_backup;
use super::table::{selector, time, until};
use super::{
    Format, GetArgs, Operation, OutputArgs, TableKind, client, create, get, missing, one_way_to_select, submitted,
};
use crate::contents::ContentsArgs;
use crate::globals::Globals;
use crate::spec::BackupSpecArgs;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{
    Backup, BackupPhase, BackupSpec, BackupStorageLocation, DownloadTargetKind, ObjectMeta, Schedule, Time,
    VolumeSnapshotLocation,
};
use lifeboat_client::Client;
use std::io::Write;
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

/// A backup to be made.
#[derive(Debug, Args)]
pub(crate) struct BackupCreateArgs {
    /// Its name
    name: Option<String>,
    /// The schedule whose template says what to back up; then no filter is taken from the command line
    #[arg(long, value_name = "NAME")]
    from_schedule: Option<String>,
    #[command(flatten)]
    spec: BackupSpecArgs,
    /// Only say what would be saved, how much, and what not and why; nothing is written. Asks the cluster from here, by your own
    /// rights, and knows no settings of the server
    #[arg(long)]
    dry_run: bool,
    /// Wait until it has ended
    #[arg(long, short)]
    wait: bool,
    #[command(flatten)]
    show: OutputArgs,
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

impl BackupCreateArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if self.from_schedule.as_deref().is_some_and(|schedule| schedule.trim().is_empty()) {
            bail!("flag must have a non-empty value: --from-schedule");
        }
        if self.name.is_none() && self.from_schedule.is_none() {
            bail!("a backup name is required, unless you are creating based on a schedule");
        }
        let mut given = Backup::default();
        self.spec.apply(&mut given);
        let client = client(globals).await?;
        check_spec(&client, &given.spec).await?;
        let mut backup = match &self.from_schedule {
            None => given,
            Some(schedule) => {
                let Some(found) = client.get::<Schedule>(schedule).await? else {
                    return Err(missing::<Schedule>(schedule));
                };
                if self.show.output.is_none() {
                    writeln!(std::io::stdout(), "Creating backup from schedule, all other filters are ignored.")?;
                }
                of_schedule(&found, given.metadata)
            }
        };
        backup.metadata.name = self.name.unwrap_or_else(|| {
            let now = Timestamp::now().strftime("%Y%m%d%H%M%S").to_string();
            format!("{}-{now}", self.from_schedule.unwrap_or_default())
        });
        backup.metadata.namespace.clone_from(&globals.namespace);
        if self.dry_run {
            let output = self.show.output.and_then(Format::machine);
            return Box::pin(preview_backup(backup, &client, globals, output)).await;
        }
        if !create(&client, &backup, &self.show).await? {
            return Ok(ExitCode::SUCCESS);
        }
        submitted::<Backup>(&client, &backup.metadata.name, self.wait, &globals.program.name).await
    }
}

/// Checks that the flags make sense together, and that the locations that they name exist.
pub(super) async fn check_spec(client: &Client, spec: &BackupSpec) -> Result<()> {
    one_way_to_select(spec.label_selector.as_ref(), &spec.or_label_selectors)?;
    let errors = lifeboat_select::BackupFilter::validate(spec);
    if !errors.is_empty() {
        bail!("{}", errors.join("; "));
    }
    locations_exist(client, spec).await
}

async fn locations_exist(client: &Client, spec: &BackupSpec) -> Result<()> {
    let location = &spec.storage_location;
    if !location.is_empty() && client.get::<BackupStorageLocation>(location).await?.is_none() {
        return Err(missing::<BackupStorageLocation>(location));
    }
    for location in &spec.volume_snapshot_locations {
        if client.get::<VolumeSnapshotLocation>(location).await?.is_none() {
            return Err(missing::<VolumeSnapshotLocation>(location));
        }
    }
    Ok(())
}

/// A backup of a schedule, with these labels and annotations besides its own.
fn of_schedule(schedule: &Schedule, given: ObjectMeta) -> Backup {
    let mut backup = schedule.backup();
    backup.metadata.labels.extend(given.labels);
    backup.metadata.annotations.extend(given.annotations);
    backup
}

impl Operation for Backup {
    const WORD: &'static str = "backup";
    const TITLE: &'static str = "Backup";
    const DATA: &'static str = "disk snapshots, backup files, restores";

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

impl TableKind for Backup {
    const COLUMNS: &'static [&'static str] = &[
        "NAME",
        "STATUS",
        "ERRORS",
        "WARNINGS",
        "CREATED",
        "EXPIRES",
        "STORAGE LOCATION",
        "QUEUE POSITION",
        "SELECTOR",
    ];

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn cells(&self, now: Timestamp) -> Vec<String> {
        let status = &self.status;
        let phase = match status.phase {
            _ if self.metadata.deletion_timestamp.is_some() => "Deleting",
            Some(phase) => phase.as_str(),
            None => "New",
        };
        let ttl = SignedDuration::from_nanos(self.spec.ttl.nanoseconds());
        let end = status
            .expiration
            .map(Time::timestamp)
            .or_else(|| status.start_timestamp?.timestamp().checked_add(ttl).ok());
        vec![
            self.metadata.name.clone(),
            phase.to_owned(),
            status.errors.to_string(),
            status.warnings.to_string(),
            time(status.start_timestamp),
            until(end, now),
            self.spec.storage_location.clone(),
            if status.queue_position == 0 { String::new() } else { status.queue_position.to_string() },
            selector(self.spec.label_selector.as_ref()),
        ]
    }

    /// Sorts by name; backups of one schedule with the newest first.
    fn sort(backups: &mut [Self]) {
        fn series(name: &str) -> Option<(&str, &str)> {
            let (prefix, stamp) = name.rsplit_once('-')?;
            (stamp.len() == 14 && stamp.bytes().all(|b| b.is_ascii_digit())).then_some((prefix, stamp))
        }
        backups.sort_by(|a, b| {
            let (a, b) = (a.metadata.name.as_str(), b.metadata.name.as_str());
            match (series(a), series(b)) {
                (Some((p, x)), Some((q, y))) if p == q => y.cmp(x),
                _ => a.cmp(b),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::well_known;
    use std::collections::BTreeMap;

    #[test]
    fn a_row_is_that_of_velero() {
        let at = |text: &str| Time::new(text.parse().unwrap());
        let mut backup = Backup::default();
        backup.metadata.name = "b".into();
        let now = at("2026-11-21T10:00:00Z").timestamp();
        assert_eq!(backup.cells(now), ["b", "New", "0", "0", "n/a", "n/a", "", "", "<none>"]);
        backup.status.phase = Some(BackupPhase::PartiallyFailed);
        backup.status.errors = 2;
        backup.status.queue_position = 3;
        backup.status.expiration = Some(at("2026-11-22T09:00:00Z"));
        backup.spec.storage_location = "default".into();
        assert_eq!(backup.cells(now), ["b", "PartiallyFailed", "2", "0", "n/a", "23h", "default", "3", "<none>"]);
        backup.metadata.deletion_timestamp = Some(at("2026-11-21T09:00:00Z"));
        assert_eq!(backup.cells(now)[1], "Deleting");
    }

    #[test]
    fn a_backup_of_a_schedule_has_what_the_flags_add() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let mut schedule = Schedule::default();
        schedule.metadata.name = "daily".into();
        schedule.metadata.labels = map(&[("own", "1"), ("both", "1")]);
        schedule.metadata.annotations = map(&[("own", "1")]);
        let (labels, annotations) = (map(&[("given", "2"), ("both", "2")]), map(&[("given", "3")]));
        let backup = of_schedule(&schedule, ObjectMeta { labels, annotations, ..ObjectMeta::default() });
        assert_eq!(
            (backup.metadata.labels, backup.metadata.annotations),
            (
                map(&[("both", "2"), ("given", "2"), ("own", "1"), (well_known::LABEL_SCHEDULE_NAME, "daily")]),
                map(&[("given", "3"), ("own", "1")])
            )
        );
    }

    #[test]
    fn backups_of_a_schedule_stand_newest_first() {
        let names = |names: &[&str]| -> Vec<Backup> {
            names
                .iter()
                .map(|name| {
                    let mut b = Backup::default();
                    b.metadata.name = (*name).into();
                    b
                })
                .collect()
        };
        let mut all = names(&["b", "a-20260101000000", "a-20260201000000", "a-x", "c"]);
        Backup::sort(&mut all);
        let got: Vec<&str> = all.iter().map(|b| b.metadata.name.as_str()).collect();
        assert_eq!(got, ["a-20260201000000", "a-20260101000000", "a-x", "b", "c"]);
    }
}
