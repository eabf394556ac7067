//! The outer part of `kopia.repository`: plain JSON around the encrypted document.

use super::{OpenFormatError, PasswordKdf};
use crate::crypto::aead::CipherAlgorithm;
use crate::crypto::derive::{KEY_LENGTH, expand};
use crate::crypto::secret::Secret;
use crate::format::FormatError;
use crate::format::json::Reader;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const STRUCTURE: &str = "format blob";
const ENCRYPTION: &str = "AES256_GCM";

/// The format blob, still encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FormatBlob {
    pub(super) tool: String,
    pub(super) build_version: String,
    pub(super) build_info: String,
    pub(super) unique_id: Vec<u8>,
    pub(super) kdf: PasswordKdf,
    pub(super) encrypted: Vec<u8>,
}

impl FormatBlob {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, OpenFormatError> {
        let (mut kdf, mut encryption) = (String::new(), String::new());
        let mut blob = Self {
            tool: String::new(),
            build_version: String::new(),
            build_info: String::new(),
            unique_id: Vec::new(),
            kdf: PasswordKdf::default(),
            encrypted: Vec::new(),
        };
        let mut reader = Reader::new(STRUCTURE, bytes);
        reader.object::<FormatError>(|reader, key| {
            match key {
                "tool" => blob.tool = reader.string()?,
                "buildversion" => blob.build_version = reader.string()?,
                "buildinfo" => blob.build_info = reader.string()?,
                "uniqueid" => blob.unique_id = read_base64(reader)?,
                "keyalgo" => kdf = reader.string()?,
                "encryption" => encryption = reader.string()?,
                "encryptedblockformat" => blob.encrypted = read_base64(reader)?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        reader.end()?;
        if encryption != ENCRYPTION {
            return Err(OpenFormatError::Unsupported(format!("the encryption {encryption:?} of the format")));
        }
        blob.kdf = PasswordKdf::from_name(&kdf)
            .ok_or_else(|| OpenFormatError::Unsupported(format!("the key derivation {kdf:?}")))?;
        if blob.encrypted.is_empty() {
            return Err(FormatError::new(STRUCTURE, "it has no encrypted format").into());
        }
        Ok(blob)
    }

    /// Decrypts the document.
    pub(super) fn open(&self, key: &Secret) -> Result<Zeroizing<Vec<u8>>, OpenFormatError> {
        open_sealed(key, &self.unique_id, &self.encrypted)?.ok_or(OpenFormatError::WrongPassword)
    }
}

/// Decrypts what the key of the password encrypts: the document of the format, and `kopia.blobcfg`.
pub(super) fn open_sealed(
    key: &Secret,
    unique_id: &[u8],
    stored: &[u8],
) -> Result<Option<Zeroizing<Vec<u8>>>, FormatError> {
    let cipher = CipherAlgorithm::Aes256GcmHmacSha256;
    let aes = expand(key.as_bytes(), unique_id, b"AES", KEY_LENGTH)?;
    let associated = expand(key.as_bytes(), unique_id, b"CHECKSUM", KEY_LENGTH)?;
    let opened = cipher.open(aes.as_bytes(), associated.as_bytes(), stored)?;
    Ok(opened.map(Zeroizing::new))
}

/// Reads bytes in base64.
pub(super) fn read_base64(reader: &mut Reader<&[u8]>) -> Result<Vec<u8>, FormatError> {
    let text = Zeroizing::new(reader.string()?);
    STANDARD.decode(text.as_bytes()).map_err(|error| reader.error(format!("bytes in base64 are damaged ({error})")))
}
