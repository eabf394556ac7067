//! Volumes and claims: what becomes of each, snapshots that come with them, and what is left to do when a volume is there.

pub(crate) mod binding;
pub(crate) mod group_stubs;
pub(crate) mod hold_back;
pub(crate) mod mounting_pods;
pub(crate) mod movers;
pub(crate) mod native;
pub(crate) mod patch;
pub(crate) mod patches;
pub(crate) mod report;
pub(crate) mod repository_records;
pub(crate) mod restored;
pub(crate) mod retained;
pub(crate) mod snapshot_groups;
