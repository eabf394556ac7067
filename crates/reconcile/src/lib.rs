//! The loop of a controller process, for any kinds.
//!
//! [`MirroredType`] follows the objects of a type, [`Tasks`] runs at most one piece of work for each subject, [`RetryMemory`] says
//! when a step that failed is tried again, and [`Candidate`] agrees with other processes on a leader. None of them knows
//! what the work does.

mod backoff;
mod lead;
mod mirror;
mod retries;
#[cfg(test)]
mod stub;
mod tasks;

pub use backoff::StepBackoff;
pub use lead::{Candidate, Leadership, LeaseTimes, LostLease};
pub use mirror::{Mirror, MirrorEvent, MirrorFailure, MirroredType};
pub use retries::RetryMemory;
pub use tasks::{RunningTask, TaskKey, TaskPanic, Tasks};
