//! Maintenance: indexes are merged, and what nothing refers to any more is deleted (kopia: repo/maintenance,
//! snapshot/snapshotgc, internal/epoch).
//!
//! [`plan`] is pure: listings, entries, references and the time of the storage in, steps with reasons out. [`check`] looks at
//! each deletion, mark and watermark once more before it is performed, by other code. References are found by a walk over all snapshots
//! ([`references`]), which stops at whatever it cannot read.
//!
//! Nothing keeps other writers and readers away. The [`delays`] make it safe: what is deleted was unreferenced, and hidden
//! from writers, for so long that everybody has seen it. Ages are told by the clock of the storage; that of this machine may
//! be wrong by days.

pub mod check;
pub mod claim;
pub mod delays;
mod full_bucket;
mod gather;
mod locks;
mod maintained;
mod merge_indexes;
mod perform;
pub mod plan;
pub mod references;
mod report;
mod run;
mod settings;
mod storage_clock;

pub use maintained::Maintenance;
pub use report::{MaintenanceOptions, MaintenanceReport, Preview, Requested, StepReport};
pub use settings::set_parameters;
pub use storage_clock::StorageClock;

#[cfg(test)]
mod tests;
