//! `lifeboat restore-helper`, in Velero's image the program `velero-restore-helper`.
//!
//! It is the init container `restore-wait` of a restored pod, and ends when all volumes of the pod have the mark of the
//! restore (velero: pkg/cmd/velero-restore-helper).

use anyhow::{Result, bail};
use clap::Args;
use lifeboat_mover::protocol::MARK_DIRECTORY;
use lifeboat_terminal::process::signals::terminated;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The folder in which the container has the volumes of its pod, each as a folder.
pub const RESTORES: &str = "/restores";

/// The line that is printed when all volumes are filled.
const DONE: &str = "All PodVolumeRestores are done";

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// `lifeboat restore-helper UID`.
#[derive(Debug, Args)]
pub struct RestoreHelperArgs {
    /// The UID of the Restore
    #[arg(value_name = "UID")]
    uid: String,
    /// The folder with the volumes of the pod
    #[arg(long, default_value = RESTORES, value_name = "DIRECTORY", hide = true)]
    volumes: PathBuf,
}

impl RestoreHelperArgs {
    /// Waits for the volumes.
    ///
    /// # Errors
    /// A signal that ends the wait: the containers behind this one must not start.
    pub async fn run(self) -> Result<ExitCode> {
        wait_for_volumes(&self.volumes, &self.uid).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits until the volumes below a folder are filled by a restore.
///
/// # Errors
/// A signal that ends the wait: the containers behind this one must not start.
pub async fn wait_for_volumes(volumes: &Path, uid: &str) -> Result<()> {
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

/// Waits until each folder has the mark of the restore, then removes the marks. `tell` gets lines for the log: changes of what is
/// waited for, and marks that could not be removed, which is no failure.
async fn wait(folder: &Path, restore_uid: &str, tell: &mut (dyn FnMut(String) + Send)) {
    let mut told = String::new();
    let volumes = loop {
        let text = match look(folder, restore_uid) {
            Ok(looked) if looked.waiting.is_empty() => break looked.volumes,
            Ok(looked) => {
                let waiting: Vec<String> = looked.waiting.iter().map(|path| path.display().to_string()).collect();
                format!("waiting for {}", waiting.join(", "))
            }
            Err(e) => format!("cannot read {}: {e}; trying again", folder.display()),
        };
        if text != told {
            tell(text.clone());
            told = text;
        }
        tokio::time::sleep(PAUSE).await;
    };
    tell(DONE.to_owned());
    for volume in volumes {
        let mark = volume.join(MARK_DIRECTORY);
        if let Err(e) = std::fs::remove_dir_all(&mark) {
            tell(format!("cannot remove {}: {e}", mark.display()));
        }
    }
}

/// The volumes of a pod, and the marks that are not there yet.
#[derive(Debug, Default, PartialEq, Eq)]
struct Looked {
    volumes: Vec<PathBuf>,
    waiting: Vec<PathBuf>,
}

fn look(folder: &Path, restore_uid: &str) -> std::io::Result<Looked> {
    let mut looked = Looked::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // A volume that cannot be looked at is no volume that is filled.
        if !std::fs::metadata(&path)?.is_dir() {
            continue;
        }
        let mark = path.join(MARK_DIRECTORY).join(restore_uid);
        if !mark.try_exists()? {
            looked.waiting.push(mark);
        }
        looked.volumes.push(path);
    }
    looked.volumes.sort();
    looked.waiting.sort();
    Ok(looked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_held_back_until_each_volume_has_the_mark_of_this_restore() {
        let root = tempfile::tempdir().unwrap();
        let mark = |volume: &str, uid: &str| {
            let folder = root.path().join(volume).join(MARK_DIRECTORY);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(uid), "").unwrap();
        };
        std::fs::create_dir_all(root.path().join("data")).unwrap();
        std::fs::write(root.path().join("file"), "no volume").unwrap();
        mark("logs", "other");
        let mut told = Vec::new();
        {
            let mut tell = |line: String| told.push(line.replace(root.path().to_str().unwrap(), ""));
            let mut waiting = std::pin::pin!(wait(root.path(), "uid", &mut tell));
            let minute = Duration::from_secs(60);
            assert!(tokio::time::timeout(minute, &mut waiting).await.is_err());
            mark("data", "uid");
            assert!(tokio::time::timeout(minute, &mut waiting).await.is_err());
            mark("logs", "uid");
            tokio::time::timeout(minute, &mut waiting).await.unwrap();
        }
        let expected = ["waiting for /data/.velero/uid, /logs/.velero/uid", "waiting for /logs/.velero/uid", DONE];
        assert_eq!(told, expected);
        assert!(!root.path().join("data/.velero").exists() && !root.path().join("logs/.velero").exists());
    }
}
