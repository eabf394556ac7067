//! Finds and opens the cluster.

mod kubeconfig;

use crate::send::Call;
use crate::{ClusterError, Pace, PaceOptions};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kube::config::KubeConfigOptions;
use kubeconfig::{Found, Places, wrong};
use lifeboat_object::chain;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A connection to one cluster. Clones share it.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: kube::Client,
    /// For what our own transport does not do: connections that change their protocol.
    pub(crate) config: Arc<kube::Config>,
    pub(crate) url: String,
    /// The kubeconfig's context; none in a pod.
    pub(crate) context: Option<String>,
    pub(crate) namespace: String,
    pub(crate) pace: Arc<Pace>,
    /// For one request with all its attempts.
    pub(crate) patience: Duration,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Where the cluster is, by kubectl's rules.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// A kubeconfig file; otherwise `$KUBECONFIG`, `~/.kube/config`, or, where there is no kubeconfig at all, the pod's
    /// service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it other than the current one.
    pub context: Option<String>,
    /// What we call ourselves to the server.
    pub user_agent: String,
    /// How writes are paced.
    pub pace: PaceOptions,
    /// For one request with all its attempts; three minutes when left out. Half of it at the most is for one attempt.
    pub request_timeout: Option<Duration>,
}

/// The cluster cannot be reached, or it is not known where it is.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig is missing, unreadable or inconsistent.
    #[error("cannot use the kubeconfig {place}: {message}")]
    Kubeconfig {
        /// Where it was looked for.
        place: String,
        /// Why it cannot be used.
        message: String,
    },
    /// Nothing says where the cluster is.
    #[error(
        "no cluster is configured: give --kubeconfig, set $KUBECONFIG, write ~/.kube/config, or run in a pod ({0})"
    )]
    Nowhere(String),
    /// The client cannot be made of the configuration.
    #[error("cannot connect to {url}: {message}")]
    Client {
        /// The server.
        url: String,
        /// Why.
        message: String,
    },
}

/// The version of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerVersion {
    /// Major version.
    pub major: String,
    /// Minor version.
    pub minor: String,
    /// Full version, such as `v1.34.4`.
    pub git_version: String,
}

impl Cluster {
    /// Reads the configuration and prepares the client. Does not contact the server yet.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(options: &ConnectOptions) -> Result<Self, ConnectError> {
        let (mut config, context) = load(options).await?;
        // Retries are ours: the library's wait up to a quarter of an hour in silence.
        config.default_retry = false;
        // Responses are uncompressed: packing costs the server more than the local network.
        config.disable_compression = true;
        config.connect_timeout = Some(Duration::from_secs(10));
        // Each call has a deadline of its own.
        config.read_timeout = None;
        config.write_timeout = None;
        let url = config.cluster_url.to_string();
        if config.accept_invalid_certs {
            tracing::warn!(
                "the kubeconfig says insecure-skip-tls-verify: whoever answers at {url} is taken for the API server"
            );
        }
        let agent = options.user_agent.parse().map_err(|_| ConnectError::Client {
            url: url.clone(),
            message: "the user agent is not a header value".to_owned(),
        })?;
        config.headers.push((http::header::USER_AGENT, agent));
        let namespace = config.default_namespace.clone();
        let client = crate::transport::client(config.clone())
            .map_err(|e| ConnectError::Client { url: url.clone(), message: chain(&e) })?;
        let patience = options.request_timeout.unwrap_or(crate::send::PATIENCE);
        let pace = Arc::new(Pace::new(options.pace));
        Ok(Self { client, config: Arc::new(config), url, context, namespace, pace, patience })
    }

    /// The server's URL, for people.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The kubeconfig's context, for people; `None` when a pod's service account is used.
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The file with the token by which the API server knows us, if it is in one: in a pod that of its service account.
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

    /// How long one request may take, all attempts together.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// How writes to this cluster are paced.
    #[must_use]
    pub fn pace(&self) -> &Arc<Pace> {
        &self.pace
    }

    /// The server's version.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn version(&self) -> Result<ServerVersion, ClusterError> {
        let body = self.read("get", "the server version", "/version", None).await?;
        crate::send::parse("get", "the server version", &body)
    }

    /// The server's clock, in whole seconds: what it writes into `creationTimestamp`. `None` when it does not tell.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn time(&self) -> Result<Option<Timestamp>, ClusterError> {
        let call = Call {
            verb: "get",
            what: "the server's clock".to_owned(),
            method: http::Method::GET,
            path: "/version".to_owned(),
            accept: None,
            body: None,
        };
        let response = self.open(&call).await?;
        let date = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        Ok(date.and_then(|date| rfc2822::parse(date).ok()).map(|date| date.timestamp()))
    }

    /// The UID of the namespace `kube-system`, which names a cluster; empty when we may not read it.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn uid(&self) -> Result<String, ClusterError> {
        match self.read("get", "namespaces/kube-system", "/api/v1/namespaces/kube-system", None).await {
            Ok(body) => Ok(lifeboat_object::Head::parse(&body).map(|head| head.uid).unwrap_or_default()),
            Err(e) if e.is_denied() || e.is_not_found() => Ok(String::new()),
            Err(e) => Err(e),
        }
    }
}

/// The configuration and the name of its context.
async fn load(options: &ConnectOptions) -> Result<(kube::Config, Option<String>), ConnectError> {
    let variable = std::env::var_os("KUBECONFIG");
    let places = Places::new(options.kubeconfig.clone(), variable.as_deref(), std::env::home_dir());
    match places.read()? {
        Some(Found { config: file, place }) => {
            let context = options.context.clone().or_else(|| file.current_context.clone());
            let selection = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            let config = kube::Config::from_custom_kubeconfig(file, &selection).await;
            Ok((config.map_err(|e| wrong(place, chain(&e)))?, context))
        }
        None => match &options.context {
            Some(context) => Err(ConnectError::Nowhere(format!("there is no kubeconfig with the context {context}"))),
            None => Ok((kube::Config::incluster().map_err(|e| ConnectError::Nowhere(chain(&e)))?, None)),
        },
    }
}
