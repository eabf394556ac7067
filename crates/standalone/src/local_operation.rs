//! Local operations, which run from this machine to their end without a server in the cluster: their state until they
//! have ended, and documents that replace ConfigMaps.

pub mod document;
mod files;
pub mod operation_key;
pub(crate) mod pending;
mod records;
pub mod restore_run;
pub mod specification;
pub mod state;
