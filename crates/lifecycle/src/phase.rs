//! Decides the next step for an object from its state. Pure: the tests are tables of Velero's controllers
//! (velero: pkg/controller).

pub mod backup;
pub mod backup_expiry;
pub mod expiry;
pub mod facts;
pub mod hold;
pub mod keep;
pub mod kept_backups;
pub mod kept_by;
pub mod location;
pub mod maintenance;
pub mod member;
pub mod others;
pub mod pending;
pub mod queue;
pub mod repository;
pub mod request;
pub mod restore;
pub mod retention;
pub mod schedule;
pub mod shrunken;
pub mod snapshot_location;
pub mod taken_over;
pub mod writable;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::ANNOTATION_ATTEMPT;

/// The decision about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<S> {
    /// Nothing until something changes.
    Rest,
    /// Nothing before this time.
    Wait(Timestamp),
    /// This step, at once.
    Do(S),
}

/// Largest difference between clocks that are taken to be right: that of a server, that of another one and that of the
/// API server.
pub const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

/// Number of attempts after which an operation has failed.
pub const MOST_ATTEMPTS: u32 = 3;

/// Notes that the work on an object begins, for this time.
pub fn note_attempt(meta: &mut lifeboat_api::ObjectMeta, status: &mut i64, attempt: u32) {
    meta.annotations.insert(ANNOTATION_ATTEMPT.to_owned(), attempt.to_string());
    *status = i64::from(attempt);
}

/// The number of times that a server of ours began the work on an object; `None` when another program began it.
pub fn attempt(meta: &lifeboat_api::ObjectMeta) -> Option<u32> {
    meta.annotations.get(ANNOTATION_ATTEMPT)?.parse().ok()
}
