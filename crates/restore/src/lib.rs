//! The restore engine.
//!
//! The entry points: [`run`] takes a [`Request`] and an [`Env`], restores a backup, and returns the [`Outcome`]. A
//! restore whose actions have begun asynchronous operations is pending then: [`look_after_operations`] checks their
//! progress, and [`finalize`] ends the restore. [`preview`] computes the changes that [`run`] would make. Inside, the
//! modules are the stages of a restore in their order: `request`, `load`, `versions` and `read`, `levels`, `existence`
//! (with `prefetch`), `execute`, `record`; then `look_after`, `finalize`. `preparation` holds the facts that are known
//! before anything is written, `level_context` makes the stages below `execute` and holds the state that lasts over all
//! levels:
//!
//! - `execute` restores a level, `running` holds its attempts in flight (`attempt` is one of them), `deferred` the
//!   objects that are tried again (`retry` tells which errors can pass); both write the `checkpoint`.
//! - `item` leads one object through `desired` (with `apply`, `answer_cache`, `operations`, `modifier` and `references`),
//!   `required_namespaces` (with `namespaces`), `additional` (with `ready` and `wait_slots`), `native` and `write` (with
//!   `create`, `best_effort`, `existing`, `existing_policies`, `definitions`, `update`, `recreate` and `terminating`),
//!   and decides about the outcome: an `item_result`, or the reason why the object was not written (`refused`).
//! - `volumes` and `volume_treatments` decide about volumes and claims, `retained_volumes` asks the cluster about the
//!   volumes that come back on their old storage and holds back objects that would start without their data,
//!   `volume_patches` waits for the volumes of new claims, `snapshot_groups` and `group_stubs` make and remove stubs for
//!   snapshots of groups, `hold_back` keeps back StatefulSets without their storage.
//! - `pod_commands` runs commands in restored pods at the same time (with `pod_states` and `pod_notes`).
//! - `owners` restores owner references when all levels have ended (with `owner_references`).
//! - `scope` is read by all of them, `messages`, `claimed_rows`, `defined`, `reader`, `renamed`, `wait` and `stop` are
//!   passed to the modules that need them.
//!
//! A plan is the result of a preview: `planned` (one object), `plan_line`, `plan_word` and `plan_file` (its lines),
//! `plan_guard` and `confirmed_plan` (a restore that is held to a plan), `cluster_only` and `owned_claims` (objects that
//! the backup lacks, and that must stay), `required_objects` and `companions` (objects that come because others need
//! them), `same_target` (objects that would become a single one).
//!
//! The engine never writes custom resources. Start reading at [`run`].

mod actions;
mod additional;
mod answer_cache;
mod apply;
mod attempt;
mod best_effort;
mod checkpoint;
mod claim;
mod claimed_rows;
mod cluster_only;
mod companions;
mod confirmed_plan;
mod create;
mod deferred;
mod defined;
mod definitions;
mod desired;
mod env;
mod execute;
mod existence;
mod existing;
mod existing_policies;
mod failure;
mod files;
mod finalize;
mod group_stubs;
mod hold_back;
mod identity_fields;
mod item;
mod item_listing;
mod item_result;
mod job_pods;
mod level_context;
mod levels;
mod load;
mod lock;
mod look_after;
mod made_anew;
mod managed_fields;
mod messages;
mod modifier;
mod namespace_uids;
mod namespaces;
mod native;
mod operations;
mod outcome;
mod owned_claims;
mod owner_references;
mod owners;
mod plan_file;
mod plan_guard;
mod plan_line;
mod plan_word;
mod planned;
mod pod_commands;
mod pod_notes;
mod pod_states;
mod prefetch;
mod preparation;
mod preview;
mod preview_json;
mod priorities;
mod read;
mod reader;
mod ready;
mod record;
mod recreate;
mod references;
mod refused;
mod renamed;
mod request;
mod required_namespaces;
mod required_objects;
mod retained_volumes;
mod retry;
mod run;
mod running;
mod same_target;
mod scope;
mod snapshot_groups;
mod stop;
#[cfg(test)]
mod stub;
mod target_namespaces;
mod terminating;
mod update;
mod versions;
mod volume_patch;
mod volume_patches;
mod volume_treatments;
mod volumes;
mod wait;
mod wait_slots;
mod write;

pub use actions::BUILT_IN_ACTIONS;
pub use claim::owner_of_files;
pub use env::Env;
pub use failure::record_failure;
pub use finalize::finalize;
pub use item_result::ItemResult;
pub use load::check_modifiers;
pub use look_after::look_after_operations;
pub use outcome::{Outcome, RestoreError};
pub use plan_file::{PlanChange, PlanFile};
pub use plan_guard::PlanGuard;
pub use plan_line::{PlanDigest, PlanLine};
pub use plan_word::{PlanWord, UnknownPlanWord};
pub use planned::{Modification, Planned, PreviewItem};
pub use preview::{PreviewEnd, preview};
pub use priorities::{ParsePrioritiesError, Priorities};
pub use request::{Request, Settings, ValidationErrors, check_source, is_restorable, prepared};
pub use run::run;
pub use stop::BrokenOff;
