//! The objects that a transfer needs to run: the pod, and the claims that it mounts.
//!
//! [`pod`] and [`claim`] build the objects, [`perform`] makes them; each can be done again.

pub(crate) mod claim;
pub(crate) mod error;
pub(crate) mod make;
pub(crate) mod perform;
pub(crate) mod pod;
pub(crate) mod remove;
#[cfg(test)]
mod tests;
