//! The credentials and certificates of storage locations.

use crate::client::Client;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_api::BackupStorageLocation;
use lifeboat_bucket::StorageAccess;

impl Client {
    /// Reads the credentials and certificates of a location, by the rights of this client to read the Secrets that it names.
    ///
    /// # Errors
    /// A message for people that says what is wrong with the location, or why a Secret cannot be read.
    pub async fn storage_access(&self, location: &BackupStorageLocation) -> Result<StorageAccess, String> {
        check(location)?;
        let storage = &location.spec.object_storage;
        let mut access = StorageAccess::default();
        if let Some(secret) = &location.spec.credential {
            access.credentials = Some(self.secret(&secret.name, &secret.key).await?);
        }
        if let Some(secret) = &storage.ca_cert_ref {
            access.ca_bundle = Some(self.secret(&secret.name, &secret.key).await?);
        } else if !storage.ca_cert.is_empty() {
            let pem = STANDARD.decode(&storage.ca_cert);
            access.ca_bundle = Some(pem.map_err(|_| "caCert is no base64".to_owned())?);
        }
        Ok(access)
    }
}

/// Checks a location before any Secret is read. Pure.
fn check(location: &BackupStorageLocation) -> Result<(), String> {
    let storage = &location.spec.object_storage;
    if location.spec.provider.is_empty() {
        return Err("object storage provider name must not be empty".to_owned());
    }
    let bucket = &storage.bucket;
    if bucket.contains('/') && !bucket.starts_with("arn:aws:s3:") {
        return Err(format!(
            "backup storage location's bucket name {bucket:?} must not contain a '/' (if using a prefix, put it in the 'Prefix' field instead)"
        ));
    }
    if storage.ca_cert_ref.is_some() && !storage.ca_cert.is_empty() {
        return Err("cannot specify both caCert and caCertRef in objectStorage".to_owned());
    }
    Ok(())
}
