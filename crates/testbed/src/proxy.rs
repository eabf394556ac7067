//! The fault proxy: stands before an API server or an S3 server and breaks chosen requests in a chosen way.
//!
//! Deterministic: a [`Rule`] names requests by method, path and count, never by time or chance. What passes is kept in
//! a log, so that tests can count calls. The product itself holds no failpoints.

mod body;
mod exec;
mod forward;
mod lock;
mod script;

pub use exec::{ContainerCommand, Containers, Ran};
pub use forward::Proxy;
pub use script::{Fault, Kill, Nth, Rule, Seen};
