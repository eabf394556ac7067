//! The archive of a backup that is open for reading, from a bucket or through the server.

use crate::bucket_url::{self, Purpose};
use anyhow::{Context, Result, bail};
use lifeboat_api::{Backup, DownloadTargetKind};
use lifeboat_archive::ReadLimits;
use lifeboat_archive::layout::BackupFile;
use lifeboat_browse::BackupStore;
use lifeboat_bucket::Directory;
use lifeboat_requests::archive::{ArchiveDownload, FromServerArgs};
use lifeboat_store::{Archive, ArchiveRows, OpenOptions, Store, StoreError};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors;
use lifeboat_terminal::process::signals::terminated;
use std::path::Path;
use std::sync::Arc;

/// A backup that is open for reading.
pub struct OpenBackup {
    /// Its objects.
    pub store: BackupStore,
    /// The Backup.
    pub record: Backup,
    /// The backup for people: its name and when it was made.
    pub what: String,
}

/// Runs `doing`, unless Ctrl-C or SIGTERM ends it before: then copies are removed, as at every end. `otherwise` is the
/// error for that case.
///
/// # Errors
/// Returns the errors of `doing`, and `otherwise`.
pub async fn until_interrupted<T>(doing: impl Future<Output = Result<T>>, otherwise: &'static str) -> Result<T> {
    let interrupted = terminated()?;
    tokio::select! {
        done = doing => done,
        () = interrupted => bail!(otherwise),
    }
}

/// Opens a backup that lies in a bucket, or, when none is named, one that the server has, which is asked like this.
///
/// # Errors
/// When there is no such backup, or it cannot be had or read.
pub async fn backup(
    name: &str,
    bucket: Option<&str>,
    server: &FromServerArgs,
    globals: &Globals,
    folder: &Path,
) -> Result<OpenBackup> {
    match bucket {
        Some(url) => in_bucket(url, name, globals, folder).await,
        None => through_server(name, server, globals, folder).await,
    }
}

/// Opens a backup that lies in a bucket.
///
/// # Errors
/// When there is no such backup, or it cannot be read.
pub(crate) async fn in_bucket(url: &str, name: &str, globals: &Globals, folder: &Path) -> Result<OpenBackup> {
    let store = bucket_url::open(url, Purpose::Read, globals.patience()).await?;
    open(&store, name, folder).await
}

/// Opens a backup of the cluster, whose archive the server provides. Downloads are stored in `folder`.
///
/// # Errors
/// When there is no such backup, or it cannot be had or read.
pub(crate) async fn through_server(
    name: &str,
    args: &FromServerArgs,
    globals: &Globals,
    folder: &Path,
) -> Result<OpenBackup> {
    let download = args.archive_of(name, globals).await?;
    open(&copied(&download, folder).await?, name, folder).await
}

/// A bucket below `folder` that holds the record and the archive of one backup, as the server gives them.
///
/// # Errors
/// When they cannot be had or written.
pub async fn copied(download: &ArchiveDownload, folder: &Path) -> Result<Store> {
    let name = &download.record.metadata.name;
    let bucket = folder.join("bucket");
    let place = |file: BackupFile| bucket.join(file.key(name));
    let made = |path: &Path| format!("write {}", path.display());
    let archive = place(BackupFile::Tarball);
    let parent = archive.parent().unwrap_or(&bucket);
    std::fs::create_dir_all(parent).with_context(|| made(parent))?;
    let mut file = std::fs::File::create(&archive).with_context(|| made(&archive))?;
    download.write_to(&mut file).await?;
    let metadata = place(BackupFile::Metadata);
    std::fs::write(&metadata, serde_json::to_vec(&download.record)?).with_context(|| made(&metadata))?;
    let directory = Directory::open(&bucket).with_context(|| format!("open the copy in {}", bucket.display()))?;
    Ok(Store::new(Arc::new(directory)))
}

/// Backups of old versions of Velero have no volume information. Their pod volume backups are in a file that no server gives.
const UNKNOWN_VOLUMES: &str = "the backup has no volume information, and the server does not give its pod volume backups: whether the data of a \
    volume was saved in one is not known, and such a volume comes back as one whose data was not saved; --bucket reads them";

/// Adds the files of the backup to such a bucket that record how its volumes were saved, as far as there are any: a
/// restore depends on them.
///
/// # Errors
/// When they cannot be had or written.
pub async fn copy_volume_files(download: &ArchiveDownload, folder: &Path) -> Result<()> {
    for (kind, file) in [
        (DownloadTargetKind::BackupVolumeInfos, BackupFile::VolumeInfo),
        (DownloadTargetKind::BackupVolumeSnapshots, BackupFile::VolumeSnapshots),
        (DownloadTargetKind::CsiBackupVolumeSnapshots, BackupFile::CsiVolumeSnapshots),
    ] {
        let path = folder.join("bucket").join(file.key(&download.record.metadata.name));
        let made = || format!("write {}", path.display());
        let mut out = std::fs::File::create(&path).with_context(made)?;
        if !Box::pin(download.write_other(kind, &mut out)).await? {
            std::fs::remove_file(&path).with_context(made)?;
            if file == BackupFile::VolumeInfo {
                errors::warn(Some(UNKNOWN_VOLUMES));
            }
        }
    }
    Ok(())
}

/// Opens a backup of a store.
///
/// # Errors
/// When there is no such backup, or it cannot be read.
pub async fn open(store: &Store, name: &str, folder: &Path) -> Result<OpenBackup> {
    let record = store.backup(name).await?;
    Box::pin(open_record(record, store.open_archive(name, &options(folder)))).await
}

/// Reads the rows of the archive of a backup in a store, and nothing else. Keeps the indexes of archives that have
/// none.
///
/// # Errors
/// When it cannot be read.
pub async fn rows_of(store: &Store, record: &Backup, globals: &Globals, folder: &Path) -> Result<ArchiveRows> {
    let kept = globals.program.archives.as_ref();
    let rows = Box::pin(store.archive_rows(&record.metadata.name, &options(folder), kept)).await;
    rows.with_context(|| format!("read what is in {}", described(record)))
}

/// Opens a backup of a store of which it is known what is in it.
///
/// # Errors
/// When it cannot be read.
pub async fn open_rows(store: &Store, record: Backup, rows: ArchiveRows, folder: &Path) -> Result<OpenBackup> {
    Box::pin(open_record(record, rows.open(store, &options(folder)))).await
}

async fn open_record(record: Backup, archive: impl Future<Output = Result<Archive, StoreError>>) -> Result<OpenBackup> {
    let what = described(&record);
    let opened = async { BackupStore::open(archive.await?, &what).await };
    let store = opened.await.with_context(|| format!("open the archive of {what}"))?;
    Ok(OpenBackup { store, record, what })
}

fn described(record: &Backup) -> String {
    let of = record.status.start_timestamp.map_or_else(String::new, |time| format!(" of {time}"));
    format!("the backup {:?}{of}", record.metadata.name)
}

/// Options for opening archives whose copies lie in this folder.
pub fn options(folder: &Path) -> OpenOptions {
    OpenOptions { limits: ReadLimits::default(), scratch: folder.to_path_buf(), ignore_index: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn what_is_done_when_a_signal_comes_is_dropped_with_its_copies() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let doing = async move {
            let _copies = folder;
            let sent = Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status();
            sent.context("send a signal")?;
            std::future::pending::<Result<()>>().await
        };
        let told = until_interrupted(doing, "interrupted").await.unwrap_err().to_string();
        assert_eq!((told.as_str(), path.exists()), ("interrupted", false));
    }
}
