//! Snapshots that a backup takes, alone and in groups.

pub(crate) mod actions;
pub(crate) mod follow;
pub(crate) mod group_refusal;
pub(crate) mod groups;
pub(crate) mod listed_snapshots;
pub(crate) mod member_snapshot;
pub(crate) mod members;
pub(crate) mod moves;
pub(crate) mod outcomes;
pub(crate) mod refusal;
pub(crate) mod snapshots;
