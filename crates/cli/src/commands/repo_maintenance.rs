//! `lifeboat repo-maintenance`: the maintenance of one repository, in the pod of a Job of the server.

use crate::commands::mover::PodArgs;
use anyhow::{Result, bail};
use clap::Args;
use lifeboat_serve::repo_maintenance::{MaintainedRepository, maintain};
use lifeboat_terminal::flags::globals::Globals;
use std::io::Write;
use std::process::ExitCode;

/// Maintain the repository of a namespace; the server runs this in Jobs.
#[derive(Debug, Args)]
pub(crate) struct RepoMaintenanceArgs {
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
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
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
            let ended = maintain(env, &repository).await?;
            if let Err(line) = &ended {
                // compat: servers of Velero look for it in the last lines of the log.
                writeln!(std::io::stdout(), "{line}")?;
            }
            Ok(ended.is_ok())
        };
        Box::pin(self.pod.run(globals, None, work)).await
    }
}
