//! Threads that hash, compress and encrypt.

use super::buffers::{Buffers, PIECE};
use super::lanes::{Lanes, Ticket};
use super::parts::Parts;
use crate::KopiaError;
use crate::compression::{Compression, Compressor};
use crate::content::decode;
use crate::content::index_set::Record;
use crate::crypto::Crypto;
use crate::crypto::aead::NONCE_LENGTH;
use crate::format::FormatError;
use crate::format::content_id::{ContentHash, ContentId};
use crate::tasks::blocking;
use bytes::{Bytes, BytesMut};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Bytes up to which the way to a thread takes longer than the work.
const SMALL: usize = 16 << 10;
/// Bytes from which a content is encrypted at its place in the pack, instead of being copied there.
const LONG: usize = 64 << 10;
/// Pieces of files that are kept for the next ones, as many as chunks mostly have.
const IDLE_PIECES: usize = (64 << 20) / PIECE;

/// Threads, and what is kept from one content to the next.
pub(super) struct Threads {
    crypto: Arc<Crypto>,
    /// Turns of all work but hashing.
    turns: Arc<Semaphore>,
    lanes: Arc<Lanes>,
    compressors: Mutex<HashMap<Compression, Vec<Compressor>>>,
    /// Of files that are read.
    pub(super) pieces: Buffers,
}

/// The bytes of a content that are to be encrypted.
pub(super) struct ToSeal {
    pub(super) plain: Parts,
    /// The header ID of the compression, 0 for none.
    pub(super) compression: u32,
}

impl Threads {
    pub(super) fn new(crypto: Arc<Crypto>, threads: usize) -> Self {
        let turns = Arc::new(Semaphore::new(threads.clamp(1, Semaphore::MAX_PERMITS)));
        let lanes = Arc::new(Lanes::new(crypto.clone(), threads));
        Self { crypto, turns, lanes, compressors: Mutex::default(), pieces: Buffers::new(PIECE, IDLE_PIECES) }
    }

    /// Does work with so many bytes on a thread when it is its turn; with few of them at once.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> Result<T, KopiaError> + Send + 'static,
    ) -> Result<T, KopiaError> {
        if bytes <= SMALL {
            return work();
        }
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| KopiaError::Cancelled)?;
        blocking(move || {
            let _turn = turn;
            work()
        })
        .await
    }

    /// Lets bytes wait for their hash, together with those that come next; `None` where the hash takes less time than that.
    pub(super) fn enqueue(&self, plain: &Parts) -> Option<Ticket> {
        (plain.len() > SMALL).then(|| self.lanes.add(plain.clone()))
    }

    /// Begins to hash what waits, however little it is.
    pub(super) fn hurry(&self) {
        self.lanes.hurry();
    }

    /// Hashes bytes, together with others that wait.
    pub(super) async fn hash(&self, plain: &Parts) -> Result<ContentHash, KopiaError> {
        if let Some(ticket) = self.enqueue(plain) {
            self.hurry();
            return ticket.hash().await;
        }
        let mut hash = self.crypto.begin_hash();
        plain.iter().for_each(|part| hash.update(part));
        Ok(hash.finish())
    }

    /// Compresses, where that is wanted and makes them shorter.
    pub(super) fn compress(&self, plain: Parts, compression: Option<Compression>) -> Result<ToSeal, FormatError> {
        let Some(compression) = compression else { return Ok(ToSeal { plain, compression: 0 }) };
        let lock = || self.compressors.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = lock().get_mut(&compression).and_then(Vec::pop);
        let mut compressor = kept.map_or_else(|| Compressor::new(compression), Ok)?;
        let plain = plain.joined();
        let compressed = compressor.compress(&plain)?;
        lock().entry(compression).or_default().push(compressor);
        Ok(match compressed {
            Some(bytes) => ToSeal { plain: Bytes::from(bytes).into(), compression: compression.header() },
            None => ToSeal { plain: plain.into(), compression: 0 },
        })
    }

    /// The length of a content that is better encrypted at its place in a pack; `None` for one that is not.
    pub(super) fn length_at_its_place(&self, plain: usize) -> Option<usize> {
        self.crypto.length_at_its_place(plain).filter(|_| plain >= LONG)
    }

    /// Encrypts a content at its place.
    pub(super) fn seal_at_its_place(
        &self,
        id: &ContentId,
        plain: Parts,
        nonce: [u8; NONCE_LENGTH],
        place: &mut BytesMut,
    ) -> Result<(), FormatError> {
        place.extend_from_slice(&nonce);
        plain.drain(&self.pieces, |part| place.extend_from_slice(part));
        let tag = self.crypto.seal_content_at_its_place(id, place)?;
        place.extend_from_slice(&tag);
        Ok(())
    }

    /// Encrypts a content.
    pub(super) fn seal(&self, id: &ContentId, plain: Parts, nonce: [u8; NONCE_LENGTH]) -> Result<Vec<u8>, FormatError> {
        self.crypto.seal_content(id, &plain.joined(), nonce)
    }

    /// Decodes a content.
    pub(super) fn decode(&self, record: &Record, stored: &[u8]) -> Result<Bytes, KopiaError> {
        decode(&self.crypto, record, stored)
    }
}
