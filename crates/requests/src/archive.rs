//! `lifeboat backup download`.

use super::artifact::{Downloads, artifact, stream};
use super::trust::TrustArgs;
use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_api::{Backup, DownloadTargetKind, Duration};
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::errors::{missing, tell};
use std::collections::BTreeMap;
use std::fs::File;

/// Flags for requesting the archive of a backup from the server.
#[derive(Debug, Args)]
pub struct FromServerArgs {
    /// Longest wait for the server, and for each part of the download
    #[arg(long, value_parser = flags::duration, default_value = "1m0s", value_name = "DURATION")]
    timeout: Duration,
    #[command(flatten)]
    trust: TrustArgs,
}

/// The archive of a backup of the cluster, as the server gives it.
pub struct ArchiveDownload {
    /// The backup.
    pub record: Backup,
    downloads: Downloads,
}

impl FromServerArgs {
    /// Finds the backup and what its location trusts; nothing of the archive comes yet.
    ///
    /// # Errors
    /// When there is no such backup.
    pub async fn archive_of(&self, name: &str, globals: &Globals) -> Result<ArchiveDownload> {
        let client = globals.client().await?;
        let Some(record) = client.get::<Backup>(name).await? else { return Err(missing::<Backup>(name)) };
        let (downloads, warning) = Downloads::new(&client, globals, &self.trust, name, self.timeout.to_std()).await?;
        tell(warning)?;
        Ok(ArchiveDownload { record, downloads })
    }
}

impl ArchiveDownload {
    /// Writes the archive piece by piece.
    ///
    /// # Errors
    /// When it cannot be had; then a part may have been written.
    pub async fn write_to(&self, file: &mut File) -> Result<()> {
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
    pub async fn write_other(&self, kind: DownloadTargetKind, file: &mut File) -> Result<bool> {
        let name = &self.record.metadata.name;
        let written = stream(&self.downloads, kind, name, file).await;
        written.with_context(|| format!("get {} of backup {name:?} from the server", kind.as_str()))
    }

    /// The names of its objects, by version and kind, `NAMESPACE/NAME` or `NAME`; `None` when the backup has no such list.
    ///
    /// # Errors
    /// When it cannot be had or read.
    pub async fn resource_list(&self) -> Result<Option<BTreeMap<String, Vec<String>>>> {
        let name = &self.record.metadata.name;
        let wrong = || format!("get the list of the objects of backup {name:?} from the server");
        let packed = artifact(&self.downloads, DownloadTargetKind::BackupResourceList, name).await;
        packed.with_context(wrong)?.map(|packed| packed.json().with_context(wrong)).transpose()
    }
}
