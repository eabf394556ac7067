//! `lifeboat backup describe`, `restore describe` and `schedule describe`: gathers the data here and formats it in the
//! pure modules below.

mod backup;
mod facts;
mod json;
mod page;
mod restore;
mod results;
mod schedule;
mod spec;
#[cfg(test)]
mod tests;
mod volumes;

use super::artifact::{Downloads, artifact};
use super::trust::TrustArgs;
use super::{client, missing};
use crate::globals::Globals;
use anyhow::{Result, bail};
use backup::BackupFacts;
use clap::Args;
use facts::{FetchedFile, OperationFiles, VolumeInfo, legacy_csi, legacy_native, piece};
use jiff::tz::TimeZone;
use lifeboat_api::{
    Backup, BackupPhase, DownloadTargetKind as Kind, Restore, RestorePhase, Schedule, label_value, well_known,
};
use lifeboat_client::{Client, Object};
use page::Style;
use restore::RestoreFacts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use volumes::BackupVolumes;

/// Longest wait for each file.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which objects to describe, and how much of them.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// Names; all when left out
    names: Vec<String>,
    /// Without names, only those with these labels
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    selector: String,
    /// Show everything: objects, operations, volumes
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Which backups to describe, and in what form.
#[derive(Debug, Args)]
pub(crate) struct BackupDescribeArgs {
    #[command(flatten)]
    which: DescribeArgs,
    /// Form of the output: plaintext, or json for a single backup
    #[arg(long, short, default_value = "plaintext", value_name = "FORM")]
    output: String,
}

/// Which schedules to describe.
#[derive(Debug, Args)]
pub(crate) struct ScheduleDescribeArgs {
    /// Names; all when left out
    names: Vec<String>,
    /// Without names, only those with these labels
    #[arg(long, short = 'l', default_value = "", value_name = "SELECTOR")]
    selector: String,
}

