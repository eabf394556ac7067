//! Lets reading go on when later stages are slow: objects that the memory budget cannot hold wait on disk.
//!
//! The API server cuts an answer that is not read for a minute, so reading must not wait for an upload.

use crate::collect::scratch::Scratch;
use crate::collect::tally::Tally;
use crate::env::Env;
use crate::stage_error::{StageError, say_end};
use bytes::Bytes;
use lifeboat_archive::tarball::SEGMENT_SIZE;
use lifeboat_object::{ApiResource, Item, ResultScope};
use lifeboat_store::{ReceiverGone, StreamReceiver, StreamSender, stream};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Batches waiting between reading and processing; the budget bounds their bytes.
const WAITING: usize = 1024;
/// Bytes from which a body is a large one.
const LARGE: usize = 64 << 10;
/// Bytes of memory that a small body takes beside its own, as measured.
const BESIDE: usize = 2 << 10;
/// The smallest budget in bytes.
pub(crate) const LEAST: usize = 4 << 20;
const _: () = assert!(3 * SEGMENT_SIZE + LEAST / 4 <= LEAST, "an open segment leaves room for the next objects");
/// Batches on their way to disk.
const OVERFLOWING: usize = 2;
/// Name of the readers in messages.
pub(crate) const LISTING: &str = "listing objects";

/// Objects that arrived together, and their share of the memory budget; the share returns when they are uploaded or left out.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) items: Vec<Item>,
    pub(crate) budget: OwnedSemaphorePermit,
}

/// Bytes that arrived together.
pub(crate) struct RawPage {
    pub(crate) resource: Arc<ApiResource>,
    pub(crate) bodies: Vec<Bytes>,
}

/// Memory that a body of this length takes until it is uploaded, in bytes. A small one takes more than its bytes: what
/// was parsed of it (labels, owners), and its part of the page that it came in. A large one stands in the archive's
/// segment too, comes compressed under both of its paths, and leaves a hole behind that not every later one fits into.
pub(crate) fn cost(length: usize) -> usize {
    if length < LARGE { length + BESIDE } else { 3 * length }
}

/// The entrance for objects. Each reader has its own and says its end.
pub(crate) struct Intake {
    out: Out,
    sender: StreamSender<Batch>,
    overflow: StreamSender<RawPage>,
}

/// The budget, and everything that is needed to make a batch.
#[derive(Clone)]
struct Out {
    budget: Arc<Semaphore>,
    /// The largest share.
    most: usize,
    env: Env,
    tally: Arc<Tally>,
}

/// The part that keeps objects on disk: [`Spool::run`] is a task of the operation.
pub(crate) struct Spool {
    sender: StreamSender<Batch>,
    incoming: StreamReceiver<RawPage>,
    disk_queue: DiskQueue,
}

/// Objects that wait on disk, and the budget that they wait for.
struct DiskQueue {
    out: Out,
    disk: Disk,
}

/// A spool of this many bytes of memory.
pub(crate) fn spool(memory_budget: usize, env: &Env, tally: &Arc<Tally>) -> (Intake, Spool, StreamReceiver<Batch>) {
    let (sender, batches) = stream(WAITING, LISTING);
    let (overflow, incoming) = stream(OVERFLOWING, LISTING);
    let budget = memory_budget.clamp(LEAST, Semaphore::MAX_PERMITS).min(u32::MAX as usize);
    let most = budget / 4;
    let out = Out { budget: Arc::new(Semaphore::new(budget)), most, env: env.clone(), tally: Arc::clone(tally) };
    let disk_queue = DiskQueue { out: out.clone(), disk: Disk::new(&env.operation.scratch) };
    let spool = Spool { sender: sender.another("keeping objects on disk"), incoming, disk_queue };
    (Intake { out, sender, overflow }, spool, batches)
}

impl Intake {
    /// Creates an intake for another reader.
    pub(crate) fn another(&self) -> Self {
        Self { out: self.out.clone(), sender: self.sender.another(LISTING), overflow: self.overflow.another(LISTING) }
    }

    /// Says that this reader has everything.
    pub(crate) fn end(self) {
        self.sender.end();
        self.overflow.end();
    }

