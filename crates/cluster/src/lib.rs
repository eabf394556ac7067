//! Speaks to Kubernetes.
//!
//! [`Cluster`] discovers API resources in spite of broken groups, streams lists element by element, and reads and
//! writes single objects as raw bytes, each call with a deadline and retries of its own ([`ClusterError`] says what
//! remains). [`Pace`] lets writes be as many as the server answers well.
//!
//! Objects are bytes; nothing here knows a kind. Start reading at [`Cluster`].

mod connect;
mod discovery;
mod error;
mod list;
mod object;
mod pace;
mod port_forward;
mod send;
mod transport;
mod watch;

pub use connect::{Cluster, ConnectError, ConnectOptions, ServerVersion};
pub use error::{ApiStatus, ClusterError, Failure};
pub use list::{List, ListEnd, ListRequest};
pub use object::{Create, PatchKind};
pub use pace::{Pace, PaceOptions, Permit};
pub use port_forward::Forwarded;
pub use watch::{Watch, WatchEvent, WatchRequest};
