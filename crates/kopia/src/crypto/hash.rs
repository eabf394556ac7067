//! Keyed hashes of contents and blobs (kopia: repo/hashing).

use super::secret::Secret;
use crate::format::FormatError;
use crate::format::content_id::ContentHash;
use blake2b_simd::many::{HashManyJob, hash_many, update_many};
use hmac::{Hmac, KeyInit, Mac, SimpleHmac};
use sha2::{Sha224, Sha256};
use sha3::{Sha3_224, Sha3_256};

/// The context by which BLAKE3 stretches a key that is too short.
const BLAKE3_CONTEXT: &str = "kopia blake3 derived key v1";

/// The 11 hashes of the format (kopia: repo/hashing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the format's own names")]
pub enum HashAlgorithm {
    #[default]
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

impl HashAlgorithm {
    /// All hashes.
    pub const ALL: [Self; 11] = [
        Self::Blake2b256_128,
        Self::Blake2b256,
        Self::Blake2s128,
        Self::Blake2s256,
        Self::Blake3_256,
        Self::Blake3_256_128,
        Self::HmacSha256,
        Self::HmacSha256_128,
        Self::HmacSha224,
        Self::HmacSha3_224,
        Self::HmacSha3_256,
    ];

    /// Finds the hash of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
    /// The name in the format blob.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blake2b256_128 => "BLAKE2B-256-128",
            Self::Blake2b256 => "BLAKE2B-256",
            Self::Blake2s128 => "BLAKE2S-128",
            Self::Blake2s256 => "BLAKE2S-256",
            Self::Blake3_256 => "BLAKE3-256",
            Self::Blake3_256_128 => "BLAKE3-256-128",
            Self::HmacSha256 => "HMAC-SHA256",
            Self::HmacSha256_128 => "HMAC-SHA256-128",
            Self::HmacSha224 => "HMAC-SHA224",
            Self::HmacSha3_224 => "HMAC-SHA3-224",
            Self::HmacSha3_256 => "HMAC-SHA3-256",
        }
    }
    /// The bytes of a hash.
    pub fn length(self) -> usize {
        match self {
            Self::Blake2b256_128 | Self::Blake2s128 | Self::Blake3_256_128 | Self::HmacSha256_128 => 16,
            Self::HmacSha224 | Self::HmacSha3_224 => 28,
            Self::Blake2b256 | Self::Blake2s256 | Self::Blake3_256 | Self::HmacSha256 | Self::HmacSha3_256 => 32,
        }
    }
}

/// A hash with its key, prepared once.
#[derive(Clone)]
pub(super) struct KeyedHash {
    length: usize,
    state: State,
}

#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one for each repository that is open")]
enum State {
    Blake2b(blake2b_simd::Params),
    Blake2s(blake2s_simd::Params),
    Blake3([u8; blake3::KEY_LEN]),
    Sha224(Hmac<Sha224>),
    Sha256(Hmac<Sha256>),
    Sha3_224(SimpleHmac<Sha3_224>),
    Sha3_256(SimpleHmac<Sha3_256>),
}

impl KeyedHash {
    /// Prepares a hash with a key.
    pub(super) fn new(algorithm: HashAlgorithm, secret: &Secret) -> Result<Self, FormatError> {
        let key = secret.as_bytes();
        let refused = |why: &str| FormatError::new("hash", format!("{} {why}", algorithm.name()));
        let hmac_refused = |_| refused("does not take the key");
        let state = match algorithm {
            HashAlgorithm::Blake2b256 | HashAlgorithm::Blake2b256_128 => {
                if key.len() > blake2b_simd::KEYBYTES {
                    return Err(refused("takes a key of at most 64 bytes"));
                }
                // Where less bytes are kept, the digest is cut: its parameter is 32 all the same.
                let mut params = blake2b_simd::Params::new();
                params.hash_length(32).key(key);
                State::Blake2b(params)
            }
            HashAlgorithm::Blake2s128 | HashAlgorithm::Blake2s256 => {
                if key.len() > blake2s_simd::KEYBYTES {
                    return Err(refused("takes a key of at most 32 bytes"));
                }
                if key.is_empty() && algorithm == HashAlgorithm::Blake2s128 {
                    return Err(refused("needs a key"));
                }
                let mut params = blake2s_simd::Params::new();
                params.hash_length(algorithm.length()).key(key);
                State::Blake2s(params)
            }
            HashAlgorithm::Blake3_256 | HashAlgorithm::Blake3_256_128 => {
                let key = match key.first_chunk() {
                    Some(key) => *key,
                    None => blake3::derive_key(BLAKE3_CONTEXT, key),
                };
                State::Blake3(key)
            }
            HashAlgorithm::HmacSha224 => State::Sha224(Hmac::new_from_slice(key).map_err(hmac_refused)?),
            HashAlgorithm::HmacSha256 | HashAlgorithm::HmacSha256_128 => {
                State::Sha256(Hmac::new_from_slice(key).map_err(hmac_refused)?)
            }
            HashAlgorithm::HmacSha3_224 => State::Sha3_224(SimpleHmac::new_from_slice(key).map_err(hmac_refused)?),
            HashAlgorithm::HmacSha3_256 => State::Sha3_256(SimpleHmac::new_from_slice(key).map_err(hmac_refused)?),
        };
        Ok(Self { length: algorithm.length(), state })
    }

