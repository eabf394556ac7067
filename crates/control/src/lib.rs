//! The server: makes what the `velero.io` resources ask for.
//!
//! [`serve`] waits until this process leads ([`Options::identity`], a Lease), mirrors the resources of one namespace
//! by list and watch into a `world`, and at each change makes a plan of it: a value, by pure functions, of which those in
//! `phase` say what is to be done with an object. Each step of it is performed by a task in `work`: it patches the object,
//! and for backups and restores runs the engine. Nothing is remembered between passes but which tasks run and when a
//! failed one may be tried again, so a server that is killed leaves nothing behind that its successor would need.
//!
//! Start reading at `server.rs`, then `server/plan.rs`, then `phase`.

mod buckets;
mod census;
mod coverage;
mod cron;
mod event;
mod extensions;
mod fence;
mod guard;
mod health;
mod http;
mod location_notes;
mod member;
mod metrics;
mod next_backups;
mod options;
mod own_pod;
mod passed_over;
mod phase;
mod records;
mod server;
#[cfg(test)]
mod stub;
mod terminating;
mod work;
mod world;

pub use buckets::open_location;
pub use census::{namespace_to_protect, namespaces_to_protect};
pub use coverage::{
    Attention, Coverage, EndedBackup, FailedEarlier, Inventory, LocationState, NamespaceInventory, NamespaceState,
    ObjectProgress, RunningState, ScheduleState, coverage,
};
pub use extensions::{Extensions, NoPlugins};
pub use http::download::HEADER_DOWNLOAD;
pub use http::plan::PLAN_PATH;
pub use next_backups::{NextBackup, NextBackups};
pub use options::{
    Controller, Env, Listeners, LocationAccess, Options, ProfileListener, Providers, ServerClock, SigningKey,
};
pub use own_pod::OwnPod;
pub use phase::backup_expiry::{BackupExpiry, ExpiryInput, expiries};
pub use phase::expiry::{ExpiryOutcome, Obstacle};
pub use phase::facts::{deletion_has_begun, is_running as backup_is_running};
pub use phase::hold::Hold;
pub use phase::keep::{Absence, Keeper, describe as describe_keepers};
pub use phase::kept_by::schedule_label;
pub use phase::location::{NoLocation, location_of};
pub use phase::request::{
    check_deletion, claims_may_need, deletion_is_asked, reads, refusal_for_claims, refusal_for_reader,
};
pub use phase::restore::is_running as restore_is_running;
pub use phase::retention::Rule as RetentionRule;
pub use phase::schedule::{ScheduleStanding, refusal as schedule_refusal};
#[doc(hidden)]
pub use phase::writable::note_writable;
#[doc(hidden)]
pub use server::PlanBench;
pub use server::{AtRest, ExplainedStep, ExplainedWait, Explanation, ServeError, explain, serve};
pub use work::download::ANNOTATION_THROUGH_SERVER;
