//! Errors that stop an installation or a removal.

use lifeboat_cluster::ClusterError;
use std::io;

/// The reason for which an installation stopped. Objects that were sent before stay, and the same calls go on from
/// there.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A call to the cluster failed for good.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A step could not be told, so nothing further was sent.
    #[error("{0}")]
    Tell(#[source] io::Error),
    /// An object that cannot be addressed.
    #[error("cannot address a {kind}: an object without name; give it metadata.name")]
    Nameless {
        /// Its kind.
        kind: String,
    },
    /// An object in the cluster cannot become the one that is asked for.
    #[error("nothing was changed: {0}")]
    InTheWay(String),
    /// A binding was deleted, because it cannot be changed, and the new one was refused.
    #[error("{binding} was deleted and could not be made anew, so that the server is without rights")]
    WithoutRights {
        /// Its kind and name.
        binding: String,
        /// The reason for which there is no new one.
        #[source]
        cause: Box<InstallError>,
    },
    /// A definition was not established in time.
    #[error("{definition} is not served after {seconds} s: {conditions}")]
    NotServed {
        /// Its name.
        definition: String,
        /// The time that it was waited for.
        seconds: u64,
        /// Its conditions in the API server, as JSON.
        conditions: String,
    },
    /// The server's pods were not ready in time. Says what is missing, and where to find out more.
    #[error("{0}")]
    NotReady(String),
}

/// The reason for which a removal stopped. Objects that were deleted before are gone, and another removal goes on from
/// there.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// A call to the cluster failed for good.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A step could not be told, so nothing further was deleted.
    #[error("{0}")]
    Tell(#[source] io::Error),
    /// There is nothing to remove here. Says why, and where there is an installation.
    #[error("{0}")]
    NotInstalled(String),
    /// An object that was deleted does not go. Says what holds it.
    #[error("{0}")]
    Stuck(String),
}
