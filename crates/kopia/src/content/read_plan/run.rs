//! The plan carried out.

use super::plan::{Located, PlannedPiece, Request, plan};
use super::wanted::{ReadLimits, Sink, Wanted};
use crate::KopiaError;
use crate::blobs::is_not_found;
use crate::content::decode::{decode_all, range};
use crate::content::index_set::{IndexSet, Record};
use crate::content::{Contents, decompress_object, missing};
use crate::tasks::{blocking, join};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// Reads all contents of a stream into a sink. What is read when the caller drops this ends with the piece it is at.
///
/// # Errors
/// Errors of the stream and of the sink; the scratch space, an upgrade. A content that cannot be had is told to the sink.
pub async fn read<T, S>(
    contents: &Contents,
    wanted: impl Stream<Item = Result<Wanted<T>, KopiaError>> + Send,
    limits: ReadLimits,
    sink: Arc<S>,
) -> Result<(), KopiaError>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    let mut windows = std::pin::pin!(wanted.chunks(limits.window.max(1)));
    let mut running = Running::new(contents.clone(), limits, sink);
    while let Some(window) = windows.next().await {
        let window = window.into_iter().collect::<Result<Vec<_>, _>>()?;
        contents.refresh_when_old().await?;
        let set = contents.index_set();
        let (at, sink) = (set.clone(), running.shared.sink.clone());
        let requests = blocking(move || Ok(plan(locate(&at, window, &*sink)?, &limits))).await?;
        for request in requests {
            running.begin(request, set.clone()).await?;
        }
    }
    running.finish().await
}

/// Looks up where contents lie. Those that no index has are told to the sink.
fn locate<T>(set: &IndexSet, window: Vec<Wanted<T>>, sink: &impl Sink<T>) -> Result<Vec<Located<T>>, KopiaError> {
    let mut located = Vec::with_capacity(window.len());
    for mut wanted in window {
        let found = set.locate(&wanted.content)?.ok_or_else(|| missing(&wanted.content));
        let found = found.and_then(|found| Ok((found.record, range(&found.record)?)));
        match found {
            Ok((record, range)) => {
                sink.note_place(&|| record.into_entry(set.pack_name(record.pack)), &mut wanted.tag);
                located.push(Located { record, range, wanted });
            }
            Err(error) => sink.fail(error, vec![wanted.tag])?,
        }
    }
    Ok(located)
}

/// A request whose bytes are there.
struct Fetched<T> {
    request: Request<T>,
    bytes: Bytes,
    _memory: OwnedSemaphorePermit,
}

/// Contents that are decoded in one go, as far as they are there: hashing several side by side is much faster.
const LANES: usize = 4;

/// Requests in flight. They end when this is dropped.
struct Running<S, T> {
    shared: Arc<Shared<S, T>>,
    limits: ReadLimits,
    memory: Arc<Semaphore>,
    tasks: JoinSet<Result<(), KopiaError>>,
}

struct Shared<S, T> {
    contents: Contents,
    sink: Arc<S>,
    threads: Semaphore,
    /// The requests that wait for a thread.
    fetched: Mutex<VecDeque<Fetched<T>>>,
    /// True when nothing is wanted any more.
    is_over: AtomicBool,
}

impl<S, T> Shared<S, T> {
    fn fetched(&self) -> MutexGuard<'_, VecDeque<Fetched<T>>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests that wait longest, with enough contents for one go. None where other threads have taken them along.
    fn take(&self) -> Vec<Fetched<T>> {
        let mut fetched = self.fetched();
        let (mut taken, mut contents) = (Vec::new(), 0);
        while contents < LANES
            && let Some(next) = fetched.pop_front()
        {
            contents += next.request.pieces.len();
            taken.push(next);
        }
        taken
    }
}

impl<S, T> Drop for Running<S, T> {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

/// The bytes that one permit of the memory stands for: a semaphore counts to 2^32 only in one call.
const UNIT: u64 = 1 << 10;

impl<S, T> Running<S, T>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    fn new(contents: Contents, limits: ReadLimits, sink: Arc<S>) -> Self {
        let threads = Semaphore::new(limits.threads.clamp(1, Semaphore::MAX_PERMITS));
        let shared = Shared { contents, sink, threads, fetched: Mutex::default(), is_over: AtomicBool::new(false) };
        let memory = Arc::new(Semaphore::new(Self::units(&limits, u64::MAX) as usize));
        Self { shared: Arc::new(shared), limits, memory, tasks: JoinSet::new() }
    }

    /// The permits for so many bytes, at most all there are.
    fn units(limits: &ReadLimits, bytes: u64) -> u32 {
        let most = (limits.memory / UNIT).clamp(1, 1 << 30);
        u32::try_from((bytes / UNIT).saturating_add(1).min(most)).unwrap_or(u32::MAX)
    }