    /// Takes objects of one list, quickly: into memory, or to disk.
    pub(crate) async fn take(&self, resource: &Arc<ApiResource>, bodies: Vec<Bytes>) -> Result<(), ReceiverGone> {
        let raw = RawPage { resource: Arc::clone(resource), bodies };
        let budget = Arc::clone(&self.out.budget).try_acquire_many_owned(self.out.share(&raw));
        match (budget, self.sender.try_reserve()) {
            (Ok(budget), Some(slot)) => {
                slot.send(self.out.parse(raw, budget));
                Ok(())
            }
            _ => self.overflow.send(raw).await,
        }
    }
}

impl Out {
    /// The share of the budget that objects take, a quarter of the budget at most. So the next ones always find room while a
    /// segment is open: what stands in a segment of 1 MiB costs less than 3 MiB, and the smallest budget is 4 MiB.
    fn share(&self, raw: &RawPage) -> u32 {
        let size = raw.bodies.iter().map(|body| cost(body.len())).sum::<usize>().clamp(1, self.most);
        u32::try_from(size).unwrap_or(u32::MAX)
    }

    fn parse(&self, raw: RawPage, budget: OwnedSemaphorePermit) -> Batch {
        let came = raw.bodies.len();
        let items = crate::collect::parse::items(&raw.resource, raw.bodies, &self.env.operation.journal);
        self.tally.settled(came - items.len());
        self.env.operation.progress.found(items.len() as u64);
        Batch { items, budget }
    }

    async fn acquire(&self, share: u32) -> OwnedSemaphorePermit {
        match Arc::clone(&self.budget).acquire_many_owned(share).await {
            Ok(budget) => budget,
            Err(_) => unreachable!("the memory budget is never closed"),
        }
    }
}

impl Spool {
    /// Runs until all readers have ended and everything on disk was handed on, and says the end then.
    pub(crate) async fn run(self) {
        let Self { sender, incoming, disk_queue } = self;
        let result = disk_queue.hand_on(incoming, &sender).await;
        // `say_end` tells the receiver.
        let _ = say_end(result, sender);
    }
}

impl DiskQueue {
    async fn hand_on(
        mut self,
        mut incoming: StreamReceiver<RawPage>,
        sender: &StreamSender<Batch>,
    ) -> Result<(), StageError> {
        let mut open = true;
        let mut ready: Option<Batch> = None;
        let out = self.out.clone();
        while open || ready.is_some() || !self.disk.queue.is_empty() {
            let share = self.disk.queue.front().map_or(0, |stored| stored.share);
            tokio::select! {
                biased;
                () = out.env.operation.cancel.cancelled() => return Err(StageError::OperationEnded),
                raw = incoming.next(), if open => match raw? {
                    None => open = false,
                    Some(raw) => self.keep(raw, sender).await?,
                },
                slot = sender.reserve(), if ready.is_some() => {
                    let slot = slot?;
                    if let Some(batch) = ready.take() {
                        slot.send(batch);
                    }
                }
                budget = out.acquire(share), if ready.is_none() && share > 0 => {
                    ready = self.fetch(budget).await;
                }
            }
        }
        Ok(())
    }

    /// Puts objects on disk. When that fails they wait for memory, and so do the readers of the cluster.
    async fn keep(&mut self, raw: RawPage, sender: &StreamSender<Batch>) -> Result<(), ReceiverGone> {
        let share = self.out.share(&raw);
        let Err((e, raw)) = self.disk.push(raw, share).await else { return Ok(()) };
        if !std::mem::replace(&mut self.disk.broken, true) {
            let text =
                format!("objects cannot wait in {}, so reading waits for the upload: {e}", self.disk.scratch.place());
            self.out.env.operation.journal.warn(&ResultScope::Velero, text);
        }
        let budget = self.out.acquire(share).await;
        sender.send(self.out.parse(raw, budget)).await
    }

    async fn fetch(&mut self, budget: OwnedSemaphorePermit) -> Option<Batch> {
        let stored = self.disk.queue.pop_front()?;
        match self.disk.read(&stored).await {
            Ok(bodies) => Some(self.out.parse(RawPage { resource: stored.resource, bodies }, budget)),
            Err(e) => {
                let (count, resource) = (stored.lengths.len(), stored.resource.group_resource());
                self.out.tally.settled(count);
                let text = format!(
                    "{count} objects of {resource} are lost: reading them back from {}: {e}",
                    self.disk.scratch.place()
                );
                self.out.env.operation.journal.error(&ResultScope::Velero, text);
                None
            }
        }
    }
}

/// Objects on disk, first in, first out.
struct Disk {
    scratch: Scratch,
    queue: VecDeque<StoredBatch>,
    broken: bool,
}

