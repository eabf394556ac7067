//! Why a stage of the walk ended before its end.

use lifeboat_store::{Broken, ReceiverGone};

/// Why a stage ended early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The operation is over: nobody takes what the stage gives, and who ended it says why.
    Over,
    /// A part of the operation died: a stage before this one, or a thread of it.
    Broken(Broken),
}

impl From<ReceiverGone> for Stopped {
    fn from(_: ReceiverGone) -> Self {
        Self::Over
    }
}

impl From<Broken> for Stopped {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}
