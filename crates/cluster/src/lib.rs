//! Speaks to Kubernetes.
//!
//! [`Cluster`] discovers API resources in spite of broken groups, streams lists element by element, and reads and
//! writes single objects as raw bytes. Each call has a deadline and retries of its own; what still fails is a
//! [`ClusterError`]. [`Pace`] makes as many writes at once as the server answers well.
//!
//! Objects are bytes; this room knows no kinds. Start reading at [`Cluster`].

mod access;
mod body;
mod cluster;
mod config_map;
mod connect;
mod discovery;
mod error;
mod exec;
mod list;
mod metadata;
mod object;
mod open_api;
mod pace;
mod path;
mod pod_log;
mod port_forward;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod scripted;
mod send;
mod server;
mod transport;
mod trouble;
mod watch;

pub use access::{Access, AccessRequest};
pub use cluster::Cluster;
pub use config_map::ConfigMapError;
pub use connect::{ConnectError, ConnectOptions};
pub use error::{ApiStatus, Cause, ClusterError, Failure};
pub use exec::{Exec, ExecError, Executed, Printed};
pub use list::{List, ListEnd, ListRequest};
pub use metadata::metadata_of;
pub use object::{MergePatch, Preconditions, WriteBody};
pub use pace::{Pace, PaceOptions, Permit};
pub use pod_log::{PodLog, PodLogRequest};
pub use port_forward::Forwarded;
pub use server::ServerVersion;
pub use watch::{Watch, WatchEvent, WatchRequest};
