//! Lets reading go on when what follows is slow: what the memory budget cannot hold waits on disk.
//!
//! The API server cuts an answer that is not read for a minute, so reading must not wait for an upload.

use crate::env::Env;
use bytes::Bytes;
use lifeboat_object::{ApiResource, Item, ObjectKey, Place, Severity};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Batches waiting between reading and processing; the budget bounds their bytes.
const WAITING: usize = 1024;
/// Bytes from which a body is a large one.
const LARGE: usize = 64 << 10;
/// The smallest budget in bytes.
const LEAST: usize = 4 << 20;
/// Batches on their way to disk.
const OVERFLOWING: usize = 2;

/// Objects that arrived together, and their share of the memory budget; the share returns when they are written.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) items: Vec<Item>,
    pub(crate) budget: OwnedSemaphorePermit,
}

/// Bytes that arrived together.
struct Raw {
    resource: Arc<ApiResource>,
    bodies: Vec<Bytes>,
}

/// The reader of the batches is gone: the operation is over.
#[derive(Debug)]
pub(crate) struct Gone;

/// Memory that a body takes until it is uploaded. A large one stands in the archive's segment too, comes compressed
/// under both of its paths, and leaves a hole behind that not every later one fits into.
fn cost(body: &Bytes) -> usize {
    if body.len() < LARGE { body.len() } else { 3 * body.len() }
}

/// Where readers put objects.
#[derive(Clone)]
pub(crate) struct Intake {
    out: Out,
    overflow: mpsc::Sender<Raw>,
}

/// The side of memory: the budget, and the way to the next stage.
#[derive(Clone)]
struct Out {
    sender: mpsc::Sender<Batch>,
    budget: Arc<Semaphore>,
    /// The largest share.
    most: usize,
    env: Env,
}

/// The side of disk: run it as a task of the operation.
pub(crate) struct Spool {
    out: Out,
    incoming: mpsc::Receiver<Raw>,
    disk: Disk,
}

/// A spool of this many bytes of memory.
pub(crate) fn spool(memory_budget: usize, env: &Env) -> (Intake, Spool, mpsc::Receiver<Batch>) {
    let (sender, batches) = mpsc::channel(WAITING);
    let (overflow, incoming) = mpsc::channel(OVERFLOWING);
    let budget = memory_budget.clamp(LEAST, Semaphore::MAX_PERMITS).min(u32::MAX as usize);
    let most = budget / 4;
    let out = Out { sender, budget: Arc::new(Semaphore::new(budget)), most, env: env.clone() };
    let spool = Spool { out: out.clone(), incoming, disk: Disk::new(&env.scratch) };
    (Intake { out, overflow }, spool, batches)
}

impl Intake {
    /// Takes objects of one list, quickly: into memory, or to disk.
    pub(crate) async fn take(&self, resource: &Arc<ApiResource>, bodies: Vec<Bytes>) -> Result<(), Gone> {
        let raw = Raw { resource: Arc::clone(resource), bodies };
        let budget = Arc::clone(&self.out.budget).try_acquire_many_owned(self.out.share(&raw));
        match (budget, self.out.sender.try_reserve()) {
            (Ok(budget), Ok(slot)) => {
                slot.send(self.out.parse(raw, budget));
                Ok(())
            }
            _ => self.overflow.send(raw).await.map_err(|_| Gone),
        }
    }
}

impl Out {
    /// The share of the budget that objects take; more than a quarter of it counts as a quarter. So there is room for
    /// the next ones while a member of the archive is not full: it holds the shares of a megabyte at most, and of the
    /// batch that ends in it.
    fn share(&self, raw: &Raw) -> u32 {
        let size = raw.bodies.iter().map(cost).sum::<usize>().clamp(1, self.most);
        u32::try_from(size).unwrap_or(u32::MAX)
    }

