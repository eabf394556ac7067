//! Errors of preparations.

use crate::host_path::HostPathError;
use crate::template::TemplateError;
use lifeboat_client::is_refused;
use lifeboat_cluster::ClusterError;

/// The reason why a transfer could not be prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExposeError {
    /// It can be later.
    #[error("{0}")]
    Waits(String),
    /// It can be in a moment, when the cluster has done what it was asked for.
    #[error("{0}")]
    Soon(String),
    /// It never can.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    HostPath(#[from] HostPathError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl ExposeError {
    /// Returns true if the same request may be answered otherwise later.
    pub(crate) fn can_pass_of(error: &ClusterError) -> bool {
        !is_refused(error)
    }
}
