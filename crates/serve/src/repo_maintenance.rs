//! The maintenance of one repository (velero: pkg/cmd/cli/repomantenance).
//!
//! A server has started this pod by a Job. The termination message is the report as JSON, or the error behind the mark by which
//! servers, also those of Velero, find it.

use crate::mover::MoverEnv;
use crate::mover::failure::{Failure, cut};
use crate::mover::repository::VolumeRepository;
use lifeboat_mover::protocol::TERMINATION_LIMIT;
use lifeboat_repository::MaintenanceSummary;

/// The mark in front of the error of a run.
const MARK: &str = "Repo maintenance error: ";

/// A repository that is to be maintained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintainedRepository {
    /// The namespace whose volumes it holds.
    pub namespace: String,
    /// The storage location in which it lies.
    pub location: String,
}

/// Maintains a repository, and leaves the termination message. Gives the line that tells the error to the server where it has failed.
///
/// # Errors
/// A termination message that cannot be written.
pub async fn maintain(env: &MoverEnv, repository: &MaintainedRepository) -> std::io::Result<Result<(), String>> {
    let ended = match run(env, repository).await {
        Ok(summary) => match summary.failure() {
            None => Ok(summary),
            Some(failure) => Err(failure),
        },
        Err(failure) => Err(failure.text()),
    };
    match ended {
        Ok(summary) => {
            tracing::info!("{summary}");
            let text = serde_json::to_string(&summary).map_err(std::io::Error::other)?;
            std::fs::write(&env.termination_file, text)?;
            Ok(Ok(()))
        }
        Err(failure) => {
            tracing::error!("{failure}");
            // A kubelet that cut it off would take away its beginning.
            let line = cut(&format!("{MARK}{failure}"), TERMINATION_LIMIT);
            std::fs::write(&env.termination_file, &line)?;
            Ok(Err(line))
        }
    }
}

async fn run(env: &MoverEnv, repository: &MaintainedRepository) -> Result<MaintenanceSummary, Failure> {
    VolumeRepository::find(env, &repository.location, &repository.namespace).await?.maintain().await
}
