//! Keys from passwords and from other keys (kopia: internal/crypto).

use super::secret::{Password, Secret};
use crate::format::FormatError;
use hkdf::Hkdf;
use sha2::Sha256;

/// The length of a key.
pub const KEY_LENGTH: usize = 32;
const MIN_SALT: usize = 16;

/// The functions that make a key of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PasswordKdf {
    /// `scrypt-65536-8-1`
    #[default]
    Scrypt,
    /// `pbkdf2-sha256-600000`
    Pbkdf2,
}

impl PasswordKdf {
    /// Finds the function of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Scrypt, Self::Pbkdf2].into_iter().find(|known| known.name() == name)
    }
    /// The name in the format blob.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scrypt => "scrypt-65536-8-1",
            Self::Pbkdf2 => "pbkdf2-sha256-600000",
        }
    }
    /// Makes the key of a password, which takes a large part of a second on purpose, and 64 MiB with scrypt.
    ///
    /// # Errors
    /// A salt of less than 16 bytes.
    pub fn derive(self, password: &Password, salt: &[u8]) -> Result<Secret, FormatError> {
        if salt.len() < MIN_SALT {
            return Err(FormatError::new("format blob", format!("the unique ID has less than {MIN_SALT} bytes")));
        }
        let mut key = vec![0; KEY_LENGTH];
        match self {
            Self::Scrypt => {
                let refused = |error: String| FormatError::new("format blob", format!("scrypt: {error}"));
                let parameters = scrypt::Params::new(16, 8, 1).map_err(|error| refused(error.to_string()))?;
                scrypt::scrypt(password.as_bytes(), salt, &parameters, &mut key)
                    .map_err(|error| refused(error.to_string()))?;
            }
            Self::Pbkdf2 => {
                pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, 600_000, &mut key);
            }
        }
        Ok(Secret::new(key))
    }
}

/// Makes a key of another one, by HKDF with SHA-256.
///
/// # Errors
/// Lengths above 8160 bytes.
pub fn expand(key: &[u8], salt: &[u8], info: &[u8], length: usize) -> Result<Secret, FormatError> {
    let mut out = vec![0; length];
    Hkdf::<Sha256>::new(Some(salt), key)
        .expand(info, &mut out)
        .map_err(|error| FormatError::new("key", error.to_string()))?;
    Ok(Secret::new(out))
}
