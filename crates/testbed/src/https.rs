//! A client of servers whose authority is known.

use anyhow::{Result, anyhow};
use hyper::body::Body;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::Arc;
use std::time::Duration;

/// Shorter than any server keeps an idle connection: a request must not meet one that is being closed.
const IDLE: Duration = Duration::from_secs(5);

/// A client that sends bodies of one type.
pub(crate) type HttpsClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// A client that trusts this authority (PEM) and no other; it speaks plain HTTP besides.
pub(crate) fn https_client<B>(authority: Option<&str>) -> Result<HttpsClient<B>>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut roots = rustls::RootCertStore::empty();
    if let Some(pem) = authority {
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| anyhow!("the authority: {e}"))?)?;
    }
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build(connector.build()))
}

/// The cryptography of all connections.
pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
