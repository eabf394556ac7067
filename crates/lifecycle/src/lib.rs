//! Rules of what becomes of backups, restores, schedules and locations: values in, values out.
//!
//! The server performs what they decide, and the command line shows it: both ask here, so that they agree. Nothing in this
//! room reads a clock, a cluster or a bucket; the caller gives the time and the resources as it saw them last.
//!
//! | module | rules |
//! |---|---|
//! | [`phase`] | the next step for each object, by its state; retention, holds, expiry, claims of readers |
//! | [`cron`] | times of schedules |
//! | [`coverage`] | what of a cluster is saved, and what needs attention |
//! | [`next_backups`], [`passed_over`] | what the server says in annotations, written and read |
//!
//! Start reading at [`phase::Decision`].

pub mod coverage;
pub mod cron;
pub mod next_backups;
pub mod passed_over;
pub mod phase;
#[doc(hidden)]
pub mod reference;