struct StoredBatch {
    resource: Arc<ApiResource>,
    share: u32,
    at: u64,
    lengths: Vec<u32>,
}

impl Disk {
    fn new(folder: &Path) -> Self {
        Self { scratch: Scratch::new(folder), queue: VecDeque::new(), broken: false }
    }

    /// Gives the objects back when they cannot be written.
    async fn push(&mut self, raw: RawPage, share: u32) -> Result<(), (io::Error, RawPage)> {
        if self.queue.is_empty()
            && let Err(e) = self.scratch.empty()
        {
            return Err((e, raw));
        }
        match self.scratch.append(raw.bodies.clone()).await {
            Ok(at) => {
                // A body comes out of one answer, which has a bound far below.
                let lengths = raw.bodies.iter().map(|body| u32::try_from(body.len()).unwrap_or(u32::MAX)).collect();
                self.queue.push_back(StoredBatch { resource: raw.resource, share, at, lengths });
                Ok(())
            }
            Err(e) => Err((e, raw)),
        }
    }

    async fn read(&self, stored: &StoredBatch) -> io::Result<Vec<Bytes>> {
        let total = stored.lengths.iter().map(|length| *length as usize).sum();
        let mut rest = self.scratch.read(stored.at, total).await?;
        Ok(stored.lengths.iter().map(|length| rest.split_to(*length as usize)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_store::Broken;

    fn resource() -> Arc<ApiResource> {
        Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap"))
    }

    fn raw(name: &str, size: usize) -> RawPage {
        let body =
            format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"data":{{"x":"{}"}}}}"#, "x".repeat(size));
        RawPage { resource: resource(), bodies: vec![body.clone().into(), body.into()] }
    }

    #[tokio::test]
    async fn what_was_put_on_disk_comes_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Disk::new(folder.path());
        for round in 0..3 {
            let names = ["a", "b", "c"].map(|name| format!("{name}{round}"));
            for name in &names {
                disk.push(raw(name, 1000), 2).await.map_err(|(e, _)| e).unwrap();
            }
            for name in &names {
                let stored = disk.queue.pop_front().unwrap();
                assert_eq!(disk.read(&stored).await.unwrap(), raw(name, 1000).bodies);
            }
            assert_eq!(disk.scratch.length(), 6 * raw("a0", 1000).bodies[0].len() as u64, "the file is used again");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
    }

    #[tokio::test]
    async fn a_disk_that_cannot_be_used_gives_back_what_it_was_given() {
        let mut disk = Disk::new(Path::new("/nonexistent"));
        let Err((_, back)) = disk.push(raw("a", 10), 2).await else { panic!("there is no such folder") };
        assert_eq!(back.bodies, raw("a", 10).bodies);
    }

    #[tokio::test]
    async fn a_spool_that_died_is_no_end_of_the_objects() {
        let env = crate::env::test_env().await;
        let (intake, spool, mut batches) = spool(0, &env, &Arc::default());
        let RawPage { resource, bodies } = raw("a", 10);
        intake.take(&resource, bodies).await.unwrap();
        intake.end();
        // Never run: what it holds for others is lost.
        drop(spool);
        assert_eq!(batches.next().await.map(|b| b.map(|b| b.items.len())), Ok(Some(2)));
        assert_eq!(batches.next().await.map(|b| b.is_none()), Err(Broken("keeping objects on disk")));
    }

    #[tokio::test]
    async fn a_reader_that_died_is_named_behind_the_spool() {
        let env = crate::env::test_env().await;
        let (intake, spool, mut batches) = spool(0, &env, &Arc::default());
        let other = intake.another();
        other.end();
        drop(intake);
        spool.run().await;
        assert_eq!(batches.next().await.map(|b| b.is_none()), Err(Broken("listing objects")));
    }

    #[tokio::test]
    async fn the_end_comes_after_what_is_on_disk() {
        let env = crate::env::test_env().await;
        let (intake, spool, mut batches) = spool(0, &env, &Arc::default());
        // More than the smallest budget holds.
        for _ in 0..3 {
            let RawPage { resource, bodies } = raw("a", 1 << 20);
            intake.take(&resource, bodies).await.unwrap();
        }
        intake.end();
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(spool.run());
        let mut came = 0;
        while let Some(batch) = batches.next().await.unwrap() {
            came += batch.items.len();
        }
        assert_eq!(came, 6);
    }
}
