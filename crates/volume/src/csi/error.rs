//! Why a snapshot was not taken.

use lifeboat_cluster::ClusterError;
use std::time::Duration;

/// A snapshot that was not taken, or whose objects could not be cleaned up.
#[derive(Debug, thiserror::Error)]
pub enum CsiError {
    /// The API server.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// No class fits.
    #[error(
        "no VolumeSnapshotClass of the driver {driver} is chosen: {why}; name one in the annotation \
         velero.io/csi-volumesnapshot-class of the claim, or put the label of that name on one class"
    )]
    NoClass {
        /// The driver.
        driver: String,
        /// Why.
        why: String,
    },
    /// The driver did not take it in time.
    #[error("the snapshot {name} was not taken within {}: {said}", format_duration(*within))]
    TimedOut {
        /// Namespace and name of the VolumeSnapshot.
        name: String,
        /// How long was waited.
        within: Duration,
        /// What the driver or its controller says.
        said: String,
    },
    /// Another backup, or a person, has made an object of the name.
    #[error("the VolumeSnapshot {0} is there already, and is not of this backup: delete or rename it")]
    Foreign(String),
    /// Somebody deletes it.
    #[error("the VolumeSnapshot {0} was deleted before it was taken")]
    Deleted(String),
    /// The process may not act for this backup any more.
    #[error("{0}")]
    Fenced(String),
    /// The backup was cancelled.
    #[error("the backup was cancelled")]
    Cancelled,
    /// The API server answered with something else.
    #[error("the API server answered with no {0}")]
    Odd(&'static str),
}

fn format_duration(duration: Duration) -> String {
    format!("{} s", duration.as_secs())
}
