//! The format blob `kopia.repository` and `kopia.blobcfg` (kopia: repo/format).

mod blob;
mod blob_config;
mod create;
mod document;
mod parameters;
mod password;

use crate::crypto::secret::{Password, Secret};

pub use blob::FormatBlob;
pub use blob_config::{Retention, RetentionMode, open_blob_config};
pub use create::{FormatRandom, NewRepository, RepositoryBlobs, create_format};
pub use document::parse as parse_format;
pub use parameters::{EpochParameters, MAX_VERSION, OpenFormatError, RepositoryFormat, UpgradeLock};
pub use password::{
    PasswordChange, PasswordChangeError, PasswordKeys, PasswordPlan, PasswordStage, PasswordStep, StoredPasswordBlobs,
    plan_password_change, retention_of_note,
};

/// Opens `kopia.repository` with the password. Derives the key by the function that the blob names, which takes a large
/// part of a second and 64 MiB on purpose.
///
/// # Errors
/// A wrong password, what is not known, what is no format.
pub fn open_format(blob: &[u8], password: &Password) -> Result<RepositoryFormat, OpenFormatError> {
    let blob = FormatBlob::parse(blob)?;
    let key = blob.kdf.derive(password, &blob.unique_id)?;
    open_with_key(blob, key)
}

/// Opens it with the key that a password gives.
pub(crate) fn open_with_key(blob: FormatBlob, key: Secret) -> Result<RepositoryFormat, OpenFormatError> {
    let document = blob.open(&key)?;
    document::parse(&document, blob.unique_id, key)
}

#[cfg(test)]
mod tests;
