//! Keys, hashes and ciphers of a repository.

use crate::format::FormatError;
use crate::format::content_id::{ContentHash, ContentId};
use crate::format::repository::RepositoryFormat;

/// A password; zeroed when dropped, never printed.
pub struct Password(/* zeroizing */);

/// Key material; zeroed when dropped, never printed.
#[derive(Clone)]
pub struct Secret(/* zeroizing */);

/// The 11 hashes of the format (kopia: repo/hashing).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the format's own names")]
pub enum HashAlgorithm {
    Blake2b256_128,
    Blake2b256,
    Blake2s128,
    Blake2s256,
    Blake3_256,
    Blake3_256_128,
    HmacSha256,
    HmacSha256_128,
    HmacSha224,
    HmacSha3_224,
    HmacSha3_256,
}

/// The two ciphers of the format (kopia: repo/encryption).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the format's own names")]
pub enum CipherAlgorithm {
    Aes256GcmHmacSha256,
    ChaCha20Poly1305HmacSha256,
}

/// Hashes, encrypts and decrypts for one repository. Cheap to share between threads; holds state that was prepared once
/// (keyed hash states, the HMAC state of the content secret), never the password.
#[derive(Debug)]
pub struct Crypto {}

impl Crypto {
    /// Prepares the keys of a repository.
    ///
    /// # Errors
    /// Lengths of keys that the algorithms do not take.
    pub fn new(format: &RepositoryFormat) -> Result<Self, FormatError> {
        todo!()
    }
    /// The bytes by which the cipher makes a content longer.
    pub fn overhead(&self) -> u32 {
        todo!()
    }
    /// The keyed hash of plain bytes.
    pub fn hash(&self, plain: &[u8]) -> ContentHash {
        todo!()
    }
    /// Decrypts the stored bytes of a content, after error correction where the repository has it.
    ///
    /// # Errors
    /// Bytes that do not authenticate.
    pub fn open_content(&self, id: &ContentId, stored: &[u8]) -> Result<Vec<u8>, FormatError> {
        todo!()
    }
    /// Decrypts an index, session, log or legacy blob by the hash in its name, after error correction.
    ///
    /// # Errors
    /// A name without hash; bytes that do not authenticate.
    pub fn open_blob(&self, name: &str, stored: &[u8]) -> Result<Vec<u8>, FormatError> {
        todo!()
    }
    /// Decrypts the local index of a pack by the iv in the postamble.
    ///
    /// # Errors
    /// Bytes that do not authenticate.
    pub fn open_local_index(&self, iv: &[u8], stored: &[u8]) -> Result<Vec<u8>, FormatError> {
        todo!()
    }
    /// Encrypts plain bytes for a content; the nonce comes from `random`.
    pub fn seal_content(&self, id: &ContentId, plain: &[u8], nonce: [u8; 12]) -> Vec<u8> {
        todo!()
    }
    /// Encrypts plain bytes for a blob whose name holds `hash`.
    pub fn seal_blob(&self, hash: &ContentHash, plain: &[u8], nonce: [u8; 12]) -> Vec<u8> {
        todo!()
    }
}
