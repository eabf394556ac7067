//! The end of a restore: owner references, operations that go on, results and their files.

pub(crate) mod claim;
pub(crate) mod failure;
pub(crate) mod files;
pub(crate) mod finalize;
pub(crate) mod item_listing;
pub(crate) mod look_after;
pub(crate) mod outcome;
pub(crate) mod owners;
pub(crate) mod record;
