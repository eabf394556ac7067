//! Commands in restored pods.

pub(crate) mod commands;
pub(crate) mod notes;
pub(crate) mod states;
