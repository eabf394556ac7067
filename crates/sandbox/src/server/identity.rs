//! The certificates by which clients know the server.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::SocketAddr;
use std::sync::Arc;

/// A library did not make a certificate, or does not use the one that was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error(transparent)]
    Made(#[from] rcgen::Error),
    #[error(transparent)]
    Used(#[from] rustls::Error),
}

/// A certificate authority that lives as long as the server, and the configuration that uses it.
pub(crate) struct ServerIdentity {
    pub(crate) authority_pem: String,
    pub(crate) config: Arc<ServerConfig>,
}

impl ServerIdentity {
    pub(crate) fn new(address: SocketAddr) -> Result<Self, CertificateError> {
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(DnType::CommonName, "sandbox-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let mut names: Vec<String> = ["127.0.0.1", "::1", "localhost", "kubernetes"].map(str::to_owned).into();
        let own = address.ip().to_string();
        if !address.ip().is_unspecified() && !names.contains(&own) {
            names.push(own);
        }
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "sandbox");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = CertificateDer::from(server.signed_by(&key, &issuer)?.der().to_vec());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|c| c.with_no_client_auth().with_single_cert(vec![certificate], key))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { authority_pem, config: Arc::new(config) })
    }
}
