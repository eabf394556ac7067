//! Hashes with a key, and encryption with a key for each hash.

use anyhow::{Result, anyhow};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use blake2b_simd::Params;
use blake2b_simd::many::{HashManyJob, hash_many};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The bytes of a hash.
const HASH: usize = 16;

/// Keys and parameters, prepared once.
pub(crate) struct Sealer {
    params: Params,
    keys: Hmac<Sha256>,
}

impl Sealer {
    pub(crate) fn new() -> Result<Self> {
        let mut params = Params::new();
        params.hash_length(32).key(&[7; 32]);
        let keys = Hmac::new_from_slice(&[8; 32]).map_err(|_| anyhow!("HMAC does not take its key"))?;
        Ok(Self { params, keys })
    }

    /// The hashes of chunks, computed side by side.
    pub(crate) fn hashes(&self, chunks: &[&[u8]]) -> Vec<[u8; HASH]> {
        let mut jobs: Vec<_> = chunks.iter().map(|chunk| HashManyJob::new(&self.params, chunk)).collect();
        hash_many(jobs.iter_mut());
        let cut = |job: &HashManyJob<'_>| job.to_hash().as_bytes().first_chunk().copied().unwrap_or([0; HASH]);
        jobs.iter().map(cut).collect()
    }

    /// Encrypts a chunk into a buffer.
    pub(crate) fn seal(&self, hash: &[u8; HASH], chunk: &[u8], sealed: &mut Vec<u8>) -> Result<()> {
        let key = self.keys.clone().chain_update(hash).finalize().into_bytes();
        let refused = |_| anyhow!("AES-256-GCM refuses");
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).map_err(refused)?);
        sealed.clear();
        sealed.extend_from_slice(chunk);
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(hash), sealed).map_err(refused)?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(())
    }
}
