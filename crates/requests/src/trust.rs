//! Trust of downloads: the certificates of the system, and one of the user or of the storage location
//! (velero: pkg/cmd/util/downloadrequest).

use anyhow::{Context, Result, bail};
use base64::Engine;
use clap::Args;
use lifeboat_api::{Backup, BackupStorageLocation, SecretKeySelector};
use lifeboat_client::Client;
use lifeboat_object::{ApiResource, chain, error_and_causes};
use lifeboat_terminal::flags::Optional;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tower::BoxError;

/// Flags of commands that download.
#[derive(Clone, Debug, Default, Args)]
pub struct TrustArgs {
    /// Take any certificate of the object store: whoever is in between can read and change what is downloaded
    #[arg(long)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// A file with certificates (PEM) to trust beside the system's; otherwise that of the client config file, or else those
    /// of the storage location
    #[arg(long, default_value = "", value_name = "FILE")]
    pub cacert: Optional<PathBuf>,
}

/// Trusted certificates. TLS is prepared when it is needed.
pub(crate) struct Trust {
    /// Certificates in PEM beside the system's.
    pem: Vec<u8>,
    anybody: bool,
    config: OnceLock<Result<ClientConfig, String>>,
}

/// The trust that results from the flags and a backup's location, with a warning for the user.
pub(crate) struct DownloadTrust {
    pub trust: Trust,
    pub warning: Option<String>,
}

impl Trust {
    pub(crate) fn new(pem: Vec<u8>, anybody: bool) -> Self {
        Self { pem, anybody, config: OnceLock::new() }
    }

    /// From the file of the flag or the config file, otherwise from the location of the backup. No location and no
    /// certificate are no error.
    ///
    /// # Errors
    /// When the file cannot be read and the location has no certificate.
    pub(crate) async fn find(
        args: &TrustArgs,
        file: Option<&Path>,
        client: &Client,
        backup: &str,
    ) -> Result<DownloadTrust> {
        let trust = |pem| Trust::new(pem, args.insecure_skip_tls_verify);
        let mut unreadable = None;
        if let Some(file) = file {
            match std::fs::read(file).with_context(|| format!("read --cacert {}", file.display())) {
                Ok(pem) => return Ok(DownloadTrust { trust: trust(pem), warning: None }),
                Err(e) => unreadable = Some(e),
            }
        }
        match (of_location(client, backup).await, unreadable) {
            (Ok(pem), None) => Ok(DownloadTrust { trust: trust(pem), warning: None }),
            (Ok(pem), Some(e)) if !pem.is_empty() => {
                let warning = format!("WARNING: {e:#}; the certificate of the storage location is used");
                Ok(DownloadTrust { trust: trust(pem), warning: Some(warning) })
            }
            (_, Some(e)) => Err(e),
            (Err(e), None) => {
                let warning = format!("WARNING: Error getting cacert from BSL: {e:#}");
                Ok(DownloadTrust { trust: trust(Vec::new()), warning: Some(warning) })
            }
        }
    }

    /// The settings of a TLS connection.
    ///
    /// # Errors
    /// When a certificate is broken.
    pub(crate) fn tls(&self) -> Result<ClientConfig, BoxError> {
        let make = || if self.anybody { lifeboat_s3::tls_trusting_anyone() } else { trusting(&self.pem) };
        self.config.get_or_init(make).clone().map_err(Into::into)
    }

    /// Explains the reason why a connection failed, and the remedy for a certificate that is not trusted.
    pub(crate) fn explained(&self, error: &(dyn std::error::Error + 'static)) -> String {
        let text = chain(error);
        if self.anybody || !is_unknown_issuer(error) {
            return text;
        }
        format!(
            "{text}. Name the certificate of its authority by --cacert, or take any certificate by \
             --insecure-skip-tls-verify, which makes it possible for others to read and change what is downloaded"
        )
    }
}

/// The certificates of the location that a backup lies in, PEM; empty when it has none.
async fn of_location(client: &Client, backup: &str) -> Result<Vec<u8>> {
    // A restore of a schedule that has not begun has none yet.
    if backup.is_empty() {
        return Ok(Vec::new());
    }
    let Some(backup) = client.get::<Backup>(backup).await? else { return Ok(Vec::new()) };
    let name = &backup.spec.storage_location;
    if name.is_empty() {
        return Ok(Vec::new());
    }
    let Some(location) = client.get::<BackupStorageLocation>(name).await? else { return Ok(Vec::new()) };
    let storage = &location.spec.object_storage;
    match &storage.ca_cert_ref {
        Some(reference) => secret(client, reference).await,
        None => decoded(&storage.ca_cert).context("caCert of the storage location is no base64"),
    }
}

async fn secret(client: &Client, reference: &SecretKeySelector) -> Result<Vec<u8>> {
    let (name, key) = (&reference.name, &reference.key);
    let secrets = Arc::new(ApiResource::new("", "v1", "secrets", "Secret"));
    let Some(bytes) = client.cluster.get(&secrets, Some(&client.namespace), name).await? else {
        bail!("secrets \"{name}\" not found");
    };
    let secret: Value = serde_json::from_slice(&bytes)?;
    let Some(data) = secret["data"][key].as_str() else { bail!("secret {name} has no key {key}") };
    decoded(data).with_context(|| format!("key {key} of secret {name} is no base64"))
}

fn decoded(text: &str) -> Result<Vec<u8>> {
    Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
}

/// Trusts the system's certificates and these.
fn trusting(pem: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // A broken one among the system's many is no reason to stop: the others may be enough.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut own = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|e| format!("the certificates to trust are not PEM: {e}"))?;
        roots.add(certificate).map_err(|e| format!("a certificate to trust is broken: {e}"))?;
        own += 1;
    }
    if own == 0 && !pem.is_empty() {
        return Err("there is no certificate (PEM) in what is to be trusted".to_owned());
    }
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

fn is_unknown_issuer(error: &(dyn std::error::Error + 'static)) -> bool {
    error_and_causes(error).any(|link| {
        matches!(link.downcast_ref(), Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)))
    })
}
