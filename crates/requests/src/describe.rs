//! The data of descriptions: gathers the files and objects that belong to a backup or a restore.

use super::artifact::{ArtifactError, Downloads, PackedFile, artifact};
use super::transfers::list_transfers;
use super::trust::TrustArgs;
use anyhow::Result;
use clap::Args;
use jiff::tz::TimeZone;
use lifeboat_api::{
    Backup, BackupPhase, DataDownload, DataUpload, DownloadTargetKind as Kind, Restore, RestorePhase, label_value,
    well_known,
};
use lifeboat_client::{Client, Object};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::missing;
use lifeboat_view::describe::backup::{self, BackupFacts};
use lifeboat_view::describe::facts::{FetchedFile, OperationFiles, VolumeInfo, legacy_csi, legacy_native};
use lifeboat_view::describe::page::Style;
use lifeboat_view::describe::restore::{self, RestoreFacts};
use lifeboat_view::describe::volumes::BackupVolumes;
use lifeboat_view::transfer::{VolumeTransfer, sort_transfers};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Longest wait for each file.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flags of a description that is made of files too.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// Show everything: objects, operations, volumes
    #[arg(long)]
    pub details: bool,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Returns the output of `backup describe --details`, without colours.
pub async fn backup_page(client: &Client, globals: &Globals, name: &str) -> Result<String> {
    let (args, style) = whole_page(globals);
    let backup = client.get::<Backup>(name).await?.ok_or_else(|| missing::<Backup>(name))?;
    Ok(backup::describe(&Box::pin(backup_facts(client, globals, &args, backup)).await?, &style))
}

/// Returns the output of `restore describe --details`, without colours.
pub async fn restore_page(client: &Client, globals: &Globals, name: &str) -> Result<String> {
    let (args, style) = whole_page(globals);
    let restore = client.get::<Restore>(name).await?.ok_or_else(|| missing::<Restore>(name))?;
    Ok(restore::describe(&Box::pin(restore_facts(client, globals, &args, restore)).await?, &style))
}

fn whole_page(globals: &Globals) -> (FileArgs, Style) {
    let args = FileArgs { details: true, trust: TrustArgs::default() };
    (args, Style { colours: false, ..style(globals, true) })
}

/// The form of a page on this terminal.
pub fn style(globals: &Globals, details: bool) -> Style {
    let (colours, program) = (globals.colour(), globals.program.name.clone());
    Style { colours, zone: TimeZone::system(), program, details }
}

/// A file, unless there is no reason to ask for it.
async fn file<T: DeserializeOwned>(downloads: &Downloads, kind: Kind, name: &str, wanted: bool) -> FetchedFile<T> {
    if !wanted {
        return FetchedFile::Missing;
    }
    piece(artifact(downloads, kind, name).await)
}

/// Gathers all that a description of a backup shows.
///
/// # Errors
/// When the file of `--cacert` cannot be read, or standard error is closed. A file or a list that cannot be had is part of the facts.
pub async fn backup_facts(client: &Client, globals: &Globals, args: &FileArgs, backup: Backup) -> Result<BackupFacts> {
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
    let moved = transfers::<DataUpload>(client, &of_this, "DataUploads", "backup", name).await?;
    let volumes = BackupVolumes { snapshots, is_legacy, by_files, moved };
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

/// Lists the transfers of moved data with these labels, as [`listed`].
async fn transfers<T: Object>(
    client: &Client,
    labels: &str,
    what: &str,
    word: &str,
    name: &str,
) -> std::io::Result<Vec<VolumeTransfer>>
where
    for<'a> VolumeTransfer: From<&'a T>,
{
    let mut found = match list_transfers::<T>(client, labels).await {
        Ok(found) => found,
        Err(e) => {
            writeln!(std::io::stderr(), "error getting {what} for {word} {name}: {e}")?;
            Vec::new()
        }
    };
    sort_transfers(&mut found);
    Ok(found)
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

/// Gathers all that a description of a restore shows.
///
/// # Errors
/// As [`backup_facts`].
pub async fn restore_facts(
    client: &Client,
    globals: &Globals,
    args: &FileArgs,
    restore: Restore,
) -> Result<RestoreFacts> {
    use RestorePhase as P;
    let (name, status) = (&restore.metadata.name, &restore.status);
    let (downloads, warning) =
        Downloads::new(client, globals, &args.trust, &restore.spec.backup_name, PATIENCE).await?;
    let has_files = !matches!(status.phase, None | Some(P::New | P::FailedValidation));
    let has_messages = status.warnings > 0 || status.errors > 0 || restore.spec.may_replace();
    let wants_operations = args.details && status.restore_item_operations_attempted > 0;
    let (results, operations, resources, volumes) = tokio::join!(
        file(&downloads, Kind::RestoreResults, name, has_files && has_messages),
        file(&downloads, Kind::RestoreItemOperations, name, has_files && wants_operations),
        file(&downloads, Kind::RestoreResourceList, name, has_files && args.details),
        file(&downloads, Kind::RestoreVolumeInfo, name, has_files),
    );
    let label = format!("{}={}", well_known::LABEL_RESTORE_NAME, label_value(name));
    let of_this = format!("{label},{}={}", well_known::LABEL_RESTORE_UID, restore.metadata.uid);
    let by_files = listed(client, &label, "PodVolumeRestores", "restore", name).await?;
    let moved = transfers::<DataDownload>(client, &of_this, "DataDownloads", "restore", name).await?;
    let files = OperationFiles { results, operations, resources, volumes };
    Ok(RestoreFacts { restore, files, by_files, moved, warning })
}

/// The content of a file, from what a download gave.
fn piece<T: DeserializeOwned>(got: Result<Option<PackedFile>, ArtifactError>) -> FetchedFile<T> {
    match got {
        Ok(None) => FetchedFile::Missing,
        Ok(Some(packed)) => match packed.json() {
            Ok(content) => FetchedFile::There(content),
            Err(e) => FetchedFile::Unreadable(lifeboat_object::chain(&e)),
        },
        Err(e) => FetchedFile::Ungotten(lifeboat_object::chain(&e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::Results;

    #[test]
    fn a_file_that_cannot_be_read_is_not_taken_for_a_missing_one() {
        let packed = PackedFile::new(b"no gzip".to_vec());
        assert!(matches!(piece::<Vec<VolumeInfo>>(Ok(Some(packed))), FetchedFile::Unreadable(_)));
        assert_eq!(piece::<Results>(Ok(None)), FetchedFile::Missing);
    }
}
