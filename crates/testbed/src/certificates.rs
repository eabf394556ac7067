//! Makes a certificate authority, a serving certificate, and the keys of service-account tokens.

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// PEM texts.
pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// Signs service-account tokens.
    pub(crate) token_key: String,
    /// Checks them.
    pub(crate) token_public_key: String,
}

impl Certificates {
    pub(crate) fn for_loopback() -> Result<Self> {
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(DnType::CommonName, "testbed-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let names = ["127.0.0.1", "10.96.0.1", "localhost", "kubernetes", "kubernetes.default.svc"];
        let mut server = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        server.distinguished_name.push(DnType::CommonName, "testbed");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = server.signed_by(&key, &issuer)?.pem();
        let token_key = KeyPair::generate()?;
        Ok(Self {
            authority: authority_pem,
            certificate,
            key: key.serialize_pem(),
            token_key: token_key.serialize_pem(),
            token_public_key: token_key.public_key_pem(),
        })
    }
}
