//! What a sandbox is started with.

use std::net::SocketAddr;
use std::sync::Arc;

/// Address, token, clock and more that a sandbox is started with.
#[derive(Clone)]
pub struct SandboxOptions {
    /// Where to listen; port 0 for any.
    pub listen: SocketAddr,
    /// The bearer token that every request must carry.
    pub token: String,
    /// Tells the time.
    pub now: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    /// Gives a uid, another one at each call.
    pub new_uid: Arc<dyn Fn() -> String + Send + Sync>,
    /// The Kubernetes version to claim, such as `v1.34.4`.
    pub version: String,
}
