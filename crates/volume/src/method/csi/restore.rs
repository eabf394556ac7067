//! Claims that a restore makes from snapshots.

pub(crate) mod actions;
pub(crate) mod annotated;
pub(crate) mod stub;
pub(crate) mod unbound;
