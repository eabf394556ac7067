//! What is done from here to its end, with nothing of ours in the cluster: what is remembered of it until it has ended,
//! and its documents in place of ConfigMaps.

pub(crate) mod carry_out;
pub(crate) mod document;
mod files;
pub(crate) mod operation_key;
pub(crate) mod pending;
mod records;
pub(crate) mod specification;
pub(crate) mod state;
