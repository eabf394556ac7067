//! `lifeboat repo-maintenance`: the maintenance of one repository, in the pod of a Job of the server (velero:
//! pkg/cmd/cli/repomantenance).
//!
//! A server has started this pod by a Job. The termination message is the report as JSON, and of a run that failed the error on a line of
//! its own, behind the mark by which servers, also those of Velero, find it.

use crate::mover::MoverEnv;
use crate::mover::args::PodArgs;
use crate::mover::failure::{Failure, cut};
use crate::mover::repository::VolumeRepository;
use anyhow::{Result as AnyResult, bail};
use clap::Args;
use lifeboat_mover::protocol::TERMINATION_LIMIT;
use lifeboat_repository::{MAINTENANCE_ERROR, MaintenanceSummary};
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Maintain the repository of a namespace; the server runs this in Jobs.
#[derive(Debug, Args)]
pub struct RepoMaintenanceArgs {
    /// The namespace whose volumes the repository holds
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    repo_name: String,
    /// The format of the repository: kopia is all there is
    #[arg(long, default_value = "kopia", value_name = "TYPE")]
    repo_type: String,
    /// The storage location of the repository
    #[arg(long, default_value = "", value_name = "NAME")]
    backup_storage_location: String,
    #[command(flatten)]
    pod: PodArgs,
}

impl RepoMaintenanceArgs {
    /// Maintains the repository. A run that failed is exit code 1.
    ///
    /// # Errors
    /// Anything but the run that failed: flags that are wrong, a cluster that cannot be reached.
    pub async fn run(self, globals: &Globals) -> AnyResult<ExitCode> {
        if self.repo_name.is_empty() || self.backup_storage_location.is_empty() {
            bail!(
                "--repo-name and --backup-storage-location must not be empty: they say which repository is maintained"
            );
        }
        if self.repo_type != "kopia" {
            bail!("--repo-type {}: only repositories of kopia are maintained", self.repo_type);
        }
        let repository = MaintainedRepository { namespace: self.repo_name, location: self.backup_storage_location };
        let work = async |env: &_| {
            let error = maintain(env, &repository).await?;
            if let Some(line) = &error {
                // compat: servers of Velero look for it in the last lines of the log.
                writeln!(std::io::stdout(), "{line}")?;
            }
            Ok(error.is_none())
        };
        Box::pin(self.pod.run(globals, None, work)).await
    }
}

/// A repository that is to be maintained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintainedRepository {
    /// The namespace whose volumes it holds.
    pub namespace: String,
    /// The storage location in which it lies.
    pub location: String,
}

/// Maintains a repository, and leaves the termination message. Gives the line that tells the error to the server; none where it has
/// succeeded.
///
/// # Errors
/// A termination message that cannot be written.
pub async fn maintain(env: &MoverEnv, repository: &MaintainedRepository) -> std::io::Result<Option<String>> {
    let (summary, failure) = match run(env, repository).await {
        Ok(summary) => {
            let failure = summary.failure();
            (Some(summary), failure)
        }
        Err(failure) => (None, Some(failure.text())),
    };
    let report =
        summary.as_ref().map(serde_json::to_string).transpose().map_err(std::io::Error::other)?.unwrap_or_default();
    let Some(failure) = failure else {
        summary.iter().for_each(|summary| tracing::info!("{summary}"));
        std::fs::write(&env.termination_file, report)?;
        return Ok(None);
    };
    tracing::error!("{failure}");
    // A kubelet that cut it off would take away its beginning.
    let line = cut(&format!("{MAINTENANCE_ERROR}{failure}"), TERMINATION_LIMIT);
    let whole = format!("{report}\n{line}");
    std::fs::write(&env.termination_file, if whole.len() > TERMINATION_LIMIT { &line } else { whole.trim_start() })?;
    Ok(Some(line))
}

async fn run(env: &MoverEnv, repository: &MaintainedRepository) -> Result<MaintenanceSummary, Failure> {
    VolumeRepository::find(env, &repository.location, &repository.namespace).await?.maintain().await
}
