//! Authenticated encryption: nonce, ciphertext, tag, one after the other.

use crate::format::FormatError;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use std::ops::Range;

/// The length of a nonce.
pub const NONCE_LENGTH: usize = 12;
/// The length of a tag.
pub const TAG_LENGTH: usize = 16;

/// The two ciphers of the format (kopia: repo/encryption).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the format's own names")]
pub enum CipherAlgorithm {
    #[default]
    Aes256GcmHmacSha256,
    ChaCha20Poly1305HmacSha256,
}

impl CipherAlgorithm {
    /// All ciphers.
    pub const ALL: [Self; 2] = [Self::Aes256GcmHmacSha256, Self::ChaCha20Poly1305HmacSha256];

    /// Finds the cipher of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
    /// The name in the format blob.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256GcmHmacSha256 => "AES256-GCM-HMAC-SHA256",
            Self::ChaCha20Poly1305HmacSha256 => "CHACHA20-POLY1305-HMAC-SHA256",
        }
    }
    fn primitive(self) -> &'static Algorithm {
        match self {
            Self::Aes256GcmHmacSha256 => &AES_256_GCM,
            Self::ChaCha20Poly1305HmacSha256 => &CHACHA20_POLY1305,
        }
    }
    fn key(self, key: &[u8]) -> Result<LessSafeKey, FormatError> {
        UnboundKey::new(self.primitive(), key)
            .map(LessSafeKey::new)
            .map_err(|_| FormatError::new("key", "it has a wrong length"))
    }
    /// Decrypts bytes that were sealed; `None` where they do not authenticate.
    ///
    /// # Errors
    /// A key of another length than 32 bytes.
    pub(crate) fn open(self, key: &[u8], associated: &[u8], stored: &[u8]) -> Result<Option<Vec<u8>>, FormatError> {
        let mut opened = stored.to_vec();
        let Some(plain) = self.open_in_place(key, associated, &mut opened)? else { return Ok(None) };
        opened.truncate(plain.end);
        opened.drain(..plain.start);
        Ok(Some(opened))
    }
    /// Decrypts bytes that were sealed, and gives the range in which they are plain; `None` where they do not authenticate:
    /// they are of no use then.
    ///
    /// # Errors
    /// A key of another length than 32 bytes.
    pub(crate) fn open_in_place(
        self,
        key: &[u8],
        associated: &[u8],
        stored: &mut [u8],
    ) -> Result<Option<Range<usize>>, FormatError> {
        let key = self.key(key)?;
        let Some((nonce, sealed)) = stored.split_first_chunk_mut::<NONCE_LENGTH>() else {
            return Ok(None);
        };
        let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(associated), sealed);
        Ok(opened.ok().map(|plain| NONCE_LENGTH..NONCE_LENGTH + plain.len()))
    }
    /// Encrypts bytes.
    ///
    /// # Errors
    /// A key of another length than 32 bytes; more bytes than the cipher takes.
    pub(crate) fn seal(
        self,
        key: &[u8],
        associated: &[u8],
        nonce: [u8; NONCE_LENGTH],
        plain: &[u8],
    ) -> Result<Vec<u8>, FormatError> {
        let mut stored = Vec::with_capacity(NONCE_LENGTH + plain.len() + TAG_LENGTH);
        stored.extend_from_slice(&nonce);
        stored.extend_from_slice(plain);
        let tag = self.seal_in_place(key, associated, &mut stored)?;
        stored.extend_from_slice(&tag);
        Ok(stored)
    }
    /// Encrypts the bytes behind a nonce at their place, and gives the tag, which follows them.
    pub(crate) fn seal_in_place(
        self,
        key: &[u8],
        associated: &[u8],
        stored: &mut [u8],
    ) -> Result<[u8; TAG_LENGTH], FormatError> {
        let key = self.key(key)?;
        let refused = || FormatError::new("plain bytes", "there are more than the cipher takes");
        let (nonce, plain) = stored.split_first_chunk_mut::<NONCE_LENGTH>().ok_or_else(refused)?;
        let tag = key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(*nonce), Aad::from(associated), plain)
            .map_err(|_| refused())?;
        tag.as_ref().first_chunk().copied().ok_or_else(refused)
    }
}