    async fn begin(&mut self, request: Request<T>, set: Arc<IndexSet>) -> Result<(), KopiaError> {
        while self.tasks.len() >= self.limits.requests.max(1) {
            self.join().await?;
        }
        while let Some(done) = self.tasks.try_join_next() {
            join(done)??;
        }
        let memory = self.memory.clone().acquire_many_owned(Self::units(&self.limits, request.memory()));
        let memory = memory.await.map_err(|_| KopiaError::Cancelled)?;
        let shared = self.shared.clone();
        self.tasks.spawn(async move { perform(&shared, request, set, memory).await });
        Ok(())
    }

    async fn join(&mut self) -> Result<(), KopiaError> {
        self.tasks.join_next().await.map_or(Ok(()), |done| join(done)?)
    }

    async fn finish(mut self) -> Result<(), KopiaError> {
        while !self.tasks.is_empty() {
            self.join().await?;
        }
        Ok(())
    }
}

/// Reads a range and hands its pieces to the sink.
async fn perform<T, S>(
    shared: &Arc<Shared<S, T>>,
    request: Request<T>,
    set: Arc<IndexSet>,
    memory: OwnedSemaphorePermit,
) -> Result<(), KopiaError>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    let pack = set.pack_name(request.pack);
    match shared.contents.inner.blobs.read_range(&pack, request.range.clone()).await {
        Ok(bytes) => {
            shared.fetched().push_back(Fetched { request, bytes, _memory: memory });
            deliver(shared).await
        }
        // Maintenance may have moved the contents meanwhile; or the pack is damaged, and a part of it can be read.
        Err(error) => one_by_one(shared, request, &error).await,
    }
}

/// Decodes some of what waits, and hands it to the sink. There is one call for each request that waits, so that none is left.
async fn deliver<T, S>(shared: &Arc<Shared<S, T>>) -> Result<(), KopiaError>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    let _thread = shared.threads.acquire().await.map_err(|_| KopiaError::Cancelled)?;
    let taken = shared.take();
    if taken.is_empty() {
        return Ok(());
    }
    let shared = shared.clone();
    blocking(move || {
        let (mut stored, mut requests) = (Vec::new(), Vec::with_capacity(taken.len()));
        for Fetched { request, bytes, _memory } in taken {
            let bytes = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(shared.as_ref()));
            stored.extend(request.cut(bytes));
            requests.push((request, _memory));
        }
        let mut plains = decode_all(&shared.contents.inner.crypto, stored).into_iter();
        for (request, _memory) in requests {
            for (piece, plain) in request.pieces.into_iter().zip(plains.by_ref()) {
                if shared.is_over.load(Ordering::Relaxed) {
                    return Err(KopiaError::Cancelled);
                }
                hand_over(&*shared.sink, piece, plain)?;
            }
        }
        Ok(())
    })
    .await
}

/// Reads each piece by itself, anew from the index.
async fn one_by_one<T, S>(shared: &Arc<Shared<S, T>>, request: Request<T>, cause: &KopiaError) -> Result<(), KopiaError>
where
    T: Send + Sync + 'static,
    S: Sink<T>,
{
    let contents = &shared.contents;
    let is_single = request.pieces.len() == 1;
    for piece in request.pieces {
        let plain = if is_not_found(cause) {
            // It refreshes the index where the pack is gone.
            contents.read(&piece.record.id).await
        } else if is_single || !matches!(cause, KopiaError::Damaged { .. }) {
            Err(cause.repeat())
        } else {
            read_piece(contents, &piece.record).await
        };
        let shared = shared.clone();
        blocking(move || hand_over(&*shared.sink, piece, plain)).await?;
    }
    Ok(())
}

async fn read_piece(contents: &Contents, record: &Record) -> Result<Bytes, KopiaError> {
    contents.read_at(record).await
}

fn hand_over<T>(
    sink: &impl Sink<T>,
    piece: PlannedPiece<T>,
    plain: Result<Bytes, KopiaError>,
) -> Result<(), KopiaError> {
    let id = piece.record.id;
    let plain = plain.and_then(|plain| if piece.is_compressed { decompress_object(&id, &plain) } else { Ok(plain) });
    let plain = match plain {
        Ok(plain) => plain,
        Err(error) => return sink.fail(error, piece.wanted.into_iter().map(|(_, tag)| tag).collect()),
    };
    let (enough, too_few): (Vec<_>, Vec<_>) =
        piece.wanted.into_iter().partition(|(length, _)| *length <= plain.len() as u64);
    if !too_few.is_empty() {
        let wanted = too_few.iter().map(|(length, _)| *length).max().unwrap_or(0);
        let error = KopiaError::damaged(
            format!("content {id}"),
            format_args!("it has {} bytes, the object that it is a part of needs {wanted}", plain.len()),
        );
        sink.fail(error, too_few.into_iter().map(|(_, tag)| tag).collect())?;
    }
    if enough.is_empty() {
        return Ok(());
    }
    sink.take(&plain, enough.into_iter().map(|(_, tag)| tag).collect())
}