impl ScheduleDescribeArgs {
    pub(super) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
        let style = style(globals, false);
        let found: Vec<Schedule> = find(&client, &self.names, &self.selector).await?;
        for (at, schedule) in found.iter().enumerate() {
            write!(std::io::stdout(), "{}{}", between(at), schedule::describe(schedule, &style))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl BackupDescribeArgs {
    pub(super) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let as_json = match self.output.as_str() {
            "plaintext" => false,
            "json" => true,
            other => bail!("invalid output format {other:?}: it is plaintext or json"),
        };
        let client = client(globals).await?;
        let style = style(globals, self.which.details);
        let found: Vec<Backup> = self.which.find(&client).await?;
        let single = found.len() == 1;
        let mut out = std::io::stdout();
        for (at, backup) in found.into_iter().enumerate() {
            let facts = Box::pin(backup_facts(&client, globals, &self.which, backup)).await?;
            if as_json && single {
                write!(out, "{}", json::describe(&facts, &style)?)?;
            } else {
                write!(out, "{}{}", between(at), backup::describe(&facts, &style))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl DescribeArgs {
    /// Describes restores.
    pub(super) async fn run_restores(self, globals: &Globals) -> Result<ExitCode> {
        let client = client(globals).await?;
        let style = style(globals, self.details);
        let found: Vec<Restore> = self.find(&client).await?;
        for (at, restore) in found.into_iter().enumerate() {
            let facts = Box::pin(restore_facts(&client, globals, &self, restore)).await?;
            write!(std::io::stdout(), "{}{}", between(at), restore::describe(&facts, &style))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn find<T: Object>(&self, client: &Client) -> Result<Vec<T>> {
        find(client, &self.names, &self.selector).await
    }
}

/// Returns the output of `backup describe --details`, without colours.
pub(crate) async fn backup_page(client: &Client, globals: &Globals, name: &str) -> Result<String> {
    let (args, style) = whole_page(globals);
    let backup = client.get::<Backup>(name).await?.ok_or_else(|| missing::<Backup>(name))?;
    Ok(backup::describe(&Box::pin(backup_facts(client, globals, &args, backup)).await?, &style))
}

/// Returns the output of `restore describe --details`, without colours.
pub(crate) async fn restore_page(client: &Client, globals: &Globals, name: &str) -> Result<String> {
    let (args, style) = whole_page(globals);
    let restore = client.get::<Restore>(name).await?.ok_or_else(|| missing::<Restore>(name))?;
    Ok(restore::describe(&Box::pin(restore_facts(client, globals, &args, restore)).await?, &style))
}

fn whole_page(globals: &Globals) -> (DescribeArgs, Style) {
    let args = DescribeArgs { names: Vec::new(), selector: String::new(), details: true, trust: TrustArgs::default() };
    (args, Style { colours: false, ..style(globals, true) })
}

fn style(globals: &Globals, details: bool) -> Style {
    let (colours, program) = (globals.colour(), globals.program.name.clone());
    Style { colours, zone: TimeZone::system(), program, details }
}

/// The objects that are named, each of which must exist, or else those with the labels.
async fn find<T: Object>(client: &Client, names: &[String], selector: &str) -> Result<Vec<T>> {
    if names.is_empty() {
        return Ok(client.list(selector).await?);
    }
    let mut found = Vec::new();
    for name in names {
        found.push(client.get(name).await?.ok_or_else(|| missing::<T>(name))?);
    }
    Ok(found)
}

/// Separator before the description of an object that is not the first.
fn between(at: usize) -> &'static str {
    if at == 0 { "" } else { "\n\n" }
}

/// A file, unless there is no reason to ask for it.
async fn file<T: DeserializeOwned>(downloads: &Downloads, kind: Kind, name: &str, wanted: bool) -> FetchedFile<T> {
    if !wanted {
        return FetchedFile::Missing;
    }
    piece(artifact(downloads, kind, name).await)
}

async fn backup_facts(client: &Client, globals: &Globals, args: &DescribeArgs, backup: Backup) -> Result<BackupFacts> {
    use BackupPhase as P;
    let (name, status) = (&backup.metadata.name, &backup.status);
    let (downloads, warning) = Downloads::new(client, globals, &args.trust, name, PATIENCE).await?;
    // The server refuses to look for files of these, or waits until the request expires.
    let has_files = !matches!(status.phase, None | Some(P::New | P::Queued | P::ReadyToStart | P::FailedValidation));
    let has_messages = status.warnings > 0 || status.errors > 0;
    let wants_operations = args.details && status.backup_item_operations_attempted > 0;
    let (results, operations, resources, snapshots) = tokio::join!(
        file(&downloads, Kind::BackupResults, name, has_files && has_messages),
        file(&downloads, Kind::BackupItemOperations, name, has_files && wants_operations),
        file(&downloads, Kind::BackupResourceList, name, has_files && args.details),
        file(&downloads, Kind::BackupVolumeInfos, name, has_files),
    );
    let is_legacy = snapshots == FetchedFile::Missing;
    let snapshots = if is_legacy { legacy_snapshots(&downloads, &backup).await } else { snapshots };
    let label = format!("{}={}", well_known::LABEL_BACKUP_NAME, label_value(name));
    let of_this = format!("{label},{}={}", well_known::LABEL_BACKUP_UID, backup.metadata.uid);
    let by_files = listed(client, &label, "PodVolumeBackups", "backup", name).await?;
    let volumes = BackupVolumes { snapshots, is_legacy, by_files };
    let deletions = listed(client, &of_this, "DeleteBackupRequests", "backup", name).await?;
    let files = OperationFiles { results, operations, resources, volumes: FetchedFile::Missing };
    Ok(BackupFacts { backup, files, volumes, deletions, warning })
}

/// Lists the objects with these labels. When that fails, it is reported, and the rest is described without them.
async fn listed<T: Object>(
    client: &Client,
    labels: &str,
    what: &str,
    word: &str,
    name: &str,
) -> std::io::Result<Vec<T>> {
    match client.list(labels).await {
        Ok(found) => Ok(found),
        Err(e) => {
            writeln!(std::io::stderr(), "error getting {what} for {word} {name}: {e}")?;
            Ok(Vec::new())
        }
    }
}

/// Snapshots by the files of backups before Velero 1.13.
async fn legacy_snapshots(downloads: &Downloads, backup: &Backup) -> FetchedFile<Vec<VolumeInfo>> {
    let (name, status) = (&backup.metadata.name, &backup.status);
    let has_csi = status.csi_volume_snapshots_attempted > 0;
    let (native, csi, contents) = tokio::join!(
        file(downloads, Kind::BackupVolumeSnapshots, name, status.volume_snapshots_attempted > 0),
        file::<Option<Vec<Value>>>(downloads, Kind::CsiBackupVolumeSnapshots, name, has_csi),
        file(downloads, Kind::CsiBackupVolumeSnapshotContents, name, has_csi),
    );
    let csi = match csi {
        FetchedFile::Missing => contents.map(|contents| legacy_csi(None, contents)),
        FetchedFile::There(snapshots) => contents.map(|contents| legacy_csi(snapshots, contents)),
        FetchedFile::Ungotten(why) => FetchedFile::Ungotten(why),
        FetchedFile::Unreadable(why) => FetchedFile::Unreadable(why),
    };
    match (native.map(legacy_native), csi) {
        (FetchedFile::There(mut native), FetchedFile::There(csi)) => {
            native.extend(csi);
            FetchedFile::There(native)
        }
        (FetchedFile::Missing, other) | (other, FetchedFile::Missing) => other,
        (FetchedFile::There(_), wrong) | (wrong, _) => wrong,
    }
}

async fn restore_facts(
    client: &Client,
    globals: &Globals,
    args: &DescribeArgs,
    restore: Restore,
) -> Result<RestoreFacts> {
    use RestorePhase as P;
    let (name, status) = (&restore.metadata.name, &restore.status);
    let (downloads, warning) =
        Downloads::new(client, globals, &args.trust, &restore.spec.backup_name, PATIENCE).await?;
    let has_files = !matches!(status.phase, None | Some(P::New | P::FailedValidation));
    let has_messages = status.warnings > 0 || status.errors > 0;
    let wants_operations = args.details && status.restore_item_operations_attempted > 0;
    let (results, operations, resources, volumes) = tokio::join!(
        file(&downloads, Kind::RestoreResults, name, has_files && has_messages),
        file(&downloads, Kind::RestoreItemOperations, name, has_files && wants_operations),
        file(&downloads, Kind::RestoreResourceList, name, has_files && args.details),
        file(&downloads, Kind::RestoreVolumeInfo, name, has_files),
    );
    let label = format!("{}={}", well_known::LABEL_RESTORE_NAME, label_value(name));
    let by_files = listed(client, &label, "PodVolumeRestores", "restore", name).await?;
    let files = OperationFiles { results, operations, resources, volumes };
    Ok(RestoreFacts { restore, files, by_files, warning })
}
