//! `lifeboat data-mover fill`: fills one volume from a repository, in a pod that a restore without a server has started.
//!
//! All that it needs is in its arguments and in files beside it: it asks no cluster. It ends with the termination message of a restore
//! ([`lifeboat_mover::protocol`]).

use crate::logrus::{self, LogFormat, LogLevel};
use crate::mover::args::{ModeOfVolume, bucket_patience};
use crate::mover::check::check_volume;
use crate::mover::failure::{Failure, with_message};
use crate::mover::restore::{RestoredVolume, SnapshotRestore};
use anyhow::{Context, Result};
use clap::Args;
use lifeboat_api::well_known::VARIABLE_SCRATCH;
use lifeboat_bucket::{BlobStore, Retried};
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::{KopiaError, OpenOptions};
use lifeboat_mover::Progress;
use lifeboat_mover::protocol::{AccessPoint, RestoreResult, TERMINATION_FILE, VolumeMode};
use lifeboat_repository::{RepositoryError, blobs_of, open, repository_clock};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::clock::clock;
use lifeboat_terminal::process::traces::Traces;
use std::fs::File;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The most memory for indexes and for contents that are under way.
const MEMORY: u64 = 96 << 20;
/// The time between two lines of the log with the progress.
const REPORTS: Duration = Duration::from_secs(10);

/// `lifeboat data-mover fill`.
#[derive(Debug, Args)]
pub struct FillArgs {
    /// The volume in this pod: its mount point or device
    #[arg(long, value_name = "PATH")]
    volume_path: String,
    /// The mode of the volume
    #[arg(long, value_enum, value_name = "MODE")]
    volume_mode: ModeOfVolume,
    /// The bucket of the storage location
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// The namespace of the backup whose repository has the snapshot
    #[arg(long, value_name = "NAMESPACE")]
    repository_namespace: String,
    /// The ID of the snapshot
    #[arg(long, value_name = "ID")]
    snapshot: String,
    /// A file with the password of the repository
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
    /// The least important log lines to write
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// The file in which this process leaves its result
    #[arg(long, default_value = TERMINATION_FILE, value_name = "FILE", hide = true)]
    termination_file: PathBuf,
    /// A folder for what memory cannot hold
    #[arg(long, env = VARIABLE_SCRATCH, value_name = "DIRECTORY", hide = true)]
    scratch: Option<PathBuf>,
}

impl FillArgs {
    /// Fills the volume. A transfer that failed is exit code 1.
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let (traces, _) = Traces::prepare(&globals.program.traces, None, true);
        logrus::start(self.log_level, LogFormat::Text, &traces);
        let progress = Arc::new(Progress::default());
        let filled = tokio::select! {
            filled = Box::pin(self.fill(globals, &progress)) => filled,
            never = report(&progress) => match never {},
        };
        let (text, code) = match filled {
            Ok(result) => (result, ExitCode::SUCCESS),
            Err(failure) => {
                // No node agent begins another attempt.
                let text = failure.text_of_only_attempt();
                tracing::error!("{text}");
                (text, ExitCode::FAILURE)
            }
        };
        let written = std::fs::write(&self.termination_file, text);
        written.with_context(|| format!("leave the result in {}", self.termination_file.display()))?;
        Ok(code)
    }

    async fn fill(&self, globals: &Globals, progress: &Arc<Progress>) -> Result<String, Failure> {
        let volume_mode = VolumeMode::from(self.volume_mode);
        let volume = AccessPoint { by_path: self.volume_path.clone(), volume_mode };
        check_volume(&volume)?;
        let repository = Arc::new(self.repository(globals).await?);
        let restore = SnapshotRestore {
            repository: &repository,
            snapshot: &self.snapshot,
            volume: &volume,
            sparse: volume_mode == VolumeMode::Block,
            progress,
        };
        let RestoredVolume { differences, total_bytes, files, fs_type } = restore.run().await?;
        differences.iter().for_each(|text| tracing::warn!("{text}"));
        let fs_type = fs_type.unwrap_or_default();
        let result = |message| RestoreResult {
            target: volume.clone(),
            total_bytes,
            files,
            message,
            fs_type: fs_type.to_owned(),
        };
        with_message(&differences.join("; "), result)
    }

    async fn repository(&self, globals: &Globals) -> Result<lifeboat_kopia::Repository, Failure> {
        let namespace = &self.repository_namespace;
        let attempt = format!("open the repository of namespace {namespace} in {}", self.bucket);
        let bucket = lifeboat_provider::parse_url("--bucket", &self.bucket).map_err(|e| Failure::new(&attempt, e))?;
        let patience = bucket_patience(globals);
        let opened = bucket.open(patience).await.map_err(|e| Failure::from_storage(&attempt, &e))?;
        let bucket: Arc<dyn BlobStore> = Arc::new(Retried::new(opened, patience));
        let file = &self.password_file;
        let password = File::open(file)
            .and_then(Password::read)
            .map_err(|e| Failure::new(&format!("read the password of the repository from {}", file.display()), e))?;
        let clock = clock();
        let options = OpenOptions {
            scratch: self.scratch.clone().unwrap_or_else(std::env::temp_dir),
            clock: repository_clock(move || clock()),
            memory: MEMORY,
            threads: std::thread::available_parallelism().map_or(1, NonZero::get),
            indexes: IndexSource::IndexBlobs,
        };
        open(blobs_of(bucket, namespace), password, options).await.map_err(|e| match &e {
            RepositoryError::Kopia(KopiaError::WrongPassword { .. }) => {
                Failure::new(&attempt, format!("{e}; --password-file of the restore names a file with the right one"))
            }
            _ => Failure::from_storage(&attempt, &e),
        })
    }
}

