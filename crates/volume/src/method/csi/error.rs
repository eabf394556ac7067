//! Errors of taking and deleting snapshots.

use crate::class::ClassTrouble;
use crate::method::csi::backup::refusal::FROZEN_PATIENCE;
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
        "no VolumeSnapshotClass of the driver {driver} is chosen: {}; {}", trouble.why, trouble.advice
    )]
    NoClass {
        /// The driver.
        driver: String,
        /// The reason, and advice.
        trouble: ClassTrouble,
    },
    /// The driver did not take it in time.
    #[error("the snapshot {name} was not taken within {}: {said}", format_duration(*within))]
    TimedOut {
        /// Namespace and name of the VolumeSnapshot.
        name: String,
        /// The time of the wait.
        within: Duration,
        /// The message of the driver or its controller.
        said: String,
    },
    /// The data of the snapshot is to be moved, and could not be.
    #[error("no snapshot is taken, because its data could not be moved: {0}")]
    CannotBeMoved(String),
    /// The driver or its controller refuses it, and no later try changes that.
    #[error("the {0} is refused: {1}")]
    Refused(String, String),
    /// An error that can pass has not passed, and pods stand still meanwhile.
    #[error("the {0} was not taken within {wait} of its first error, and pods stand still meanwhile: {1}", wait = format_duration(FROZEN_PATIENCE))]
    Unpassed(String, String),
    /// The driver did not take a snapshot of several claims in time.
    #[error("the group snapshot {name} of the claims {claims} was not taken within {}: {said}", format_duration(*within))]
    GroupTimedOut {
        /// Namespace and name of the VolumeGroupSnapshot.
        name: String,
        /// The claims.
        claims: String,
        /// The time of the wait.
        within: Duration,
        /// The message of the driver or its controllers.
        said: String,
    },
    /// An object that is to be deleted is there still.
    #[error("the {0} is being deleted still: {1}")]
    Remains(String, String),
    /// It is not known if an attempt before has given the snapshot to a data mover.
    #[error("it is not known if a DataUpload of an earlier attempt has its data: {0}")]
    UploadsUnknown(String),
    /// Another backup, or a person, has made an object of the name.
    #[error("the {0} is there already, and is not of this backup: delete or rename it")]
    Foreign(String),
    /// Somebody deletes it.
    #[error("the {0} was deleted before it was taken")]
    Deleted(String),
    /// It is not known just now if the cluster serves snapshots.
    #[error("it is not known whether the cluster serves {group}: {why}")]
    NotKnown {
        /// The API group.
        group: String,
        /// The reason.
        why: String,
    },
    /// The cluster has no group snapshots.
    #[error("the cluster serves no VolumeGroupSnapshots")]
    NoGroups,
    /// The process may not act for this backup any more.
    #[error("{0}")]
    Fenced(String),
    /// The backup was cancelled.
    #[error("the backup was cancelled")]
    Cancelled,
    /// The API server's answer is none.
    #[error("the API server's answer for a {kind} cannot be read: {why}")]
    Unreadable {
        /// The kind of the object.
        kind: String,
        /// The reason.
        why: serde_json::Error,
    },
}

fn format_duration(duration: Duration) -> String {
    format!("{} s", duration.as_secs())
}
