//! Objects as they go into an archive.

use lifeboat_object::GroupResource;
use sha2::{Digest, Sha256};

/// An object to be stored, with the bytes that will stand in the archive.
#[derive(Clone, Copy, Debug)]
pub struct ObjectEntry<'a> {
    /// Its type.
    pub resource: &'a GroupResource,
    /// The version the bytes are in, such as `v1`.
    pub version: &'a str,
    /// True when that is the version the cluster prefers; such objects get the plain path too.
    pub preferred: bool,
    /// Its namespace.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Its JSON, with `apiVersion` and `kind`, in two pieces of which the second follows the first.
    pub body: [&'a [u8]; 2],
}

/// The hash of an entry's body as the index holds it: the first 16 bytes of SHA-256.
#[must_use]
pub fn entry_hash(body: &[u8]) -> [u8; 16] {
    hash_of_pieces(&[body])
}

/// [`entry_hash`] of a body in pieces.
pub(crate) fn hash_of_pieces(pieces: &[&[u8]]) -> [u8; 16] {
    let mut hasher = Sha256::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    let mut out = [0; 16];
    out.copy_from_slice(&hasher.finalize()[..16]);
    out
}
