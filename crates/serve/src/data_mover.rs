//! `lifeboat data-mover backup` and `restore`: the movers of snapshots of volumes; and `fill`, the mover of restores without a server.

use crate::fill::FillArgs;
use crate::mover::args::{ModeOfVolume, MoverArgs};
use crate::mover::{backup, restore};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use lifeboat_api::{DataDownload, DataUpload, UnsupportedPart};
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use std::path::PathBuf;
use std::process::ExitCode;

/// Move the bytes of one snapshot of a volume; node agents run this in pods.
#[derive(Debug, Subcommand)]
pub enum DataMoverCommand {
    /// Save the volume of a DataUpload
    Backup(DataMoverBackupArgs),
    /// Bring the volume of a DataDownload back
    Restore(DataMoverRestoreArgs),
    /// Fill a volume from a repository, without a server
    Fill(FillArgs),
}

impl DataMoverCommand {
    /// Runs the mover. A transfer that failed is exit code 1.
    ///
    /// # Errors
    /// Anything but the transfer that failed: flags that are wrong, a cluster that cannot be reached.
    pub async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Backup(args) => Box::pin(args.run(globals)).await,
            Self::Restore(args) => Box::pin(args.run(globals)).await,
            Self::Fill(args) => Box::pin(args.run(globals)).await,
        }
    }
}

/// `lifeboat data-mover backup`.
#[derive(Debug, Args)]
pub struct DataMoverBackupArgs {
    /// The name of the DataUpload
    #[arg(long, value_name = "NAME")]
    data_upload: String,
    /// The mode of the volume
    #[arg(long, value_enum, value_name = "MODE")]
    volume_mode: ModeOfVolume,
    /// The service account for changed block tracking (no effect)
    #[arg(long, default_value = "", value_name = "NAME")]
    cbt_sa_name: String,
    /// The change ID of the snapshot before, for changed block tracking
    #[arg(long, default_value = "", value_name = "ID")]
    change_id: String,
    /// The ID of the volume, for changed block tracking
    #[arg(long, default_value = "", value_name = "ID")]
    volume_id: String,
    /// The ID of the snapshot, for changed block tracking
    #[arg(long, default_value = "", value_name = "ID")]
    snapshot_id: String,
    #[command(flatten)]
    mover: MoverArgs,
}

impl DataMoverBackupArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        if [&self.change_id, &self.volume_id, &self.snapshot_id].into_iter().any(|id| !id.is_empty()) {
            let part = UnsupportedPart::ChangedBlockTracking;
            bail!("--change-id, --volume-id and --snapshot-id are for {}; {}", part.why(), part.next_of_backup());
        }
        let transfer = self.mover.transfer(&self.data_upload, self.volume_mode.into())?;
        self.mover.run(globals, None, async |env| backup::<DataUpload>(env, &transfer).await).await
    }
}

/// `lifeboat data-mover restore`.
#[derive(Debug, Args)]
pub struct DataMoverRestoreArgs {
    /// The name of the DataDownload
    #[arg(long, value_name = "NAME")]
    data_download: String,
    /// The mode of the volume
    #[arg(long, value_enum, value_name = "MODE")]
    volume_mode: ModeOfVolume,
    /// A volume for indexes; empty for none
    #[arg(long, default_value = "", value_parser = flags::path, value_name = "PATH")]
    cache_volume_path: PathBuf,
    #[command(flatten)]
    mover: MoverArgs,
}

impl DataMoverRestoreArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let transfer = self.mover.transfer(&self.data_download, self.volume_mode.into())?;
        let cache = Some(self.cache_volume_path.as_path()).filter(|path| !path.as_os_str().is_empty());
        self.mover.run(globals, cache, async |env| restore::<DataDownload>(env, &transfer).await).await
    }
}
