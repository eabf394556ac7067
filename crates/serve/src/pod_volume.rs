//! `lifeboat pod-volume backup` and `restore`: the movers of volumes of pods; and `wait`, which keeps a volume mounted for them.

use crate::mover::args::MoverArgs;
use crate::mover::{backup, restore};
use anyhow::Result;
use clap::{Args, Subcommand};
use lifeboat_api::{PodVolumeBackup, PodVolumeRestore};
use lifeboat_mover::protocol::VolumeMode;
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::signals::terminated;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Move the bytes of one volume of a pod; node agents run this in pods.
#[derive(Debug, Subcommand)]
pub enum PodVolumeCommand {
    /// Save the volume of a PodVolumeBackup
    Backup(PodVolumeBackupArgs),
    /// Bring the volume of a PodVolumeRestore back
    Restore(PodVolumeRestoreArgs),
    /// Keep the volume of a reader pod mounted, and do nothing with it
    Wait(WaitArgs),
}

impl PodVolumeCommand {
    /// Runs the mover. A transfer that failed is exit code 1.
    ///
    /// # Errors
    /// Anything but the transfer that failed: flags that are wrong, a cluster that cannot be reached.
    pub async fn run(self, globals: &Globals) -> Result<ExitCode> {
        match self {
            Self::Backup(args) => Box::pin(args.run(globals)).await,
            Self::Restore(args) => Box::pin(args.run(globals)).await,
            Self::Wait(args) => args.run().await,
        }
    }
}

/// `lifeboat pod-volume backup`.
#[derive(Debug, Args)]
pub struct PodVolumeBackupArgs {
    /// The name of the PodVolumeBackup
    #[arg(long, value_name = "NAME")]
    pod_volume_backup: String,
    #[command(flatten)]
    mover: MoverArgs,
}

impl PodVolumeBackupArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let transfer = self.mover.transfer(&self.pod_volume_backup, VolumeMode::Filesystem)?;
        self.mover.run(globals, None, async |env| backup::<PodVolumeBackup>(env, &transfer).await).await
    }
}

/// `lifeboat pod-volume restore`.
#[derive(Debug, Args)]
pub struct PodVolumeRestoreArgs {
    /// The name of the PodVolumeRestore
    #[arg(long, value_name = "NAME")]
    pod_volume_restore: String,
    /// A volume for indexes; empty for none
    #[arg(long, default_value = "", value_parser = flags::path, value_name = "PATH")]
    cache_volume_path: PathBuf,
    #[command(flatten)]
    mover: MoverArgs,
}

impl PodVolumeRestoreArgs {
    async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let transfer = self.mover.transfer(&self.pod_volume_restore, VolumeMode::Filesystem)?;
        let cache = Some(self.cache_volume_path.as_path()).filter(|path| !path.as_os_str().is_empty());
        self.mover.run(globals, cache, async |env| restore::<PodVolumeRestore>(env, &transfer).await).await
    }
}

/// `lifeboat pod-volume wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// The longest time, in seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: u64,
}

impl WaitArgs {
    async fn run(self) -> Result<ExitCode> {
        let terminate = terminated()?;
        tokio::select! {
            () = terminate => {}
            () = tokio::time::sleep(Duration::from_secs(self.seconds)) => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}
