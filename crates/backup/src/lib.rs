//! The backup engine.
//!
//! Two entry points: [`run`] takes a [`Request`] and an [`Env`], makes the backup, and gives the result. A backup whose
//! actions have begun asynchronous operations is pending then: [`look_after_operations`] asks for their progress, and
//! [`finalize`], the second entry point, saves again the objects that they name and ends the backup. Inside, the
//! modules are the stages of a backup in their order: `request`, `scope` (with `lane`), `plan`, `collect` (with `spool`
//! beneath it), `process`, `write`, `seal`; then `look_after`, `post_operation_items`, `finalize`. Processing has two
//! lanes: `fast_lane` for objects that no action looks at; for the others `action_lane`, with `action_lane_intake`
//! (`index`, `body_store`), `gather` (`item_block_actions`, `fetch`), `block` and `save` (`action_calls`, `item_states`,
//! `save_report`) beneath it. `related_items` brings in objects that are known only when both have ended. A stage is a
//! function from stream to stream and owns its state; only the workers of one stage share which objects were begun
//! (`item_states`). Each stream says its end, and `tally` counts that nothing was lost between them.
//!
//! The engine never writes custom resources. Start reading at [`run`].

mod action_calls;
mod action_lane;
mod action_lane_intake;
mod actions;
mod block;
mod body_store;
mod collect;
mod deletion;
mod entry;
mod entry_sender;
mod env;
mod error;
mod explain;
mod failure;
mod fast_lane;
mod fetch;
mod finalize;
mod gather;
mod hook;
mod index;
mod item_block_actions;
mod item_states;
mod lane;
mod limits;
mod load;
mod look_after;
mod mover_check;
mod objects;
mod ordered_resources;
mod parse;
mod plan;
mod policy_exclusions;
mod post_operation_items;
mod preview;
mod process;
mod related_items;
mod repository_snapshots;
mod request;
mod run;
mod save;
mod save_report;
mod scope;
mod scratch;
mod seal;
mod side_effects;
mod snapshot_notes;
mod snapshots;
mod spool;
mod stage_error;
mod tally;
mod terminating;
mod volume_decisions;
mod volumes;
mod write;

pub use actions::{BUILT_IN_ACTIONS, BUILT_IN_BLOCK_ACTIONS};
pub use deletion::run_delete_actions;
pub use env::Env;
pub use error::{BackupError, FinalizeError};
pub use explain::{VolumeExplanation, explain_volumes};
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
pub use snapshot_notes::noted_beside_claim;
pub use snapshots::{has_noted_snapshots, remove_snapshots, snapshots_that_stay};