    fn parse(&self, raw: Raw, budget: OwnedSemaphorePermit) -> Batch {
        let mut items = Vec::with_capacity(raw.bodies.len());
        for body in raw.bodies {
            match Item::parse(Arc::clone(&raw.resource), body) {
                Ok(item) => items.push(item),
                Err(e) => {
                    let key = ObjectKey::new(raw.resource.group_resource(), None, "?");
                    let message = "The API server listed something that is no object";
                    self.env.journal.item(Severity::Error, &key, message, Some(&e.to_string()));
                }
            }
        }
        self.env.progress.found(items.len() as u64);
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
    /// Runs until all readers have ended and everything on disk was handed on.
    pub(crate) async fn run(mut self) {
        let mut open = true;
        let mut ready: Option<Batch> = None;
        let Out { sender, env, .. } = self.out.clone();
        let out = self.out.clone();
        while open || ready.is_some() || !self.disk.queue.is_empty() {
            let share = self.disk.queue.front().map_or(0, |stored| stored.share);
            tokio::select! {
                biased;
                () = env.cancel.cancelled() => return,
                raw = self.incoming.recv(), if open => match raw {
                    None => open = false,
                    Some(raw) => if self.keep(raw).await.is_err() { return },
                },
                slot = sender.reserve(), if ready.is_some() => match (slot, ready.take()) {
                    (Ok(slot), Some(batch)) => slot.send(batch),
                    _ => return,
                },
                budget = out.acquire(share), if ready.is_none() && share > 0 => {
                    ready = self.fetch(budget).await;
                }
            }
        }
    }

    /// Puts objects on disk. When that fails they wait for memory, and so does who reads.
    async fn keep(&mut self, raw: Raw) -> Result<(), Gone> {
        let share = self.out.share(&raw);
        let Err((e, raw)) = self.disk.push(raw, share).await else { return Ok(()) };
        if !std::mem::replace(&mut self.disk.broken, true) {
            let text = format!("objects cannot wait in {}, so reading waits for the upload: {e}", self.disk.place);
            self.out.env.journal.warn(&Place::Velero, text);
        }
        let budget = self.out.acquire(share).await;
        self.out.sender.send(self.out.parse(raw, budget)).await.map_err(|_| Gone)
    }

    async fn fetch(&mut self, budget: OwnedSemaphorePermit) -> Option<Batch> {
        let stored = self.disk.queue.pop_front()?;
        match self.disk.read(&stored).await {
            Ok(bodies) => Some(self.out.parse(Raw { resource: stored.resource, bodies }, budget)),
            Err(e) => {
                let (count, resource) = (stored.lengths.len(), stored.resource.group_resource());
                let text =
                    format!("{count} objects of {resource} are lost: reading them back from {}: {e}", self.disk.place);
                self.out.env.journal.error(&Place::Velero, text);
                None
            }
        }
    }
}

/// Objects on disk, first in, first out. The file has no name, so it goes with us.
struct Disk {
    place: String,
    file: Option<Arc<File>>,
    end: u64,
    queue: VecDeque<Stored>,
    broken: bool,
}

struct Stored {
    resource: Arc<ApiResource>,
    share: u32,
    at: u64,
    lengths: Vec<u32>,
}

impl Disk {
    fn new(folder: &Path) -> Self {
        Self { place: folder.display().to_string(), file: None, end: 0, queue: VecDeque::new(), broken: false }
    }

    /// Gives the objects back when they cannot be written.
    async fn push(&mut self, raw: Raw, share: u32) -> Result<(), (io::Error, Raw)> {
        let file = match self.file() {
            Ok(file) => file,
            Err(e) => return Err((e, raw)),
        };
        let (at, bodies) = (self.end, raw.bodies.clone());
        let write = move || {
            let mut at = at;
            for body in &bodies {
                file.write_all_at(body, at)?;
                at += body.len() as u64;
            }
            Ok(at)
        };
        match blocking(write).await {
            Ok(end) => {
                // A body comes out of one answer, which has a bound far below.
                let lengths = raw.bodies.iter().map(|body| u32::try_from(body.len()).unwrap_or(u32::MAX)).collect();
                self.queue.push_back(Stored { resource: raw.resource, share, at, lengths });
                self.end = end;
                Ok(())
            }
            Err(e) => Err((e, raw)),
        }
    }

    fn file(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            if self.queue.is_empty() && self.end > 0 {
                file.set_len(0)?;
                self.end = 0;
            }
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(tempfile::tempfile_in(&self.place)?);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    async fn read(&self, stored: &Stored) -> io::Result<Vec<Bytes>> {
        let Some(file) = self.file.clone() else { return Err(io::ErrorKind::NotFound.into()) };
        let (at, lengths) = (stored.at, stored.lengths.clone());
        blocking(move || {
            let total = lengths.iter().map(|length| *length as usize).sum();
            let mut all = vec![0; total];
            file.read_exact_at(&mut all, at)?;
            let mut rest = Bytes::from(all);
            Ok(lengths.iter().map(|length| rest.split_to(*length as usize)).collect())
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> Arc<ApiResource> {
        Arc::new(ApiResource::new("", "v1", "configmaps", "ConfigMap"))
    }

    fn raw(name: &str, size: usize) -> Raw {
        let body =
            format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"data":{{"x":"{}"}}}}"#, "x".repeat(size));
        Raw { resource: resource(), bodies: vec![body.clone().into(), body.into()] }
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
            assert_eq!(disk.end, 6 * raw("a0", 1000).bodies[0].len() as u64, "the file is used again");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
    }

    #[tokio::test]
    async fn a_disk_that_cannot_be_used_gives_back_what_it_was_given() {
        let mut disk = Disk::new(Path::new("/nonexistent"));
        let Err((_, back)) = disk.push(raw("a", 10), 2).await else { panic!("there is no such folder") };
        assert_eq!(back.bodies, raw("a", 10).bodies);
    }
}
