//! Files of `keys/`: the key of the repository, encrypted with a password.

use super::FormatError;
use crate::crypto::Key;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use zeroize::Zeroizing;

/// The most memory that deriving a key may take. Restic chooses parameters of at most 60 MB.
const MAX_MEMORY: u64 = 1 << 30;
/// The most work that deriving a key may take beside that: parameter `p` times the memory.
const MAX_WORK: u64 = 8 << 30;

/// A file of `keys/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    log_n: u8,
    r: u32,
    p: u32,
    salt: Vec<u8>,
    data: Vec<u8>,
}

#[derive(Deserialize)]
struct KeyFileJson {
    kdf: String,
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
    salt: String,
    data: String,
}

#[derive(Deserialize)]
struct MasterKey {
    mac: MacKey,
    #[serde(deserialize_with = "secret")]
    encrypt: Zeroizing<String>,
}

#[derive(Deserialize)]
struct MacKey {
    #[serde(deserialize_with = "secret")]
    k: Zeroizing<String>,
    #[serde(deserialize_with = "secret")]
    r: Zeroizing<String>,
}

fn secret<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(deserializer).map(Zeroizing::new)
}

impl KeyFile {
    /// Reads a file, which is plain JSON.
    ///
    /// # Errors
    /// Other JSON, a derivation other than scrypt, parameters that take more memory or time than is reasonable.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let document: KeyFileJson = serde_json::from_slice(bytes)?;
        if document.kdf != "scrypt" {
            return Err(FormatError::new(format_args!("its key is derived by {:?}, not by scrypt", document.kdf)));
        }
        let KeyFileJson { n, r, p, .. } = document;
        let memory = n.checked_mul(128).and_then(|bytes| bytes.checked_mul(r.into()));
        let is_small =
            |memory: u64| memory <= MAX_MEMORY && memory.checked_mul(p.into()).is_some_and(|work| work <= MAX_WORK);
        if !n.is_power_of_two() || n < 2 || r == 0 || p == 0 || !memory.is_some_and(is_small) {
            return Err(FormatError::new(format_args!(
                "its parameters of scrypt are out of range: N {n}, r {r}, p {p}"
            )));
        }
        let log_n = u8::try_from(n.trailing_zeros()).map_err(FormatError::new)?;
        let salt = STANDARD.decode(&document.salt).map_err(FormatError::new)?;
        let data = STANDARD.decode(&document.data).map_err(FormatError::new)?;
        Ok(Self { log_n, r, p, salt, data })
    }

    /// Opens the key of the repository with a password: `None` for a wrong password. This takes a part of a second on
    /// purpose, and some 60 MB.
    ///
    /// # Errors
    /// A key that is encrypted right and has another form.
    pub fn open(&self, password: &[u8]) -> Result<Option<Key>, FormatError> {
        let parameters = scrypt::Params::new(self.log_n, self.r, self.p).map_err(FormatError::new)?;
        let mut derived = Zeroizing::new([0; 64]);
        scrypt::scrypt(password, &self.salt, &parameters, &mut *derived).map_err(FormatError::new)?;
        let (encrypt, mac) = derived.split_at(32);
        let (k, r) = mac.split_at(16);
        let user = Key { encrypt: array(encrypt)?, mac_k: array(k)?, mac_r: array(r)? };
        let mut data = Zeroizing::new(self.data.clone());
        match user.open(&mut data) {
            Ok(range) => parse_key(data.get(range).unwrap_or_default()).map(Some),
            Err(_) => Ok(None),
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Result<Zeroizing<[u8; N]>, FormatError> {
    let array = bytes.try_into().map_err(|_| FormatError::new(format_args!("a key has {} bytes", bytes.len())))?;
    Ok(Zeroizing::new(array))
}

/// Reads the decrypted key of the repository.
fn parse_key(plain: &[u8]) -> Result<Key, FormatError> {
    // Messages of the parser quote nothing of a text.
    let key: MasterKey =
        serde_json::from_slice(plain).map_err(|_| FormatError::new("its decrypted key has another form"))?;
    let decode = |text: &str| {
        let bytes = STANDARD.decode(text).map_err(|_| FormatError::new("its decrypted key is no base64"));
        bytes.map(Zeroizing::new)
    };
    Ok(Key {
        encrypt: array(&decode(&key.encrypt)?)?,
        mac_k: array(&decode(&key.mac.k)?)?,
        mac_r: array(&decode(&key.mac.r)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_would_take_all_memory_are_refused() {
        let file = |n: u64, r: u64, p: u64| {
            format!(r#"{{"kdf":"scrypt","N":{n},"r":{r},"p":{p},"salt":"AAAA","data":"AAAA"}}"#)
        };
        let parsed = |n, r, p| KeyFile::parse(file(n, r, p).as_bytes()).is_ok();
        assert!(parsed(32768, 8, 2) && parsed(2, 1, 1));
        for (n, r, p) in [
            (1 << 40, 8, 1),
            (u64::MAX, 8, 1),
            (32769, 8, 1),
            (0, 8, 1),
            (1, 8, 1),
            (32768, 0, 1),
            (32768, 8, 0),
            (1 << 20, 1 << 31, 1),
            (32768, 8, 1 << 31),
        ] {
            assert!(!parsed(n, r, p), "{n} {r} {p}");
        }
        let other = br#"{"kdf":"argon2","N":2,"r":1,"p":1,"salt":"","data":""}"#;
        assert_eq!(KeyFile::parse(other).unwrap_err().why, "its key is derived by \"argon2\", not by scrypt");
    }
}
