//! Why an object was not written.

use crate::apply::Unprepared;
use crate::leaving::Leaving;
use crate::namespaces::Missing;
use lifeboat_cluster::ClusterError;

/// Why an object was not written.
pub(crate) enum Refused {
    /// The journal has it.
    Reported,
    /// Actions did not make it; nobody has reported that yet.
    Unprepared(Unprepared),
    /// The server's word; nobody has reported it yet.
    Because(Box<ClusterError>),
    /// Its namespace is not there; nobody has reported that yet.
    Namespace(Missing),
    /// The one in the cluster is being deleted; nobody has reported that yet.
    Leaving(Leaving),
    /// The restore ends early, and what has to be there before it is not.
    Stopped,
    /// It needs to wait for others, and too many do.
    Crowded,
}
