//! `lifeboat restore-helper`, in Velero's image the program `velero-restore-helper`.

use anyhow::{Result, bail};
use clap::Args;
use lifeboat_serve::restore_helper::{RESTORES, wait};
use lifeboat_terminal::process::signals::terminated;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `lifeboat restore-helper UID`.
#[derive(Debug, Args)]
pub(crate) struct RestoreHelperArgs {
    /// The UID of the Restore
    #[arg(value_name = "UID")]
    uid: String,
    /// The folder with the volumes of the pod
    #[arg(long, default_value = RESTORES, value_name = "DIRECTORY", hide = true)]
    volumes: PathBuf,
}

impl RestoreHelperArgs {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        wait_for_volumes(&self.volumes, &self.uid).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits until the volumes below a folder are filled by a restore.
///
/// # Errors
/// A signal that ends the wait: the containers behind this one must not start.
pub(crate) async fn wait_for_volumes(volumes: &Path, uid: &str) -> Result<()> {
    if uid.is_empty() || uid.contains('/') {
        bail!("{uid:?} is not the UID of a Restore");
    }
    let terminate = terminated()?;
    let mut tell = |line: String| {
        // A log that is closed keeps no pod back.
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    tokio::select! {
        () = wait(volumes, uid, &mut tell) => Ok(()),
        () = terminate => bail!("told to end before the volumes of the pod were filled"),
    }
}
