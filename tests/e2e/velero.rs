//! Beside Velero: its backups, the output of its commands, its scenarios, and the way from it.

pub(crate) mod golden_cli;
mod golden_in;
mod golden_out;
pub(crate) mod migrate;
mod upstream;
