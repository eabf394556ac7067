//! Deletion and release of the snapshots of a backup.

pub(crate) mod actions;
pub(crate) mod clean;
pub(crate) mod group_clean;
pub(crate) mod group_delete;
pub(crate) mod held;
pub(crate) mod kept_groups;
pub(crate) mod moved;
pub(crate) mod orphans;
pub(crate) mod recorded;
pub(crate) mod release;
pub(crate) mod settle;
pub(crate) mod sweep;
pub(crate) mod unproven;
