//! The objects that a transfer needs to run: the pod, and the claims that it mounts.
//!
//! [`pod`] and [`claim`] build the objects, [`perform`] makes them; each can be done again. A DataUpload needs a snapshot too, which
//! [`handover`] brings into the namespace of the node agent, and [`upload_removal`] removes.

mod backup_claim;
pub(crate) mod claim;
pub(crate) mod common;
pub(crate) mod copies;
pub(crate) mod diagnose;
pub(crate) mod error;
mod handover;
mod made_volume;
pub(crate) mod make;
mod moved_snapshot;
mod mover_user;
pub(crate) mod perform;
mod placement;
pub(crate) mod pod;
pub(crate) mod remove;
#[cfg(test)]
mod tests;
mod upload;
mod upload_objects;
mod upload_removal;
mod users;
