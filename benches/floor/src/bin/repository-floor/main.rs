//! The floor of a snapshot: a file is read, split, hashed and encrypted, and nothing else is done with it.
//!
//! The algorithms are those of a repository with Velero's parameters: a buzhash of 32 bits over 64 bytes, chunks of 2
//! to 8 MiB, BLAKE2b with a key, AES-256-GCM with a key for each chunk. It uses none of Lifeboat's crates. The table of
//! the buzhash is another one, so that the cuts are not those of a repository; it takes as long. Prints its counts as a
//! line of JSON.
#![allow(clippy::print_stdout, reason = "its one line is its result")]

mod seal;
mod split;

use anyhow::{Context, Result};
use clap::Parser;
use seal::Sealer;
use serde::Serialize;
use split::{MAX, Splitter};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes that are read before they are split. Only the rest of the last chunk is copied to the next ones.
const REGION: usize = 64 << 20;
/// The chunks that are hashed side by side.
const GROUP: usize = 4;

/// Reads, splits, hashes and encrypts a file
#[derive(Debug, Parser)]
#[command(name = "repository-floor")]
struct RepositoryFloor {
    /// Threads that hash and encrypt
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The file
    file: PathBuf,
}

/// The counts of a run.
#[derive(Debug, Default, Serialize)]
struct Counts {
    bytes: u64,
    chunks: u64,
    /// Of the encrypted bytes, so that no compiler leaves the work out.
    sum: u8,
}

/// Chunks of one region.
struct Group {
    region: Arc<Vec<u8>>,
    chunks: Vec<Range<usize>>,
}

fn main() -> Result<()> {
    let floor = RepositoryFloor::parse();
    let mut file = File::open(&floor.file).with_context(|| format!("open {}", floor.file.display()))?;
    let (give, take) = sync_channel::<Group>(floor.threads.max(1));
    let take = Mutex::new(take);
    let sealer = Sealer::new()?;
    let counts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..floor.threads.max(1)).map(|_| scope.spawn(|| work(&take, &sealer))).collect();
        let bytes = split(&mut file, give)?;
        let mut counts = Counts { bytes, ..Counts::default() };
        for worker in workers {
            let done = worker.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))??;
            counts.chunks += done.chunks;
            counts.sum ^= done.sum;
        }
        anyhow::Ok(counts)
    })?;
    println!("{}", serde_json::to_string(&counts)?);
    Ok(())
}

/// Reads and splits the file, and gives the number of its bytes.
fn split(file: &mut File, give: SyncSender<Group>) -> Result<u64> {
    let splitter = Splitter::new();
    let mut region = Vec::with_capacity(REGION);
    let (mut total, mut chunks) = (0, Vec::new());
    loop {
        let missing = (REGION - region.len()) as u64;
        let read = file.take(missing).read_to_end(&mut region).context("read the file")? as u64;
        total += read;
        let is_end = read < missing;
        let mut at = 0;
        while at < region.len() && (is_end || region.len() - at >= MAX) {
            let end = at + splitter.cut(&region[at..]);
            chunks.push(at..end);
            at = end;
        }
        let mut next = Vec::with_capacity(REGION);
        next.extend_from_slice(&region[at..]);
        let done = Arc::new(std::mem::replace(&mut region, next));
        for group in chunks.chunks(GROUP) {
            give.send(Group { region: done.clone(), chunks: group.to_vec() }).context("hand chunks over")?;
        }
        chunks.clear();
        if is_end {
            return Ok(total);
        }
    }
}

/// Hashes and encrypts chunks until there are no more.
fn work(take: &Mutex<Receiver<Group>>, sealer: &Sealer) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut sealed = Vec::with_capacity(2 * MAX);
    loop {
        let next = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Group { region, chunks }) = next else { return Ok(counts) };
        let chunks: Vec<&[u8]> = chunks.into_iter().map(|chunk| &region[chunk]).collect();
        for (chunk, hash) in chunks.iter().zip(sealer.hashes(&chunks)) {
            sealer.seal(&hash, chunk, &mut sealed)?;
            counts.chunks += 1;
            counts.sum ^= sealed.last().copied().unwrap_or_default();
        }
    }
}
