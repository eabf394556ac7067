//! A change of the password: both blobs encrypted anew, all keys of contents as before (kopia: repo/format).

use super::blob::{FormatBlob, open_sealed, seal};
use super::document;
use super::parameters::OpenFormatError;
use crate::crypto::aead::NONCE_LENGTH;
use crate::crypto::secret::Password;
use crate::format::FormatError;

/// An error of a change of the password. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum ChangePasswordError {
    /// Repositories of version 1 derive keys from the password.
    #[error("the password of this repository cannot change: keys are made of it")]
    Impossible,
    /// The format does not open.
    #[error(transparent)]
    Format(#[from] OpenFormatError),
}

impl From<FormatError> for ChangePasswordError {
    fn from(error: FormatError) -> Self {
        Self::Format(error.into())
    }
}

/// A change of the password, with the bytes of both blobs as they are now.
pub struct PasswordChange<'a> {
    /// The bytes of `kopia.repository`.
    pub format_blob: &'a [u8],
    /// The bytes of `kopia.blobcfg`, where there is one.
    pub blob_config: Option<&'a [u8]>,
    /// The password until now.
    pub old: &'a Password,
    /// The password from now on.
    pub new: &'a Password,
    /// Random nonces, of the format and of `kopia.blobcfg`.
    pub nonces: [[u8; NONCE_LENGTH]; 2],
}

/// Encrypts both blobs with a new password, and gives the bytes of `kopia.repository` and `kopia.blobcfg`. What the format
/// holds is taken over byte by byte, also what is not known here.
///
/// Neither password opens a repository whose `kopia.blobcfg` is changed and whose `kopia.repository` is not: keep the bytes
/// until both are put.
///
/// # Errors
/// A wrong password; a repository whose password cannot change; blobs that cannot be read.
pub fn change_password(change: &PasswordChange<'_>) -> Result<(Vec<u8>, Option<Vec<u8>>), ChangePasswordError> {
    let mut blob = FormatBlob::parse(change.format_blob)?;
    let old = blob.kdf.derive(change.old, &blob.unique_id)?;
    let plain = blob.open(&old)?;
    let format = document::parse(&plain, blob.unique_id.clone(), old.clone())?;
    if !format.enable_password_change {
        return Err(ChangePasswordError::Impossible);
    }
    let new = blob.kdf.derive(change.new, &blob.unique_id)?;
    let [format_nonce, config_nonce] = change.nonces;
    let blob_config = match change.blob_config {
        None => None,
        Some(stored) => {
            let plain = open_sealed(&old, &blob.unique_id, stored)?
                .ok_or_else(|| FormatError::new("kopia.blobcfg", "the encrypted bytes do not authenticate"))?;
            Some(seal(&new, &blob.unique_id, config_nonce, &plain)?)
        }
    };
    blob.seal(&new, format_nonce, &plain)?;
    Ok((blob.write(), blob_config))
}
