//! Reasons for which a stage of the walk ends early.

use lifeboat_cluster::ClusterError;
use lifeboat_object::ObjectKey;
use lifeboat_store::{Broken, ReceiverGone, StreamSender};

/// The reason for which a stage ended early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StageError {
    /// The operation is over: the receiver of this stage is gone, and the stage that ended the operation says why.
    OperationEnded,
    /// A part of the operation died: a stage before this one, or a thread of it.
    StageDied(Broken),
    /// An action says that no call of it can succeed.
    ActionRefused(Box<ActionRefusal>),
}

/// An error of an action that ends the operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ActionRefusal {
    pub(crate) action: String,
    /// The object that it was called for.
    pub(crate) object: ObjectKey,
    pub(crate) message: String,
}

/// The reason for which a list was not read to its end.
#[derive(Debug)]
pub(crate) enum ListError {
    /// The cluster refused the list, or broke it off: the stage goes on without the rest of it.
    Cluster(ClusterError),
    /// The stage ends.
    Stage(StageError),
}

impl From<StageError> for ListError {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

impl From<ReceiverGone> for ListError {
    fn from(gone: ReceiverGone) -> Self {
        Self::Stage(gone.into())
    }
}

/// Says the end of a stage's stream, if it came to its end, or which stage before it broke.
pub(crate) fn say_end<T, P>(result: Result<T, StageError>, sender: StreamSender<P>) -> Result<T, StageError> {
    match &result {
        Ok(_) => sender.end(),
        Err(StageError::StageDied(broken)) => sender.fail(*broken),
        Err(_) => {}
    }
    result
}

impl From<ReceiverGone> for StageError {
    fn from(_: ReceiverGone) -> Self {
        Self::OperationEnded
    }
}

impl From<Broken> for StageError {
    fn from(broken: Broken) -> Self {
        Self::StageDied(broken)
    }
}
