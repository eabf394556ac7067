//! Errors that end a backup, or keep it from being finalized now.

use crate::request::settings::ValidationErrors;
use crate::stage_error::ActionRefusal;
use lifeboat_cluster::ClusterError;
use lifeboat_select::SelectorError;
use lifeboat_store::{Broken, StoreError};
use lifeboat_volume::csi::CsiError;

/// A backup that did not come to its end: nothing is visible under its name.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Refused before anything was done.
    #[error(transparent)]
    Invalid(#[from] ValidationErrors),
    /// The bucket.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cluster as a whole did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The cluster serves no namespaces.
    #[error("the cluster at {0} does not serve namespaces: is it a Kubernetes API server?")]
    NoNamespaces(String),
    /// Stopped by the user.
    #[error("the backup was cancelled: nothing of it is visible in the bucket")]
    Cancelled,
    /// It cannot be known which objects an action must see.
    #[error("the action {0} is for objects by a label selector that cannot be read: {1}; nothing was done")]
    ActionScope(String, SelectorError),
    /// An action says that no call of it can succeed.
    #[error(
        "the action {action} ended the backup when it was called for {object}: {message}: nothing of this backup is visible in \
         the bucket"
    )]
    Action {
        /// Its name.
        action: String,
        /// The object that it was called for.
        object: String,
        /// The action's message.
        message: String,
    },
    /// A thread of ours died.
    #[error("a worker thread died while {0}")]
    Worker(&'static str),
    /// Objects were lost between the stages.
    #[error(
        "of {came} objects that came from the cluster it is known of {settled} what became of them: nothing of this \
         backup is visible in the bucket; this is a mistake of Lifeboat, please report it"
    )]
    Unaccounted {
        /// Objects that came from the cluster.
        came: u64,
        /// Objects that stand in the archive, were left out, or are errors in the results.
        settled: u64,
    },
}

impl From<Broken> for BackupError {
    fn from(Broken(what): Broken) -> Self {
        Self::Worker(what)
    }
}

impl From<ActionRefusal> for BackupError {
    fn from(ActionRefusal { action, object, message }: ActionRefusal) -> Self {
        Self::Action { action, object: object.to_string(), message }
    }
}

/// A reason for which a backup could not be finalized now. The backup is there as before or with a part of the change,
/// and can be proved and restored; doing it again goes on.
#[derive(Debug, thiserror::Error)]
pub enum FinalizeError {
    /// The bucket.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cluster as a whole did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The cluster does not say whether it serves the snapshots of the backup.
    #[error(transparent)]
    Snapshots(#[from] CsiError),
    /// A thread of ours died.
    #[error("a worker thread died while {0}")]
    Worker(&'static str),
    /// The operation was told to stop.
    #[error("finalizing the backup was stopped: it goes on when a server leads again")]
    Stopped,
}

impl FinalizeError {
    /// Returns true if doing it again may help.
    #[must_use]
    pub fn can_pass(&self) -> bool {
        match self {
            Self::Store(e) => e.can_pass(),
            Self::Cluster(_) | Self::Snapshots(_) | Self::Worker(_) | Self::Stopped => true,
        }
    }
}
