//! Errors of connecting to a cluster.

/// The cluster cannot be reached, or it is not known where it is.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig is missing, unreadable or inconsistent.
    #[error("cannot use the kubeconfig {place}: {message}")]
    Kubeconfig {
        /// The places where it was looked for.
        place: String,
        /// The reason for which it cannot be used.
        message: String,
    },
    /// No configuration says where the cluster is.
    #[error(
        "no cluster is configured: give --kubeconfig, set $KUBECONFIG, write ~/.kube/config, or run in a pod ({0})"
    )]
    Nowhere(String),
    /// No client can be made of the configuration.
    #[error("cannot connect to {url}: {message}")]
    Client {
        /// The server.
        url: String,
        /// The reason.
        message: String,
    },
}
