//! Keys, hashes and ciphers of a repository.

pub mod aead;
pub mod derive;
mod ecc;
pub mod hash;
pub mod secret;

use crate::format::FormatError;
use crate::format::blob_name::iv_of;
use crate::format::content_id::{ContentHash, ContentId};
use crate::format::repository::RepositoryFormat;
use aead::{NONCE_LENGTH, TAG_LENGTH};
use bytes::{Bytes, BytesMut};
use derive::{KEY_LENGTH, expand};
use ecc::Ecc;
use hash::{KeyedHash, RunningHash};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::borrow::Cow;
use std::fmt;

pub use aead::CipherAlgorithm;
pub use derive::PasswordKdf;
pub use hash::HashAlgorithm;
pub use secret::{Password, Secret};
pub use zeroize::Zeroizing;

/// The bytes of a hash that are the iv of a content.
const IV_LENGTH: usize = 16;

/// Hashes, encrypts and decrypts for one repository. Cheap to share between threads; holds state that was prepared once
/// (keyed hash states, the HMAC state of the content secret), never the password.
pub struct Crypto {
    hash: KeyedHash,
    cipher: CipherAlgorithm,
    content_keys: Hmac<Sha256>,
    ecc: Option<Ecc>,
}

impl fmt::Debug for Crypto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crypto").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

impl Crypto {
    /// Prepares the keys of a repository.
    ///
    /// # Errors
    /// Lengths of keys that the algorithms do not take.
    pub fn new(format: &RepositoryFormat) -> Result<Self, FormatError> {
        let secret = expand(format.master_key.as_bytes(), b"encryption", b"", KEY_LENGTH)?;
        let content_keys = Hmac::new_from_slice(secret.as_bytes())
            .map_err(|_| FormatError::new("key", "HMAC does not take the content secret"))?;
        let ecc = match format.ecc_overhead_percent {
            0 => None,
            percent => Some(Ecc::new(percent)),
        };
        let hash = KeyedHash::new(format.hash, &format.secret)?;
        Ok(Self { hash, cipher: format.encryption, content_keys, ecc })
    }
    /// The bytes by which the cipher makes a content longer, without error correction.
    pub fn overhead(&self) -> u32 {
        (NONCE_LENGTH + TAG_LENGTH) as u32
    }
    /// The keyed hash of plain bytes.
    pub fn hash(&self, plain: &[u8]) -> ContentHash {
        self.hash.hash(plain)
    }
    /// The keyed hashes of several strings of bytes, some of them computed side by side.
    pub fn hash_all(&self, plains: &[&[u8]]) -> Vec<ContentHash> {
        self.hash.hash_all(plains)
    }
    /// Begins a keyed hash to which bytes are added.
    pub(crate) fn begin_hash(&self) -> RunningHash {
        self.hash.begin()
    }
    /// True where several hashes take much less time side by side.
    pub(crate) fn hashes_side_by_side(&self) -> bool {
        self.hash.is_side_by_side()
    }
    /// Decrypts the stored bytes of a content, after error correction where the repository has it.
    ///
    /// # Errors
    /// Bytes that do not authenticate.
    pub fn open_content(&self, id: &ContentId, stored: &[u8]) -> Result<Vec<u8>, FormatError> {
        self.open("content", content_iv(id.hash())?, stored)
    }
    /// Decrypts the stored bytes of a content where they lie, after error correction where the repository has it.
    ///
    /// # Errors
    /// Bytes that do not authenticate.
    pub(crate) fn open_content_at_its_place(&self, id: &ContentId, mut stored: BytesMut) -> Result<Bytes, FormatError> {
        if self.ecc.is_some() {
            return Ok(self.open_content(id, &stored)?.into());
        }
        let iv = content_iv(id.hash())?;
        let plain = self.cipher.open_in_place(&self.key(iv), iv, &mut stored)?.ok_or_else(|| refused("content"))?;
        Ok(stored.freeze().slice(plain))
    }
    /// Decrypts an index, session, log or legacy blob by the hash in its name, after error correction.
    ///
    /// # Errors
    /// A name without hash; bytes that do not authenticate.
    pub fn open_blob(&self, name: &str, stored: &[u8]) -> Result<Vec<u8>, FormatError> {
        let iv = iv_of(name).ok_or_else(|| FormatError::new("blob", "its name has no hash"))?;
        self.open("blob", &iv, stored)
    }
    /// Decrypts the local index of a pack by the iv in the postamble.
    ///
    /// # Errors
    /// Bytes that do not authenticate.
    pub fn open_local_index(&self, iv: &[u8], stored: &[u8]) -> Result<Vec<u8>, FormatError> {
        self.open("local index", iv, stored)
    }
    /// Encrypts plain bytes for a content; the nonce must be random.
    ///
    /// # Errors
    /// A hash of less than 16 bytes; more bytes than the cipher takes.
    pub fn seal_content(
        &self,
        id: &ContentId,
        plain: &[u8],
        nonce: [u8; NONCE_LENGTH],
    ) -> Result<Vec<u8>, FormatError> {
        self.seal(content_iv(id.hash())?, plain, nonce)
    }
    /// The length of a content that is encrypted at its place; `None` where error correction makes another string of it.
    pub(crate) fn length_at_its_place(&self, plain: usize) -> Option<usize> {
        self.ecc.is_none().then(|| NONCE_LENGTH + plain + TAG_LENGTH)
    }
    /// Encrypts the bytes of a content behind a nonce at their place, and gives the tag, which follows them.
    ///
    /// # Errors
    /// As [`Crypto::seal_content`].
    pub(crate) fn seal_content_at_its_place(
        &self,
        id: &ContentId,
        stored: &mut [u8],
    ) -> Result<[u8; TAG_LENGTH], FormatError> {
        let iv = content_iv(id.hash())?;
        self.cipher.seal_in_place(&self.key(iv), iv, stored)
    }
    /// Encrypts plain bytes for a blob, and gives their hash, which its name has to hold.
    ///
    /// # Errors
    /// A hash of less than 16 bytes; more bytes than the cipher takes.
    pub fn seal_blob(&self, plain: &[u8], nonce: [u8; NONCE_LENGTH]) -> Result<(ContentHash, Vec<u8>), FormatError> {
        let hash = self.hash(plain);
        let stored = self.seal(content_iv(&hash)?, plain, nonce)?;
        Ok((hash, stored))
    }
    /// Encrypts the plain bytes of a local index whose hash is `hash`.
    ///
    /// # Errors
    /// More bytes than the cipher takes.
    pub fn seal_local_index(
        &self,
        hash: &ContentHash,
        plain: &[u8],
        nonce: [u8; NONCE_LENGTH],
    ) -> Result<Vec<u8>, FormatError> {
        self.seal(hash.as_bytes(), plain, nonce)
    }

