//! Access to a bucket.

use std::fmt;

/// Credentials and certificates with which a bucket is opened, as a storage location has them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StorageAccess {
    /// Credentials in the form that the provider reads: the content of the Secret that `spec.credential` names.
    pub credentials: Option<Vec<u8>>,
    /// Certificates in PEM: those of the Secret that `caCertRef` names, or `caCert`.
    pub ca_bundle: Option<Vec<u8>>,
}

impl fmt::Debug for StorageAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { credentials, ca_bundle } = self;
        f.debug_struct("StorageAccess")
            .field("has_credentials", &credentials.is_some())
            .field("has_ca_bundle", &ca_bundle.is_some())
            .finish()
    }
}
