//! The server: makes what the `velero.io` resources ask for.
//!
//! [`serve`] waits until this process leads ([`Options::identity`], a Lease), mirrors the resources of one namespace
//! by list and watch into a `world`, and at each change makes a plan of it: a value, by the rules of
//! [`lifeboat_lifecycle`]. Each step of it is performed by a task in `work`: it patches the object,
//! and for backups and restores runs the engine. Nothing is remembered between passes but which tasks run and when a
//! failed one may be tried again, so a server that is killed leaves nothing behind that its successor would need.
//!
//! Start reading at `server.rs`, then `server/plan.rs`, then the rules in `lifecycle`.

mod buckets;
mod census;
mod event;
mod extensions;
mod fence;
mod guard;
mod health;
mod http;
mod location_notes;
mod member;
mod metrics;
mod options;
mod own_pod;
mod records;
mod running_jobs;
mod server;
#[cfg(test)]
mod stub;
mod terminating;
mod unreadable_step;
mod work;
mod world;

pub use extensions::{Extensions, NoPlugins};
pub use guard::own_image;
pub use options::{
    Controller, Env, Listeners, MaintenanceJobSettings, Options, ProfileListener, Providers, RandomSource,
    RepositorySettings, ServerClock, ServerProcess, SigningKey,
};
pub use own_pod::OwnPod;
#[doc(hidden)]
pub use server::PlanBench;
pub use server::{AtRest, ExplainedStep, ExplainedWait, Explanation, ServeError, explain, serve};
