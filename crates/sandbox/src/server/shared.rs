//! The server that all parts answer for: store, options and addresses.

use crate::server::options::SandboxOptions;
use crate::store::object_store::ObjectStore;
use std::sync::Arc;
use tokio::sync::watch;

/// Answers requests. All connections share it.
pub(crate) struct Server {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) options: SandboxOptions,
    /// Host and port by which clients reach it.
    pub(crate) address: String,
    /// The authority that signed its certificate.
    pub(crate) authority_pem: String,
    /// Becomes true when the server stops: ends watches.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Server {
    /// The time in the form that objects hold.
    pub(crate) fn now_text(&self) -> String {
        timestamp((self.options.now)())
    }
}

/// RFC 3339 in whole seconds.
pub(crate) fn timestamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
