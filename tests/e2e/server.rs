//! The server: what custom resources ask for comes to be.

mod cancel;
mod explain;
mod hooks;
mod nonsense;
mod operations;
mod plan;
pub(crate) mod plugins;
mod serving;
mod traces;
