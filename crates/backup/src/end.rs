//! The end of a backup: operations that go on, failures, deletion.

pub(crate) mod archived_objects;
pub(crate) mod deletion;
pub(crate) mod failure;
pub(crate) mod finalize;
pub(crate) mod look_after;
pub(crate) mod moved_volumes;
pub(crate) mod post_operation_items;
pub(crate) mod repository_snapshots;
