//! Threads that hash, compress and encrypt. Contents that wait for their hash are hashed several at once, which is much
//! faster for BLAKE2b.

use super::buffers::Buffers;
use crate::KopiaError;
use crate::compression::{Compression, Compressor};
use crate::content::decode;
use crate::content::index_set::Record;
use crate::crypto::Crypto;
use crate::crypto::aead::{NONCE_LENGTH, TAG_LENGTH};
use crate::format::content_id::{ContentHash, ContentId};
use crate::tasks::blocking;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Contents that are hashed side by side.
pub(crate) const LANES: usize = 4;
/// Bytes up to which the way to a thread takes longer than the work.
const SMALL: usize = 16 << 10;
/// Buffers that are kept beside one for each thread.
const KEPT: usize = 8;
/// The bytes by which the cipher makes a content longer.
const OVERHEAD: usize = NONCE_LENGTH + TAG_LENGTH;

/// Threads, and what is kept from one content to the next.
pub(super) struct Threads {
    crypto: Arc<Crypto>,
    turns: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
    compressors: Mutex<HashMap<Compression, Vec<Compressor>>>,
    /// Of plain and of encrypted contents.
    pub(super) buffers: Buffers,
    /// Of pieces of files that are read.
    pub(super) pieces: Buffers,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    jobs: VecDeque<Job>,
}

struct Job {
    number: u64,
    plain: Bytes,
    to: oneshot::Sender<ContentHash>,
}

/// Bytes that wait for their hash.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    hash: oneshot::Receiver<ContentHash>,
}

/// The bytes of a content as they lie in a pack.
pub(super) struct Sealed {
    pub(super) stored: Vec<u8>,
    /// The header ID of the compression, 0 for none.
    pub(super) compression: u32,
}

/// Plain bytes to be compressed and encrypted.
pub(super) struct ToSeal<'a> {
    pub(super) id: &'a ContentId,
    pub(super) plain: &'a [u8],
    pub(super) compression: Option<Compression>,
    pub(super) nonce: [u8; NONCE_LENGTH],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    pub(super) fn new(crypto: Arc<Crypto>, threads: usize) -> Self {
        let turns = Arc::new(Semaphore::new(threads.clamp(1, Semaphore::MAX_PERMITS)));
        let (buffers, pieces) = (Buffers::new(threads.saturating_add(KEPT)), Buffers::new(2 * KEPT));
        Self { crypto, turns, waiting: Mutex::default(), compressors: Mutex::default(), buffers, pieces }
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, KopiaError> {
        self.turns.clone().acquire_owned().await.map_err(|_| KopiaError::Cancelled)
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
        let turn = self.turn().await?;
        blocking(move || {
            let _turn = turn;
            work()
        })
        .await
    }

    /// Lets bytes wait for their hash, together with those that come next; `None` where the hash takes less time than that.
    pub(super) fn enqueue(&self, plain: &Bytes) -> Option<Ticket> {
        if plain.len() <= SMALL {
            return None;
        }
        let (to, hash) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        waiting.next += 1;
        let number = waiting.next;
        waiting.jobs.push_back(Job { number, plain: plain.clone(), to });
        Some(Ticket { number, hash })
    }

    /// Hashes bytes, together with others that wait.
    pub(super) async fn hash(&self, plain: &Bytes) -> Result<ContentHash, KopiaError> {
        match self.enqueue(plain) {
            Some(ticket) => self.hashed(ticket).await,
            None => Ok(self.crypto.hash(plain)),
        }
    }

    /// The hash of bytes that wait for it.
    pub(super) async fn hashed(&self, ticket: Ticket) -> Result<ContentHash, KopiaError> {
        let Ticket { number, hash } = ticket;
        let turn = self.turn().await?;
        // Somebody else has taken it along; who takes one ends it.
        let jobs = self.take(number);
        if jobs.is_empty() {
            drop(turn);
        } else {
            let crypto = self.crypto.clone();
            blocking(move || {
                let _turn = turn;
                let plains: Vec<&[u8]> = jobs.iter().map(|job| job.plain.as_ref()).collect();
                let hashes = crypto.hash_all(&plains);
                for (Job { plain, to, .. }, hash) in jobs.into_iter().zip(hashes) {
                    // Nobody else has them when their caller goes on, so that the buffer is used again.
                    drop(plain);
                    // It may be gone.
                    let _ = to.send(hash);
                }
                Ok(())
            })
            .await?;
        }
        hash.await.map_err(|_| KopiaError::Cancelled)
    }

    /// The job with this number, and some that wait longest; none where it is taken already.
    fn take(&self, number: u64) -> Vec<Job> {
        let mut waiting = lock(&self.waiting);
        let at = waiting.jobs.iter().position(|job| job.number == number);
        let Some(own) = at.and_then(|at| waiting.jobs.remove(at)) else { return Vec::new() };
        let mut jobs = vec![own];
        while jobs.len() < LANES
            && let Some(job) = waiting.jobs.pop_front()
        {
            // Nobody waits for it any more.
            if !job.to.is_closed() {
                jobs.push(job);
            }
        }
        jobs
    }

    /// Compresses, where that is wanted and makes them shorter, and encrypts.
    pub(super) fn seal(&self, content: &ToSeal<'_>) -> Result<Sealed, KopiaError> {
        let refused = |why| KopiaError::refused(format!("store content {}", content.id), why);
        let mut compressed = None;
        if let Some(compression) = content.compression {
            let kept = lock(&self.compressors).get_mut(&compression).and_then(Vec::pop);
            let mut compressor = kept.map_or_else(|| Compressor::new(compression), Ok).map_err(refused)?;
            compressed = compressor.compress(content.plain).map_err(refused)?.map(|bytes| (bytes, compression));
            lock(&self.compressors).entry(compression).or_default().push(compressor);
        }
        let (plain, compression) = match &compressed {
            Some((bytes, compression)) => (bytes.as_slice(), compression.header()),
            None => (content.plain, 0),
        };
        let mut stored = self.buffers.take(plain.len() + OVERHEAD);
        self.crypto.seal_content_into(content.id, plain, content.nonce, &mut stored).map_err(refused)?;
        Ok(Sealed { stored, compression })
    }

    /// Decodes a content.
    pub(super) fn decode(&self, record: &Record, stored: &[u8]) -> Result<Bytes, KopiaError> {
        decode(&self.crypto, record, stored)
    }
}
