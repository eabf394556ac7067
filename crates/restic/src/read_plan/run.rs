//! The plan carried out.

use super::plan::{PackRead, PlannedBlob, Wanted, plan};
use super::sink::Sink;
use crate::limits::ReadLimits;
use crate::tasks::{blocking, join};
use crate::{Repository, ResticError};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// The bytes that one permit of the memory stands for: a semaphore counts to 2^32 only in one call.
const UNIT: u64 = 1 << 10;

/// Reads all blobs of a stream into a sink. What is read when the caller drops this ends with the blob it is at.
///
/// # Errors
/// Errors of the stream, of the sink and of the scratch space. A blob that cannot be had is told to the sink.
pub async fn read<T, S>(
    repository: &Repository,
    wanted: impl Stream<Item = Result<Wanted<T>, ResticError>> + Send,
    limits: ReadLimits,
    sink: Arc<S>,
) -> Result<(), ResticError>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    let mut windows = std::pin::pin!(wanted.chunks(limits.window.max(1)));
    let mut running = ReadsInFlight::new(repository.clone(), limits, sink);
    while let Some(window) = windows.next().await {
        let window = window.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (repository, sink) = (repository.clone(), running.shared.sink.clone());
        let requests = blocking(move || {
            let mut located = Vec::with_capacity(window.len());
            for wanted in window {
                match repository.find(&wanted.id) {
                    Ok(location) => located.push((location, wanted)),
                    Err(error @ ResticError::Missing { .. }) => sink.fail(error, vec![wanted.tag])?,
                    Err(error) => return Err(error),
                }
            }
            Ok(plan(located, &limits))
        });
        for request in requests.await? {
            running.begin(request).await?;
        }
    }
    running.finish().await
}

/// Requests in flight. They end when this is dropped.
struct ReadsInFlight<S> {
    shared: Arc<Shared<S>>,
    limits: ReadLimits,
    memory: Arc<Semaphore>,
    tasks: JoinSet<Result<(), ResticError>>,
}

struct Shared<S> {
    repository: Repository,
    sink: Arc<S>,
    threads: Semaphore,
    /// True when nothing is wanted any more.
    is_over: AtomicBool,
}

impl<S> Drop for ReadsInFlight<S> {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl<S> ReadsInFlight<S> {
    fn new(repository: Repository, limits: ReadLimits, sink: Arc<S>) -> Self {
        let threads = Semaphore::new(limits.threads.clamp(1, Semaphore::MAX_PERMITS));
        let shared = Shared { repository, sink, threads, is_over: AtomicBool::new(false) };
        let memory = Arc::new(Semaphore::new(units(&limits, u64::MAX) as usize));
        Self { shared: Arc::new(shared), limits, memory, tasks: JoinSet::new() }
    }

    async fn begin<T>(&mut self, request: PackRead<T>) -> Result<(), ResticError>
    where
        T: Send + Sync + 'static,
        S: Sink<T>,
    {
        while self.tasks.len() >= self.limits.requests.max(1) {
            self.join().await?;
        }
        while let Some(done) = self.tasks.try_join_next() {
            join(done)??;
        }
        let memory = self.memory.clone().acquire_many_owned(units(&self.limits, request.memory()));
        let memory = memory.await.map_err(|_| ResticError::Cancelled)?;
        let shared = self.shared.clone();
        self.tasks.spawn(async move { perform(&shared, request, memory).await });
        Ok(())
    }

    async fn join(&mut self) -> Result<(), ResticError> {
        self.tasks.join_next().await.map_or(Ok(()), |done| join(done)?)
    }

    async fn finish(mut self) -> Result<(), ResticError> {
        while !self.tasks.is_empty() {
            self.join().await?;
        }
        Ok(())
    }
}

/// The permits for so many bytes, at most all there are.
fn units(limits: &ReadLimits, bytes: u64) -> u32 {
    let most = (limits.memory / UNIT).clamp(1, 1 << 30);
    u32::try_from((bytes / UNIT).saturating_add(1).min(most)).unwrap_or(u32::MAX)
}

/// Reads a range and hands its blobs to the sink.
async fn perform<T, S>(
    shared: &Arc<Shared<S>>,
    request: PackRead<T>,
    memory: OwnedSemaphorePermit,
) -> Result<(), ResticError>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    let PackRead { pack, range, pieces } = request;
    match shared.repository.pack_range(pack, range.clone()).await {
        Ok(bytes) => deliver(shared, PackPart { start: range.start, bytes }, pieces, memory).await,
        // Only a part of the pack may be there, and what can be read of it is.
        Err(error @ ResticError::Damaged { .. }) if pieces.len() > 1 => {
            for piece in pieces {
                let bytes = shared.repository.pack_range(pack, piece.location.range()).await;
                hand_over(shared, piece, bytes).await?;
            }
            drop((error, memory));
            Ok(())
        }
        Err(error) => {
            for piece in pieces {
                hand_over(shared, piece, Err(error.repeat())).await?;
            }
            Ok(())
        }
    }
}

/// A part of a pack that was read.
struct PackPart {
    start: u64,
    bytes: Bytes,
}

/// Decrypts the blobs of a range on a thread.
async fn deliver<T, S>(
    shared: &Arc<Shared<S>>,
    part: PackPart,
    pieces: Vec<PlannedBlob<T>>,
    memory: OwnedSemaphorePermit,
) -> Result<(), ResticError>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    let PackPart { start, bytes } = part;
    let _thread = shared.threads.acquire().await.map_err(|_| ResticError::Cancelled)?;
    let shared = shared.clone();
    blocking(move || {
        let _memory = memory;
        for piece in pieces {
            if shared.is_over.load(Ordering::Relaxed) {
                return Err(ResticError::Cancelled);
            }
            let at = |offset: u64| usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
            let range = piece.location.range();
            let stored = bytes.get(at(range.start)..at(range.end)).unwrap_or_default();
            give(&shared, piece, stored)?;
        }
        Ok(())
    })
    .await
}

/// As [`deliver`], for one blob that was read by itself.
async fn hand_over<T, S>(
    shared: &Arc<Shared<S>>,
    piece: PlannedBlob<T>,
    bytes: Result<Bytes, ResticError>,
) -> Result<(), ResticError>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    let shared = shared.clone();
    blocking(move || match bytes {
        Ok(bytes) => give(&shared, piece, &bytes),
        Err(error) => shared.sink.fail(error, piece.tags),
    })
    .await
}

fn give<T, S: Sink<T>>(shared: &Shared<S>, piece: PlannedBlob<T>, stored: &[u8]) -> Result<(), ResticError> {
    match shared.repository.decode(&piece.id, &piece.location, stored) {
        Ok(plain) => shared.sink.take(&plain, piece.tags),
        Err(error) => shared.sink.fail(error, piece.tags),
    }
}
