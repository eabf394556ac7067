//! Flags and set-up of the movers of volumes, which node agents run in pods, and of others that run in pods of their own.

use super::transfer::{MoverEnv, Transfer};
use crate::logrus::{self, LogFormat, LogLevel};
use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_api::Duration;
use lifeboat_api::well_known::{VARIABLE_MOVER_ATTEMPT, VARIABLE_SCRATCH};
use lifeboat_bucket::Gates;
use lifeboat_client::Client;
use lifeboat_mover::protocol::{AccessPoint, BUCKET_PATIENCE, TERMINATION_FILE, VolumeMode};
use lifeboat_provider::ProviderSettings;
use lifeboat_terminal::flags;
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::process::clock::clock;
use lifeboat_terminal::process::random::random;
use lifeboat_terminal::process::signals::terminated;
use lifeboat_terminal::process::traces::Traces;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// Flags of every mover.
#[derive(Debug, Args)]
pub(crate) struct MoverArgs {
    /// The volume in this pod: its mount point or device
    #[arg(long, value_name = "PATH")]
    volume_path: String,
    /// Longest wait for a single resource
    #[arg(long, value_parser = flags::positive_duration, value_name = "DURATION")]
    resource_timeout: Duration,
    /// The number of this attempt
    #[arg(long, env = VARIABLE_MOVER_ATTEMPT, value_name = "NUMBER", hide = true)]
    attempt: Option<usize>,
    #[command(flatten)]
    pod: PodArgs,
}

/// Flags of every command that the server or a node agent runs in a pod of its own.
#[derive(Debug, Args)]
pub(crate) struct PodArgs {
    /// The least important log lines to write
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Form of the log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// The file in which this process leaves its result
    #[arg(long, default_value = TERMINATION_FILE, value_name = "FILE", hide = true)]
    termination_file: PathBuf,
    /// Locations of provider lifeboat.io/directory must lie below this directory
    #[arg(long, value_name = "DIRECTORY", hide = true)]
    directory_root: Option<PathBuf>,
    /// A folder for what memory cannot hold
    #[arg(long, env = VARIABLE_SCRATCH, value_name = "DIRECTORY", hide = true)]
    scratch: Option<PathBuf>,
}

/// The time for which a mover tries one operation of its bucket: longer than that of a command, unless the flags say more.
pub(crate) fn bucket_patience(globals: &Globals) -> std::time::Duration {
    globals.patience().max(BUCKET_PATIENCE)
}

/// The mode of a volume, in the words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum ModeOfVolume {
    /// A mounted file system
    Filesystem,
    /// A device
    Block,
}

impl From<ModeOfVolume> for VolumeMode {
    fn from(mode: ModeOfVolume) -> Self {
        match mode {
            ModeOfVolume::Filesystem => Self::Filesystem,
            ModeOfVolume::Block => Self::Block,
        }
    }
}

impl MoverArgs {
    /// The transfer of the resource of this name.
    pub(crate) fn transfer(&self, resource: &str, mode: VolumeMode) -> Result<Transfer> {
        if resource.is_empty() || self.volume_path.is_empty() {
            bail!("the name of the resource and --volume-path must not be empty");
        }
        let volume = AccessPoint { by_path: self.volume_path.clone(), volume_mode: mode };
        Ok(Transfer { name: resource.to_owned(), volume, attempt: self.attempt })
    }

    /// Runs a mover. A transfer that failed is exit code 1: its reason is in the termination message and in the log.
    pub(crate) async fn run(
        self,
        globals: &Globals,
        cache: Option<&Path>,
        work: impl AsyncFnOnce(&MoverEnv) -> std::io::Result<bool>,
    ) -> Result<ExitCode> {
        self.pod.run(globals, cache, work).await
    }
}

impl PodArgs {
    /// Starts the log, sets everything up, and runs the work. Work that failed is exit code 1.
    pub(crate) async fn run(
        self,
        globals: &Globals,
        cache: Option<&Path>,
        work: impl AsyncFnOnce(&MoverEnv) -> std::io::Result<bool>,
    ) -> Result<ExitCode> {
        let (traces, _) = Traces::prepare(&globals.program.traces, None, true);
        logrus::start(self.log_level, self.log_format, &traces);
        let ended = self.work(globals, cache, work).await;
        tokio::task::block_in_place(|| traces.end());
        Ok(if ended? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn work(
        self,
        globals: &Globals,
        cache: Option<&Path>,
        work: impl AsyncFnOnce(&MoverEnv) -> std::io::Result<bool>,
    ) -> Result<bool> {
        let stop = CancellationToken::new();
        let env = match self.env(globals, cache, stop.clone()).await {
            Ok(env) => env,
            Err(e) => {
                // Whoever has started the pod knows of nothing else.
                let _ = std::fs::write(&self.termination_file, format!("{e:#}"));
                return Err(e);
            }
        };
        let terminate = terminated()?;
        let mut working = std::pin::pin!(work(&env));
        let ended = tokio::select! {
            ended = &mut working => ended,
            () = terminate => {
                stop.cancel();
                working.await
            }
        };
        ended.with_context(|| format!("leave the result in {}", self.termination_file.display()))
    }

    async fn env(&self, globals: &Globals, cache: Option<&Path>, stop: CancellationToken) -> Result<MoverEnv> {
        let directory_root = self.directory_root.as_deref().map(Path::canonicalize).transpose();
        let directory_root = directory_root.context("--directory-root: it must be there")?;
        let cluster = globals.connect().await?;
        let scratch = self.scratch.as_deref().or(cache).map_or_else(std::env::temp_dir, Path::to_owned);
        Ok(MoverEnv {
            client: Client { cluster, namespace: globals.namespace.clone() },
            clock: clock(),
            random: random(),
            storage: ProviderSettings { directory_root, gates: Gates::default(), patience: bucket_patience(globals) },
            scratch,
            termination_file: self.termination_file.clone(),
            threads: std::thread::available_parallelism().map_or(1, NonZero::get),
            stop,
        })
    }
}