    fn open(&self, what: &'static str, iv: &[u8], stored: &[u8]) -> Result<Vec<u8>, FormatError> {
        let corrected = match &self.ecc {
            Some(ecc) => Cow::Owned(ecc.decode(stored)?),
            None => Cow::Borrowed(stored),
        };
        self.cipher.open(&self.key(iv), iv, &corrected)?.ok_or_else(|| refused(what))
    }

    fn seal(&self, iv: &[u8], plain: &[u8], nonce: [u8; NONCE_LENGTH]) -> Result<Vec<u8>, FormatError> {
        let sealed = self.cipher.seal(&self.key(iv), iv, nonce, plain)?;
        match &self.ecc {
            Some(ecc) => ecc.encode(&sealed),
            None => Ok(sealed),
        }
    }

    fn key(&self, iv: &[u8]) -> [u8; KEY_LENGTH] {
        self.content_keys.clone().chain_update(iv).finalize().into_bytes().into()
    }
}

fn refused(what: &'static str) -> FormatError {
    FormatError::new(what, "the encrypted bytes do not authenticate")
}

/// The iv of a content or blob: the last 16 bytes of its hash.
fn content_iv(hash: &ContentHash) -> Result<&[u8], FormatError> {
    let hash = hash.as_bytes();
    hash.len()
        .checked_sub(IV_LENGTH)
        .and_then(|start| hash.get(start..))
        .ok_or_else(|| FormatError::new("hash", "it has less than 16 bytes"))
}

#[cfg(test)]
mod tests;
