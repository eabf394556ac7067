//! Data of CSI snapshots in repositories, carried by data movers.

pub mod backup;
mod progress;
pub mod restore;
pub(crate) mod upload;