    /// Hashes bytes.
    pub(super) fn hash(&self, plain: &[u8]) -> ContentHash {
        let mut hash = self.begin();
        hash.update(plain);
        hash.finish()
    }

    /// Begins a hash to which bytes are added.
    pub(super) fn begin(&self) -> RunningHash {
        let state = match &self.state {
            State::Blake2b(params) => Running::Blake2b(params.to_state()),
            State::Blake2s(params) => Running::Blake2s(params.to_state()),
            State::Blake3(key) => Running::Blake3(Box::new(blake3::Hasher::new_keyed(key))),
            State::Sha224(mac) => Running::Sha224(mac.clone()),
            State::Sha256(mac) => Running::Sha256(mac.clone()),
            State::Sha3_224(mac) => Running::Sha3_224(mac.clone()),
            State::Sha3_256(mac) => Running::Sha3_256(mac.clone()),
        };
        RunningHash { length: self.length, state }
    }

    /// True where several hashes take much less time side by side.
    pub(super) fn is_side_by_side(&self) -> bool {
        matches!(self.state, State::Blake2b(_))
    }

    /// Hashes several strings of bytes; BLAKE2b side by side.
    pub(super) fn hash_all(&self, plains: &[&[u8]]) -> Vec<ContentHash> {
        let State::Blake2b(params) = &self.state else {
            return plains.iter().map(|plain| self.hash(plain)).collect();
        };
        let mut jobs: Vec<_> = plains.iter().map(|plain| HashManyJob::new(params, plain)).collect();
        hash_many(jobs.iter_mut());
        jobs.iter().map(|job| cut(self.length, job.to_hash().as_bytes())).collect()
    }
}

/// The bytes of a digest that the algorithm keeps; each has so many.
fn cut(length: usize, digest: &[u8]) -> ContentHash {
    ContentHash::cut(&digest[..length.min(digest.len())])
}

/// A keyed hash to which bytes are added.
pub(crate) struct RunningHash {
    length: usize,
    state: Running,
}

#[allow(clippy::large_enum_variant, reason = "there are as many as contents that are hashed at once")]
enum Running {
    Blake2b(blake2b_simd::State),
    Blake2s(blake2s_simd::State),
    Blake3(Box<blake3::Hasher>),
    Sha224(Hmac<Sha224>),
    Sha256(Hmac<Sha256>),
    Sha3_224(SimpleHmac<Sha3_224>),
    Sha3_256(SimpleHmac<Sha3_256>),
}

impl RunningHash {
    /// Adds bytes.
    pub(crate) fn update(&mut self, plain: &[u8]) {
        match &mut self.state {
            Running::Blake2b(state) => drop(state.update(plain)),
            Running::Blake2s(state) => drop(state.update(plain)),
            Running::Blake3(hasher) => drop(hasher.update(plain)),
            Running::Sha224(mac) => mac.update(plain),
            Running::Sha256(mac) => mac.update(plain),
            Running::Sha3_224(mac) => mac.update(plain),
            Running::Sha3_256(mac) => mac.update(plain),
        }
    }

    /// Adds bytes to several hashes; BLAKE2b side by side.
    pub(crate) fn update_all<'a>(hashes: impl Iterator<Item = (&'a mut RunningHash, &'a [u8])>) {
        update_many(hashes.filter_map(|(hash, plain)| match hash {
            Self { state: Running::Blake2b(state), .. } => Some((state, plain)),
            other => {
                other.update(plain);
                None
            }
        }));
    }

    /// The hash of all bytes.
    pub(crate) fn finish(self) -> ContentHash {
        let of = |digest: &[u8]| cut(self.length, digest);
        match self.state {
            Running::Blake2b(state) => of(state.finalize().as_bytes()),
            Running::Blake2s(state) => of(state.finalize().as_bytes()),
            Running::Blake3(hasher) => of(hasher.finalize().as_bytes()),
            Running::Sha224(mac) => of(&mac.finalize().into_bytes()),
            Running::Sha256(mac) => of(&mac.finalize().into_bytes()),
            Running::Sha3_224(mac) => of(&mac.finalize().into_bytes()),
            Running::Sha3_256(mac) => of(&mac.finalize().into_bytes()),
        }
    }
}
