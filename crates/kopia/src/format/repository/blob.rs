//! The outer part of `kopia.repository`: plain JSON around the encrypted document.

use super::parameters::OpenFormatError;
use crate::crypto::aead::{CipherAlgorithm, NONCE_LENGTH};
use crate::crypto::derive::{KEY_LENGTH, PasswordKdf, expand};
use crate::crypto::secret::Secret;
use crate::format::FormatError;
use crate::format::json::{Reader, write_string};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

const STRUCTURE: &str = "format blob";
const ENCRYPTION: &str = "AES256_GCM";

/// The format blob, still encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatBlob {
    pub(super) tool: String,
    pub(super) build_version: String,
    pub(super) build_info: String,
    pub(super) unique_id: Vec<u8>,
    pub(super) kdf: PasswordKdf,
    pub(super) encrypted: Vec<u8>,
}

impl FormatBlob {
    /// Reads the blob; the document stays encrypted.
    ///
    /// # Errors
    /// Other bytes than a format blob, an encryption or a key derivation that is not known.
    pub fn parse(bytes: &[u8]) -> Result<Self, OpenFormatError> {
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

    /// Encrypts another document, with the key and unique ID of this blob.
    pub(super) fn seal(&mut self, key: &Secret, nonce: [u8; NONCE_LENGTH], document: &[u8]) -> Result<(), FormatError> {
        self.encrypted = seal(key, &self.unique_id, nonce, document)?;
        Ok(())
    }

    /// Writes the blob: two spaces before each field, a newline at the end.
    pub fn write(&self) -> Vec<u8> {
        let fields = [
            ("tool", self.tool.clone()),
            ("buildVersion", self.build_version.clone()),
            ("buildInfo", self.build_info.clone()),
            ("uniqueID", STANDARD.encode(&self.unique_id)),
            ("keyAlgo", self.kdf.name().to_owned()),
            ("encryption", ENCRYPTION.to_owned()),
            ("encryptedBlockFormat", STANDARD.encode(&self.encrypted)),
        ];
        let mut out = b"{".to_vec();
        for (number, (name, value)) in fields.iter().enumerate() {
            out.extend_from_slice(if number == 0 { b"\n  \"" } else { b",\n  \"" });
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\": ");
            write_string(&mut out, value.as_bytes());
        }
        out.extend_from_slice(b"\n}\n");
        out
    }
}

/// Encrypts what the key of the password encrypts: the document of the format, and `kopia.blobcfg`.
pub(super) fn seal(
    key: &Secret,
    unique_id: &[u8],
    nonce: [u8; NONCE_LENGTH],
    plain: &[u8],
) -> Result<Vec<u8>, FormatError> {
    let (aes, associated) = keys(key, unique_id)?;
    CipherAlgorithm::Aes256GcmHmacSha256.seal(aes.as_bytes(), associated.as_bytes(), nonce, plain)
}

/// Decrypts what [`seal`] has encrypted; `None` where the key is another.
pub(super) fn open_sealed(
    key: &Secret,
    unique_id: &[u8],
    stored: &[u8],
) -> Result<Option<Zeroizing<Vec<u8>>>, FormatError> {
    let (aes, associated) = keys(key, unique_id)?;
    let opened = CipherAlgorithm::Aes256GcmHmacSha256.open(aes.as_bytes(), associated.as_bytes(), stored)?;
    Ok(opened.map(Zeroizing::new))
}

/// The key and the associated data.
fn keys(key: &Secret, unique_id: &[u8]) -> Result<(Secret, Secret), FormatError> {
    let part = |info: &[u8]| expand(key.as_bytes(), unique_id, info, KEY_LENGTH);
    Ok((part(b"AES")?, part(b"CHECKSUM")?))
}

/// Reads bytes in base64.
pub(super) fn read_base64(reader: &mut Reader<&[u8]>) -> Result<Vec<u8>, FormatError> {
    let text = Zeroizing::new(reader.string()?);
    STANDARD.decode(text.as_bytes()).map_err(|error| reader.error(format!("bytes in base64 are damaged ({error})")))
}
