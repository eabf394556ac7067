//! Options with which a sandbox is started.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Address, token, clock and more that a sandbox is started with.
#[derive(Clone)]
pub struct SandboxOptions {
    /// The address to listen on; port 0 for any.
    pub listen: SocketAddr,
    /// The bearer token that every request must carry.
    pub token: String,
    /// Tells the time.
    pub now: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    /// Gives a uid, another one at each call.
    pub new_uid: Arc<dyn Fn() -> String + Send + Sync>,
    /// The Kubernetes version to claim, such as `v1.34.4`.
    pub version: String,
    /// The name of cluster, user and context in the kubeconfig.
    pub name: String,
    /// The namespace of the kubeconfig's context.
    pub namespace: String,
}

impl SandboxOptions {
    /// Options of a sandbox for one test: any free port of the loopback interface, a clock that stands still, and uids that
    /// count up.
    #[must_use]
    pub fn for_tests() -> Self {
        let made = AtomicU64::new(0);
        Self {
            listen: ([127, 0, 0, 1], 0).into(),
            token: "token".to_owned(),
            now: Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
            new_uid: Arc::new(move || format!("uid-{}", made.fetch_add(1, Ordering::Relaxed))),
            version: "v1.34.4".to_owned(),
            name: "sandbox".to_owned(),
            namespace: "default".to_owned(),
        }
    }
}
