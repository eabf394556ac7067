//! Hashes of contents that wait for them, computed side by side, which is much faster for BLAKE2b.
//!
//! A thread has four lanes. As soon as the content of one lane ends it takes the next that waits, so that all lanes have work
//! although contents have different lengths. A thread begins when there is work for all of its lanes, or when somebody cannot
//! wait, and ends when nothing waits.

use super::parts::Parts;
use crate::KopiaError;
use crate::crypto::Crypto;
use crate::crypto::hash::RunningHash;
use crate::format::content_id::ContentHash;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Contents that one thread hashes side by side.
const LANES: usize = 4;
/// The most bytes of a lane until it is asked again what waits.
const STEP: usize = 1 << 20;

/// Contents that wait for their hash, and the threads that hash them.
pub(super) struct Lanes {
    crypto: Arc<Crypto>,
    most_threads: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    threads: usize,
}

struct Job {
    plain: Parts,
    to: oneshot::Sender<ContentHash>,
}

/// A content that waits for its hash.
pub(crate) struct Ticket {
    hash: oneshot::Receiver<ContentHash>,
    lanes: Arc<Lanes>,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl Drop for Ticket {
    /// Takes a content back that nobody has begun to hash: its bytes have no memory any more.
    fn drop(&mut self) {
        self.hash.close();
        self.lanes.lock().jobs.retain(|job| !job.to.is_closed());
    }
}

impl Ticket {
    /// The hash, as soon as it is there.
    pub(super) async fn hash(mut self) -> Result<ContentHash, KopiaError> {
        (&mut self.hash).await.map_err(|_| KopiaError::Cancelled)
    }
}

impl Lanes {
    /// Lanes beside so many threads in all.
    pub(super) fn new(crypto: Arc<Crypto>, threads: usize) -> Self {
        // Side by side it is less than half of all that is done with a content.
        let most_threads = if crypto.hashes_side_by_side() { threads.div_ceil(2) } else { threads };
        Self { crypto, most_threads: most_threads.max(1), waiting: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a content wait for its hash.
    pub(super) fn add(self: &Arc<Self>, plain: Parts) -> Ticket {
        let (to, hash) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.jobs.push_back(Job { plain, to });
        self.start(waiting, LANES);
        Ticket { hash, lanes: self.clone() }
    }

    /// Begins to hash what waits, however little it is.
    pub(super) fn hurry(self: &Arc<Self>) {
        let waiting = self.lock();
        // A thread that is at work takes it when the next of its lanes is free.
        let least = if waiting.threads == 0 { 1 } else { LANES };
        self.start(waiting, least);
    }

    fn start(self: &Arc<Self>, mut waiting: MutexGuard<'_, Waiting>, least: usize) {
        if waiting.jobs.len() < least || waiting.threads >= self.most_threads {
            return;
        }
        waiting.threads += 1;
        drop(waiting);
        let thread = Thread { lanes: self.clone(), is_over: false };
        // It ends by itself, at the latest when all who wait are gone.
        drop(tokio::task::spawn_blocking(move || thread.work()));
    }
}

/// A thread that hashes.
struct Thread {
    lanes: Arc<Lanes>,
    is_over: bool,
}

impl Drop for Thread {
    /// Lets nobody wait for a thread that has panicked, or never ran.
    fn drop(&mut self) {
        if !self.is_over {
            let mut waiting = self.lanes.lock();
            waiting.threads -= 1;
            let jobs = std::mem::take(&mut waiting.jobs);
            drop(waiting);
            drop(jobs);
        }
    }
}

/// A content that is being hashed.
struct Lane {
    job: Job,
    hash: RunningHash,
    part: usize,
    /// The bytes of the part that are hashed.
    done: usize,
}

impl Lane {
    /// The bytes of the part that are to be hashed; `None` at the end.
    fn rest(&mut self) -> Option<&[u8]> {
        while self.job.plain.get(self.part)?.len() == self.done {
            self.part += 1;
            self.done = 0;
        }
        self.job.plain.get(self.part)?.get(self.done..)
    }

    fn end(self) {
        let Job { plain, to } = self.job;
        // Nobody else has the bytes when their caller goes on, so that their buffers are used again.
        drop(plain);
        // It may be gone.
        let _ = to.send(self.hash.finish());
    }
}

impl Thread {
    fn work(mut self) {
        let mut busy: Vec<Lane> = Vec::with_capacity(LANES);
        loop {
            self.fill(&mut busy);
            if self.is_over {
                return;
            }
            let length = busy.iter_mut().filter_map(|lane| lane.rest().map(<[u8]>::len)).min().unwrap_or(0).min(STEP);
            let next = busy.iter_mut().filter_map(|lane| {
                let part = lane.job.plain.get(lane.part)?;
                Some((&mut lane.hash, part.get(lane.done..lane.done + length)?))
            });
            RunningHash::update_all(next);
            for lane in &mut busy {
                lane.done += length;
            }
            for lane in busy.extract_if(.., |lane| lane.rest().is_none()) {
                lane.end();
            }
        }
    }

    /// Takes contents into lanes that are free. Where there are none it is over.
    fn fill(&mut self, busy: &mut Vec<Lane>) {
        let mut waiting = self.lanes.lock();
        while busy.len() < LANES
            && let Some(job) = waiting.jobs.pop_front()
        {
            busy.push(Lane { job, hash: self.lanes.crypto.begin_hash(), part: 0, done: 0 });
        }
        if busy.is_empty() {
            waiting.threads -= 1;
            self.is_over = true;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::crypto::HashAlgorithm;
    use crate::testing::{Fixture, noise};
    use bytes::Bytes;

    fn lanes(hash: HashAlgorithm) -> Arc<Lanes> {
        Arc::new(Lanes::new(Fixture::usual().crypto(hash), 2))
    }

    /// Bytes in parts of such lengths, again and again.
    fn parts(bytes: &[u8], lengths: &[usize]) -> Parts {
        let (mut parts, mut rest) = (Parts::default(), bytes);
        for length in lengths.iter().cycle() {
            let (part, others) = rest.split_at((*length).min(rest.len()));
            parts.push(Bytes::copy_from_slice(part));
            rest = others;
            if rest.is_empty() {
                return parts;
            }
        }
        parts
    }

    #[tokio::test]
    async fn a_hash_depends_neither_on_parts_nor_on_what_is_hashed_beside_it() {
        for hash in HashAlgorithm::ALL {
            let lanes = lanes(hash);
            let lengths = [1, 127, 128, 129, 40_000, 3_000_000, 2_500_001, 5, 700_000, 128 << 10, 99_999];
            let plains: Vec<Vec<u8>> = (1..).zip(lengths).map(|(seed, length)| noise(seed, length)).collect();
            let cut = |plain: &Vec<u8>| parts(plain, &[512 << 10, 1, 200_000, 127]);
            let tickets: Vec<Ticket> = plains.iter().map(|plain| lanes.add(cut(plain))).collect();
            lanes.hurry();
            for (ticket, plain) in tickets.into_iter().zip(&plains) {
                assert_eq!(ticket.hash().await.unwrap(), lanes.crypto.hash(plain), "{hash:?} {}", plain.len());
            }
        }
    }

    #[tokio::test]
    async fn three_contents_wait_for_a_fourth_or_for_somebody_who_cannot_wait() {
        let lanes = lanes(HashAlgorithm::default());
        let mut tickets: Vec<Ticket> = (0..3).map(|_| lanes.add(Bytes::from(noise(1, 20_000)).into())).collect();
        let waiting = |lanes: &Lanes| {
            let waiting = lanes.lock();
            (waiting.jobs.len(), waiting.threads)
        };
        assert_eq!(waiting(&lanes), (3, 0));
        tickets.push(lanes.add(Bytes::from(noise(1, 20_000)).into()));
        for ticket in tickets {
            ticket.hash().await.unwrap();
        }
        let last = lanes.add(Bytes::from(noise(1, 20_000)).into());
        lanes.hurry();
        last.hash().await.unwrap();
    }

    #[tokio::test]
    async fn a_content_that_is_given_up_leaves_no_bytes_behind() {
        let lanes = lanes(HashAlgorithm::default());
        let bytes = Bytes::from(noise(1, 20_000));
        let [first, second] = [(); 2].map(|()| lanes.add(bytes.clone().into()));
        drop(first);
        assert_eq!(lanes.lock().jobs.len(), 1);
        drop(second);
        assert_eq!(lanes.lock().jobs.len(), 0);
        assert!(bytes.is_unique());
    }
}
