//! What is done from here to its end, with nothing of ours in the cluster: what is remembered of it until it has ended,
//! and its documents in place of ConfigMaps.

pub(crate) mod carry_out;
pub(crate) mod document;
pub(crate) mod pending;
pub(crate) mod state;
