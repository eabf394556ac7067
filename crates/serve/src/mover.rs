//! The mover of one volume (velero: pkg/datamover, pkg/podvolume).
//!
//! A node agent has started this pod for one resource. It waits until the resource is `InProgress`, opens the repository, moves the
//! bytes, and reports in the words of [`lifeboat_mover::protocol`]. It writes Events and its termination message only; the resource
//! itself is the node agent's. Start reading at [`restore()`] and [`backup()`].

pub(crate) mod args;
mod backup;
pub(crate) mod check;
mod events;
pub(crate) mod failure;
mod follow;
mod mark;
pub(crate) mod repository;
mod resource;
pub(crate) mod restore;
mod role;
mod source;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
mod transfer;

pub use backup::backup;
pub use resource::{BackupResource, MoverResource, RestoreResource};
pub use restore::restore;
pub use source::{RestoreSource, VolumeSource};
pub use transfer::{MoverEnv, Transfer};
