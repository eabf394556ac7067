//! Finds and opens the cluster.

mod error;
mod kubeconfig;

pub use error::ConnectError;

use crate::cluster::{Cluster, ClusterAddress};
use crate::pace::{Pace, PaceOptions};
use crate::{send, transport};
use kube::config::{AuthInfo, KubeConfigOptions};
use kubeconfig::{KubeconfigPaths, LoadedKubeconfig, wrong};
use lifeboat_object::chain;
use secrecy::ExposeSecret;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Objects of a page of a list at most, unless the user says otherwise.
const PAGE_SIZE: u32 = 500;

/// Options for finding the cluster, by kubectl's rules, and for speaking to it.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// A kubeconfig file; otherwise `$KUBECONFIG`, `~/.kube/config`, or, where there is no kubeconfig at all, the pod's
    /// service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig to use instead of its current one.
    pub context: Option<String>,
    /// The name that this client gives to the server.
    pub user_agent: String,
    /// Limits on the pace of writes.
    pub pace: PaceOptions,
    /// Time limit of one request, all attempts together; three minutes when left out. One attempt gets half of it at
    /// the most.
    pub request_timeout: Option<Duration>,
    /// Objects of a page of a list at most, 0 for all at once; 500 when left out. Large objects make smaller pages, but with 0.
    pub page_size: Option<u32>,
}

impl Cluster {
    /// Reads the configuration and prepares the client. Does not contact the server yet.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(options: &ConnectOptions) -> Result<Self, ConnectError> {
        let (mut config, context) = load(options).await?;
        // `send` repeats requests: the library would wait up to a quarter of an hour without a word.
        config.default_retry = false;
        // Compressing an answer costs the server more time than sending it uncompressed over a local network.
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
        let client = transport::client(config.clone())
            .map_err(|e| ConnectError::Client { url: url.clone(), message: chain(&e) })?;
        let patience = options.request_timeout.unwrap_or(send::PATIENCE);
        let pace = Arc::new(Pace::new(options.pace));
        let page_size = options.page_size.unwrap_or(PAGE_SIZE);
        let (config, address) = (Arc::new(config), ClusterAddress { url, context });
        Ok(Self { client, config, address, namespace, pace, patience, trouble: None, page_size })
    }
}

impl Cluster {
    /// The same API server, as the user of a token and of nothing else.
    ///
    /// # Errors
    /// [`ConnectError`] when the client cannot be made.
    pub fn by_token(&self, token: &str) -> Result<Self, ConnectError> {
        let mut config = (*self.config).clone();
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        let client = transport::client(config.clone())
            .map_err(|e| ConnectError::Client { url: self.address.url.clone(), message: chain(&e) })?;
        let pace = Arc::new(Pace::new(PaceOptions::default()));
        Ok(Self { client, config: Arc::new(config), pace, ..self.clone() })
    }

    /// The token by which the API server knows this client; `None` when it is known by something else, such as a certificate, or
    /// by a token that a program of its own makes, or when it acts as somebody else (`as` in a kubeconfig).
    ///
    /// # Errors
    /// When the file that holds the token cannot be read.
    pub async fn token(&self) -> std::io::Result<Option<String>> {
        let own = &self.config.auth_info;
        if own.impersonate.is_some() || own.impersonate_groups.is_some() {
            return Ok(None);
        }
        match (&own.token, &own.token_file) {
            (Some(token), _) => Ok(Some(token.expose_secret().to_owned())),
            (None, Some(file)) => Ok(Some(tokio::fs::read_to_string(file).await?.trim().to_owned())),
            (None, None) => Ok(None),
        }
    }
}

/// The configuration and the name of its context.
async fn load(options: &ConnectOptions) -> Result<(kube::Config, Option<String>), ConnectError> {
    let variable = std::env::var_os("KUBECONFIG");
    let places = KubeconfigPaths::new(options.kubeconfig.clone(), variable.as_deref(), std::env::home_dir());
    match places.read()? {
        Some(LoadedKubeconfig { config: file, place }) => {
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
