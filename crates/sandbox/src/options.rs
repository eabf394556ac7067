//! What a sandbox is started with.

use std::net::SocketAddr;
use std::sync::Arc;

/// What a sandbox is made of.
#[derive(Clone)]
pub struct SandboxOptions {
    /// Where to listen; port 0 for any.
    pub listen: SocketAddr,
    /// What clients must bear.
    pub token: String,
    /// The clock.
    pub now: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    /// The source of uids; every call gives another.
    pub new_uid: Arc<dyn Fn() -> String + Send + Sync>,
    /// The Kubernetes version to claim, such as `v1.34.4`.
    pub version: String,
}
