//! The objects of an installation as values: compared, applied, waited for, removed.
//!
//! An [`Installation`] says what somebody wants. It is checked ([`check`]), with the ConfigMaps that it names
//! ([`check_config_maps`]), and made into [`objects`], beside the [`definitions`] that are the same for all. The objects are
//! Velero's, so that either can follow the other in a namespace; docs/compatibility.md names the differences.
//!
//! What is there already is looked at before anything is changed ([`look`]). Then definitions are sent ([`send`]) and waited
//! for until they are [`established`], bindings that nobody can change are made anew ([`replace`]), the objects are sent, and
//! the server is waited for until it is [`ready`]. What was left as it is is said in words by [`told`]. A [`Removal`] takes
//! all of it out again.
//!
//! Nothing is printed here: each [`Step`] is told to whoever calls. Every call may be dropped between two steps, and the
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
mod gone;
mod installation;
mod kinds;
mod look;
mod names;
mod objects;
mod quantity;
mod read;
mod release;
mod removal;
mod rights;
mod single;
mod state;
mod step;
mod wait;
mod workload;

pub use apply::send;
pub use binding::replace;
pub use check::{CheckError, check, not_there_yet};
pub use clock::Clock;
pub use config_maps::{ConfigMapError, check_config_maps, names_config_maps};
pub use differ::{Left, told};
pub use error::{InstallError, RemovalError};
pub use installation::{Credentials, Installation, MaintenanceJobs, PodResources, ServerSettings};
pub use look::look;
pub use names::DEPLOYMENT;
pub use objects::{definitions, list, objects};
pub use removal::Removal;
pub use step::{Outcome, Step, Tell};
pub use wait::{established, ready};
