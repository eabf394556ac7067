//! The backup engine.
//!
//! Two entry points: [`run`] takes a [`Request`] and an [`Env`], makes the backup, and gives the result. A backup whose
//! actions have begun asynchronous operations is pending then: [`look_after_operations`] asks for their progress, and
//! [`finalize`], the second entry point, saves again the objects that they name and ends the backup. Inside, the
//! modules are the stages of the walk in its order: `request`, `scope` (with `lane`), `plan`, `collect` (with `spool`
//! beneath it), `process`, `write`, `seal`; then `look_after`, `again`, `finalize`. Processing has two lanes: `pass`
//! for objects that no action looks at; for the others `work`, with `shelve` (`index`, `shelf`), `gather` (`ask`,
//! `fetch`), `block` and `save` (`perform`, `fates`, `deeds`) beneath it. `late` brings in objects that are known only
//! when both have ended. A stage is a function from stream to stream and owns its state; only the workers of one stage
//! share which objects were begun (`fates`). Each stream says its end, and `tally` counts that nothing was lost between
//! them.
//!
//! The engine never writes custom resources. Start reading at [`run`].

mod actions;
mod again;
mod ask;
mod beside_claim;
mod block;
mod collect;
mod deeds;
mod deletion;
mod entry;
mod env;
mod error;
mod explain;
mod failure;
mod fates;
mod fetch;
mod finalize;
mod gather;
mod hands;
mod hook;
mod index;
mod kept_from;
mod lane;
mod late;
mod limits;
mod load;
mod look_after;
mod movers;
mod objects;
mod order;
mod output;
mod parse;
mod pass;
mod perform;
mod plan;
mod preview;
mod process;
mod repository_snapshots;
mod request;
mod run;
mod save;
mod scope;
mod scratch;
mod seal;
mod shelf;
mod shelve;
mod snapshots;
mod spool;
mod stopped;
mod survey;
mod tally;
mod terminating;
mod volumes;
mod work;
mod write;

pub use actions::{BUILT_IN_ACTIONS, BUILT_IN_BLOCK_ACTIONS};
pub use beside_claim::noted_beside_claim;
pub use deletion::run_delete_actions;
pub use env::Env;
pub use error::{BackupError, FinalizeError};
pub use explain::{Explained, explain_volumes};
pub use failure::record_failure;
pub use finalize::finalize;
pub use hook::run_owed_hooks;
pub use lifeboat_volume::csi::{CsiError, unbound_claims};
pub use load::{CheckedPolicies, check_policies};
pub use look_after::look_after_operations;
pub use plan::Excluded;
pub use preview::{Preview, PreviewedType, PreviewedVolume, preview};
pub use request::{MEMORY_BUDGET_MIB, Request, Settings, ValidationErrors, prepared};
pub use run::{Outcome, run};
pub use snapshots::{has_noted_snapshots, remove_snapshots, snapshots_that_stay};
