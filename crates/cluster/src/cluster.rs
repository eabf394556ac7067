//! The connection to a cluster that all calls are made through.

use crate::pace::Pace;
use crate::trouble::Trouble;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A connection to one cluster. Clones share it.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: kube::Client,
    /// From which the library makes a client for what our own transport cannot do: connections that change their protocol.
    pub(crate) config: Arc<kube::Config>,
    pub(crate) address: ClusterAddress,
    pub(crate) namespace: String,
    pub(crate) pace: Arc<Pace>,
    /// Time limit of one request, all attempts together.
    pub(crate) patience: Duration,
    /// Set when requests are tried again no longer than that all together.
    pub(crate) trouble: Option<Arc<Trouble>>,
    /// Objects of a page of a list at most; 0 for all at once.
    pub(crate) page_size: u32,
}

/// The names under which messages show a cluster.
#[derive(Clone)]
pub(crate) struct ClusterAddress {
    /// The URL of the API server.
    pub(crate) url: String,
    /// The kubeconfig's context; `None` in a pod.
    pub(crate) context: Option<String>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("url", &self.address.url).finish_non_exhaustive()
    }
}

impl Cluster {
    /// The server's URL, as messages show it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.address.url
    }

    /// The name of the kubeconfig's context, as messages show it; `None` when a pod's service account is used.
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        self.address.context.as_deref()
    }

    /// The file that holds the token by which the API server knows this client; in a pod, the token of its service account.
    /// `None` when the client has no token, or has it from elsewhere.
    #[must_use]
    pub fn token_file(&self) -> Option<&Path> {
        let own = &self.config.auth_info;
        own.token_file.as_deref().filter(|_| own.token.is_none()).map(Path::new)
    }

    /// The namespace of the kubeconfig's context.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.namespace
    }

    /// Time limit of one request, all attempts together.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The same connection, whose requests have the time that one may take all together: as long as the server answers none of those
    /// that it has refused, or no request at all, they are tried again for that time, and then each of them once.
    #[must_use]
    pub fn with_common_patience(&self) -> Self {
        Self { trouble: Some(Arc::default()), ..self.clone() }
    }

    /// The pacing of writes to this cluster.
    #[must_use]
    pub fn pace(&self) -> &Arc<Pace> {
        &self.pace
    }
}
