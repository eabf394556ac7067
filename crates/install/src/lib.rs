//! The objects of an installation as values: compared, applied, waited for, removed.
//!
//! An [`Installation`] holds the wishes of a user. [`check`] and [`check_config_maps`] refuse an installation that
//! cannot work. [`objects`] makes its objects, and [`definitions`] the objects that are the same for all installations.
//! The objects are Velero's, so that either program can follow the other in a namespace; docs/compatibility/installation.md names
//! the differences.
//!
//! Before anything is changed, [`bindings_to_replace`] looks at the objects in the cluster and refuses when one of them stands
//! in the way. Then [`send`] sends the definitions, [`wait_until_established`] waits for them, [`replace_bindings`] makes those
//! bindings anew that cannot be changed, [`send`] sends the objects, and [`wait_until_ready`] waits for the server and
//! for node agents.
//! [`describe_left`] describes the objects that were left as they are. [`change_plugins`] adds plugins and removes
//! them. A [`Removal`] removes the whole installation.
//!
//! This room prints nothing: it tells its caller each [`InstallStep`]. Every call may be dropped between two steps, and the
//! same calls go on from there. Start reading at [`Installation`].

mod apply;
mod binding;
mod check;
mod clear;
mod clock;
mod config_maps;
mod differ;
mod elsewhere;
mod error;
mod existing;
mod gone;
mod installation;
mod kinds;
mod names;
mod node_agent;
mod objects;
mod plugins;
mod pod;
mod read;
mod references;
mod release;
mod removal;
mod rights;
mod single;
mod snapshot_classes;
mod state;
mod step;
mod wait;
mod workload;

pub use apply::send;
pub use binding::replace_bindings;
pub use check::{CheckError, check, not_there_yet};
pub use clock::Clock;
pub use config_maps::{ConfigMapError, ReadNodeAgentConfig, check_config_maps, names_config_maps};
pub use differ::{DifferingObject, describe_left};
pub use error::{InstallError, RemovalError};
pub use existing::bindings_to_replace;
pub use installation::{Credentials, DirectoryVolume, Installation, MaintenanceJobs, PodResources, ServerSettings};
pub use names::DEPLOYMENT;
pub use objects::{definitions, list, objects};
pub use plugins::{PluginChange, PluginChangeError, change_plugins, is_installed, server_deployment};
pub use references::{ReferenceError, check_references};
pub use removal::Removal;
pub use snapshot_classes::unused_snapshot_classes;
pub use step::{ApplyOutcome, InstallStep, StepReporter};
pub use wait::{Workload, wait_until_established, wait_until_ready, workloads};
pub use workload::PLUGINS_TARGET;
