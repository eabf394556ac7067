//! Makes HTTP clients that trust other servers than the system does.

use crate::anyone::tls_trusting_anyone;
use aws_sdk_s3::config::{RuntimeComponents, SharedHttpClient};
use aws_sdk_s3::error::{BoxError, ConnectorError};
use aws_sdk_s3::primitives::SdkBody;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::time::Duration;

/// A client that trusts these certificates besides those of the system, and uses the proxy of the environment.
///
/// # Errors
/// When the text holds no certificate or one that is broken.
pub(crate) fn trusting(pem: &[u8]) -> Result<SharedHttpClient, String> {
    // The SDK panics on what does not parse.
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|e| format!("the CA bundle is not PEM: {e}"))?;
        RootCertStore::empty()
            .add(certificate)
            .map_err(|e| format!("the CA bundle holds a broken certificate: {e}"))?;
        count += 1;
    }
    if count == 0 {
        return Err("the CA bundle holds no certificate in PEM".to_owned());
    }
    let store = TrustStore::default().with_pem_certificate(pem);
    let context = TlsContext::builder().with_trust_store(store).build().map_err(|e| format!("the CA bundle: {e}"))?;
    Ok(Builder::new().build_with_connector_fn(move |settings, components| {
        let mut builder = Connector::builder().proxy_config(ProxyConfig::from_env());
        builder.set_connector_settings(settings.cloned());
        builder.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        builder.tls_provider(Provider::Rustls(CryptoMode::AwsLc)).tls_context(context.clone()).build()
    }))
}

/// A client that trusts every server. It uses no proxy.
///
/// # Errors
/// When TLS cannot be set up.
pub(crate) fn unverified() -> Result<SharedHttpClient, String> {
    let tls = tls_trusting_anyone()?;
    let mut tcp = connect::HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(10)));
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(30))
        .build(https);
    Ok(SharedHttpClient::new(Unverified { client }))
}

#[derive(Clone, Debug)]
struct Unverified {
    client: Client<HttpsConnector<connect::HttpConnector>, SdkBody>,
}

impl HttpClient for Unverified {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Unverified {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.client.clone();
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|e| ConnectorError::user(e.into()))?;
            let response = client.request(request).await.map_err(|e| ConnectorError::io(Box::new(e) as BoxError))?;
            let response = response.map(SdkBody::from_body_1_x);
            HttpResponse::try_from(response).map_err(|e| ConnectorError::other(e.into(), None))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_certificate() {
        let table = [
            ("", "the CA bundle holds no certificate in PEM"),
            ("no pem", "the CA bundle holds no certificate in PEM"),
            ("-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n", "the CA bundle is not PEM: "),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "the CA bundle holds a broken certificate: ",
            ),
        ];
        for (pem, expected) in table {
            let message = trusting(pem.as_bytes()).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
