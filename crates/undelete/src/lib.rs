//! Restores a single object from a backup that has it, through the restore engine.
//!
//! [`Undelete`] is the whole walk: the search through backups, the plan, the question, the restore. Start reading there.

mod find;
mod job;
mod next;
mod report;
mod requested_object;
mod resume_state;
mod run;
mod selection;
mod shown;
mod silence;

pub use run::Undelete;
