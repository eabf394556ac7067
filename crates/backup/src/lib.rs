//! The backup engine.
//!
//! Two entry points: [`run`] takes a [`Request`] and an [`Env`], makes the backup, and gives the result. A backup whose
//! actions have begun asynchronous operations is pending then: [`look_after_operations`] asks for their progress, and
//! [`finalize`], the second entry point, saves again the objects that they name and ends the backup. Inside, a
//! folder is a part of the walk, in its order:
//!
//! - `request`: the request, the documents that it names, and the `scope` that all stages read.
//! - `collect`: the `plan` of what is listed, and its `lists` (with `spool` beneath them). `tally` counts that nothing is
//!   lost between the stages.
//! - `objects` starts the stages, `process` decides about each object. Objects that no action looks at go through the
//!   `fast_lane` as bytes.
//! - `action_lane`: the others. `intake` (with `index` and `body_store`) takes them in, `gather` fetches what belongs to
//!   them, `block` groups them, `save` runs their actions; `related_items` brings in objects that are known only when
//!   both lanes have ended.
//! - `hook`: commands in pods around their backup. `volumes`: what becomes of volumes, and their snapshots.
//! - `output`: entries of the archive, its members, and the record (`seal`).
//! - `end`: operations that go on, the second entry point, failures, and the deletion of backups.
//!
//! A stage is a function from stream to stream and owns its state; only the workers of one stage share which objects were
//! begun (`item_states`). Each stream says its end.
//!
//! The engine never writes custom resources. Start reading at [`run`].

mod action_lane;
mod actions;
mod collect;
mod end;
mod env;
mod error;
mod fast_lane;
mod hook;
mod objects;
mod output;
mod preview;
mod process;
mod request;
mod run;
mod stage_error;
mod volumes;

pub use actions::{BUILT_IN_ACTIONS, BUILT_IN_BLOCK_ACTIONS};
pub use collect::plan::Excluded;
pub use end::deletion::run_delete_actions;
pub use end::failure::record_failure;
pub use end::finalize::finalize;
pub use end::look_after::look_after_operations;
pub use end::repository_snapshots::delete_listed_snapshots;
pub use env::Env;
pub use error::{BackupError, FinalizeError};
pub use hook::run_owed_hooks;
pub use lifeboat_volume::csi::{CsiError, unbound_claims};
pub use lifeboat_volume::fs_backup::{remove_readers, stop_file_backups};
pub use preview::{Preview, PreviewedType, PreviewedVolume, preview};
pub use request::load::{CheckedPolicies, check_policies};
pub use request::settings::{FileMoverSettings, MEMORY_BUDGET_MIB, Request, Settings, ValidationErrors, prepared};
pub use run::{Outcome, run};
pub use volumes::explain::{VolumeExplanation, explain_volumes};
pub use volumes::snapshot_notes::noted_beside_claim;
pub use volumes::snapshots::{has_noted_snapshots, remove_snapshots, snapshots_that_stay};
