//! Why an object was not written.

use crate::apply::Unprepared;
use crate::leaving::Leaving;
use lifeboat_cluster::ClusterError;

/// Why an object was not written.
pub(crate) enum Refused {
    /// The journal has it.
    Reported,
    /// Actions did not make it; the journal does not have that yet.
    Unprepared(Unprepared),
    /// The API server refused it; the journal does not have that yet.
    Because(Box<ClusterError>),
    /// Its namespace is not there; the journal does not have that yet.
    Namespace(Missing),
    /// The object in the cluster is being deleted; the journal does not have that yet.
    Leaving(Leaving),
    /// One is there and could not be brought in line, for a reason that can pass; the journal does not have that yet.
    Unequal {
        /// What is said when it does not pass.
        told: String,
        /// Whether that is an error, and no warning.
        is_error: bool,
    },
    /// The restore ends early, and what has to be there before it is not.
    Stopped,
    /// It needs to wait for others, and too many do.
    Crowded,
}

/// A namespace that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It may come in a later round.
    ForNow,
    /// It does not come in this restore.
    ForGood,
}
