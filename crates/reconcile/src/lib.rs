//! The loop of a controller process, for whatever kinds it has.
//!
//! [`Mirrored`] keeps sight of a type, [`Tasks`] runs one piece of work for each subject, [`Failure`] says when what failed
//! is tried again, and [`Candidate`] agrees with other processes who leads. None of them knows what is done, or to what.

mod backoff;
mod lead;
mod mirror;
#[cfg(test)]
mod stub;
mod tasks;

pub use backoff::Failure;
pub use lead::{Candidate, Leadership, LeaseTimes, LostLease};
pub use mirror::{Mirrored, Seen};
pub use tasks::{Died, Running, TaskKey, Tasks};
