//! `lifeboat backup download`.

use super::artifact::{Downloads, artifact, stream};
use super::trust::TrustArgs;
use super::{client, missing, said};
use crate::flags::{self, Optional};
use crate::globals::Globals;
use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_api::{Backup, DownloadTargetKind, Duration};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The file to download, and the file to write.
#[derive(Debug, Args)]
pub(crate) struct DownloadArgs {
    /// The backup
    name: String,
    /// The file to write; NAME-data.tar.gz in this folder when left out
    #[arg(long, short, default_value = "", value_name = "FILE")]
    output: Optional<PathBuf>,
    /// Overwrite a file that exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    server: FromServerArgs,
}

/// Flags for requesting the archive of a backup from the server.
#[derive(Debug, Args)]
pub(crate) struct FromServerArgs {
    /// Longest wait for the server, and for each part of the download
    #[arg(long, value_parser = flags::duration, default_value = "1m0s", value_name = "DURATION")]
    timeout: Duration,
    #[command(flatten)]
    trust: TrustArgs,
}

/// The archive of a backup of the cluster, as the server gives it.
pub(crate) struct ArchiveDownload {
    pub(crate) record: Backup,
    downloads: Downloads,
}

impl FromServerArgs {
    /// Finds the backup and what its location trusts; nothing of the archive comes yet.
    ///
    /// # Errors
    /// When there is no such backup.
    pub(crate) async fn archive_of(&self, name: &str, globals: &Globals) -> Result<ArchiveDownload> {
        let client = client(globals).await?;
        let Some(record) = client.get::<Backup>(name).await? else { return Err(missing::<Backup>(name)) };
        let (downloads, warning) = Downloads::new(&client, globals, &self.trust, name, self.timeout.to_std()).await?;
        said(warning)?;
        Ok(ArchiveDownload { record, downloads })
    }
}

impl ArchiveDownload {
    /// Writes the archive piece by piece.
    ///
    /// # Errors
    /// When it cannot be had; then a part may have been written.
    pub(crate) async fn write_to(&self, file: &mut File) -> Result<()> {
        let name = &self.record.metadata.name;
        if !stream(&self.downloads, DownloadTargetKind::BackupContents, name, file).await? {
            bail!("the archive of backup {name:?} is not in its storage location");
        }
        Ok(())
    }

    /// Writes another file of the backup as it lies in the bucket; false when there is none.
    ///
    /// # Errors
    /// When it cannot be had; then a part may have been written.
    pub(crate) async fn write_other(&self, kind: DownloadTargetKind, file: &mut File) -> Result<bool> {
        let name = &self.record.metadata.name;
        let written = stream(&self.downloads, kind, name, file).await;
        written.with_context(|| format!("get {} of backup {name:?} from the server", kind.as_str()))
    }

    /// The names of its objects, by version and kind, `NAMESPACE/NAME` or `NAME`; `None` when the backup has no such list.
    ///
    /// # Errors
    /// When it cannot be had or read.
    pub(crate) async fn resource_list(&self) -> Result<Option<BTreeMap<String, Vec<String>>>> {
        let name = &self.record.metadata.name;
        let wrong = || format!("get the list of the objects of backup {name:?} from the server");
        let packed = artifact(&self.downloads, DownloadTargetKind::BackupResourceList, name).await;
        packed.with_context(wrong)?.map(|packed| packed.json().with_context(wrong)).transpose()
    }
}

impl DownloadArgs {
    pub(super) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let name = &self.name;
        let archive = self.server.archive_of(name, globals).await?;
        let path = match &*self.output {
            Some(path) => path.clone(),
            None => std::env::current_dir().context("find the current folder")?.join(format!("{name}-data.tar.gz")),
        };
        let mut file = create(&path, self.force)?;
        let coming = tokio::select! {
            coming = archive.write_to(&mut file) => coming,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        };
        let written = coming.and_then(|()| file.sync_all().with_context(|| format!("write {}", path.display())));
        if let Err(e) = written {
            // Half an archive must not look like one.
            let _ = std::fs::remove_file(&path);
            return Err(e);
        }
        writeln!(std::io::stdout(), "Backup {name} has been successfully downloaded to {}", path.display())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn create(path: &Path, force: bool) -> Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    if force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    match options.open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} exists already; --force overwrites it", path.display())
        }
        other => other.with_context(|| format!("create {}", path.display())),
    }
}
