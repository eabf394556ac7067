//! Volumes of a backup: what becomes of each, and their snapshots.

pub(crate) mod decisions;
pub(crate) mod due_files;
pub(crate) mod explain;
pub(crate) mod file_backups;
pub(crate) mod mover_check;
pub(crate) mod outcomes;
pub(crate) mod policy_exclusions;
pub(crate) mod side_effects;
pub(crate) mod snapshot_notes;
pub(crate) mod snapshots;
pub(crate) mod useless;
