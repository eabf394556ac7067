//! The restore engine.
//!
//! The entry points: [`run`] takes a [`Request`] and an [`Env`], restores a backup, and returns the [`Outcome`]. A
//! restore whose actions have begun asynchronous operations is pending then: [`look_after_operations`] checks their
//! progress, and [`finalize`] ends the restore. [`preview`] computes the changes that [`run`] would make. Inside, a
//! folder is a part of a restore:
//!
//! - `request`: the request and the documents that it names (`load`).
//! - `walk`: the archive is read once (`read`, `versions`), ordered (`levels`), compared with the cluster (`existence`,
//!   with `prefetch`), and restored level by level (`run`, `execute`). `preparation` holds the facts that are known before
//!   anything is written, `scope` what is restored and under which keys, `running` the attempts in flight and `deferred` the
//!   objects that are tried again. All parts work with one `context`: the scope, the state, and the cluster.
//! - `object`: `item` leads one object through `desired` (with `apply`, `answer_cache` and `references`),
//!   `required_namespaces`, `additional`, `item_volumes` and `write` (with `create`, `update`, `best_effort`, `recreate`), and
//!   decides about the outcome: an `item_result`, or the reason why the object was not written (`refused`, `item_failure`).
//!   `decision` says what to do with an object that exists; a preview shows the same decision.
//! - `volumes`: what becomes of each volume and claim is decided in the room `volume`, and told by `report`; `retained` asks
//!   the cluster about the volumes that come back on their old storage, `native` makes volumes from native snapshots,
//!   `binding` takes volumes and claims apart, `patches` waits for the volumes of new claims, `snapshot_groups` and
//!   `group_stubs` make and remove stubs for snapshots of groups, `hold_back` keeps back StatefulSets without their storage.
//!   `movers` finds the node agent, by which files come back from repositories; the room `volume` has the work.
//! - `hooks`: commands in restored pods, run beside the levels that follow.
//! - `plan`: a `preview` computes the changes (`planned`), a plan is its lines (`line`, `word`, `file`), and `guard` and
//!   `confirmed` hold a restore to a plan. `cluster_only` and `owned_claims` are objects that the backup lacks,
//!   `required_objects` and `companions` objects that come because others need them.
//! - `end`: `owners` restores owner references when all levels have ended, `look_after` checks operations that go on,
//!   `record` stores the results.
//! - `state`: what happens meanwhile, in one `restore_state`: messages and claims per object, waits, notes; and the
//!   `checkpoint` and early ends (`stop`).
//! - `actions`: the built-in restore item actions.
//!
//! The engine writes no custom resources but those that ask for the data of volumes (`lifeboat_volume::fs_backup`). Start reading at
//! [`run`].

mod actions;
mod end;
mod hooks;
mod object;
mod plan;
mod request;
mod state;
#[cfg(test)]
mod stub;
mod volumes;
mod walk;

pub use actions::BUILT_IN_ACTIONS;
pub use end::claim::owner_of_files;
pub use end::failure::record_failure;
pub use end::finalize::finalize;
pub use end::look_after::look_after_operations;
pub use end::outcome::{Outcome, RestoreError};
pub use plan::file::{PlanChange, PlanFile};
pub use plan::guard::PlanGuard;
pub use plan::line::{PlanDigest, PlanLine};
pub use plan::planned::{Modification, Planned, PreviewItem};
pub use plan::preview::{PreviewEnd, preview};
pub use plan::word::{PlanWord, UnknownPlanWord};
pub use request::load::check_modifiers;
pub use request::priorities::{ParsePrioritiesError, Priorities};
pub use request::settings::{
    MoverSettings, Request, Settings, ValidationErrors, check_record, check_source, is_restorable, prepared,
};
pub use state::env::Env;
pub use state::item_result::ItemResult;
pub use state::stop::BrokenOff;
pub use walk::run::run;
