//! The server: what custom resources ask for comes to be.

mod cancel;
mod explain;
mod hooks;
mod leadership;
mod left_behind;
mod nonsense;
mod operations;
mod plan;
pub(crate) mod plugins;
mod refused;
mod serving;
mod sync;
mod traces;