/// Logs the progress again and again.
async fn report(progress: &Progress) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(REPORTS).await;
        let totals = progress.totals();
        let done = totals.bytes_written + totals.bytes_unchanged;
        tracing::info!("{} of {} bytes, {} files", done, totals.expected_bytes.max(done), totals.files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        fill: FillArgs,
    }

    fn volume(folder: &std::path::Path, mode: &str, more: &[&str]) -> FillArgs {
        let path = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
        let line = [
            "fill".to_owned(),
            path("volume-path", "volume"),
            format!("--volume-mode={mode}"),
            path("bucket", "bucket"),
            path("password-file", "password"),
            path("termination-file", "ended"),
            "--repository-namespace=vol".to_owned(),
        ];
        let line = line.into_iter().chain(more.iter().map(|word| (*word).to_owned()));
        Line::try_parse_from(line).unwrap().fill
    }

    fn globals(flags: &[&str]) -> Globals {
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            globals: Globals,
        }
        Only::try_parse_from([&["lifeboat"], flags].concat()).unwrap().globals
    }

    #[test]
    fn a_mover_waits_longer_for_its_bucket_than_a_command() {
        let seconds = |flags: &[&str]| bucket_patience(&globals(flags)).as_secs();
        assert_eq!([seconds(&[]), seconds(&["--request-timeout=1h"])], [900, 3600]);
    }

    #[tokio::test]
    async fn a_volume_is_filled_from_a_bucket_without_a_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let archive =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../testbed/fixtures/repository/bucket.tar.gz");
        let bytes = lifeboat_archive::gzip::unpack(&std::fs::read(archive).unwrap(), 100 << 20).unwrap();
        tar::Archive::new(bytes.as_slice()).unpack(folder.path().join("bucket")).unwrap();
        std::fs::create_dir(folder.path().join("volume")).unwrap();
        std::fs::write(folder.path().join("password"), "static-passw0rd\n").unwrap();
        let progress = Arc::new(Progress::default());
        let fill = async |mode: &str, snapshot: &str| {
            let fill = volume(folder.path(), mode, &[&format!("--snapshot={snapshot}")]);
            fill.fill(&globals(&[]), &progress).await.map_err(|failure| failure.text())
        };
        // The volume scratch of the pod web-0.
        let result = fill("Filesystem", "39bc96795aaf31cc568c96dc224ddf78").await.unwrap();
        let result: RestoreResult = serde_json::from_str(&result).unwrap();
        assert_eq!(result.total_bytes, 11);
        assert_eq!(std::fs::read(folder.path().join("volume/d/e2")).unwrap().len(), 3);
        let block = fill("Block", "39bc96795aaf31cc568c96dc224ddf78").await.unwrap_err();
        assert!(block.contains("is not a block device"), "{block}");
        let missing = fill("Filesystem", "0000").await.unwrap_err();
        assert!(missing.contains("find snapshot 0000"), "{missing}");
        std::fs::write(folder.path().join("password"), "other").unwrap();
        let wrong = fill("Filesystem", "39bc96795aaf31cc568c96dc224ddf78").await.unwrap_err();
        assert!(wrong.contains("--password-file of the restore"), "{wrong}");
    }
}
