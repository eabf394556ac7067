//! Local operations, which run from this machine to their end without a server in the cluster: their state until they
//! have ended, and documents that replace ConfigMaps.

pub(crate) mod document;
mod files;
pub(crate) mod operation_key;
pub(crate) mod pending;
mod records;
pub(crate) mod restore_run;
pub(crate) mod specification;
pub(crate) mod state;
