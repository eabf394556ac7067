//! From asynchronous bytes to a synchronous reader on another thread.

use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use lifeboat_bucket::{BucketError, ByteStream};
use std::io::{self, Read};
use tokio::sync::mpsc;

/// Pieces that may wait between the two sides.
const WAITING: usize = 8;

/// The synchronous end: blocks until the other side has sent the next piece.
pub(crate) struct PieceReader {
    pieces: mpsc::Receiver<Piece>,
    current: Bytes,
}

enum Piece {
    Bytes(Bytes),
    /// The stream broke; the feeding side knows why.
    Broken,
}

/// Why there is no outcome of the work.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// The stream broke before the work could be done: what the work says of the bytes means nothing.
    Stream(BucketError),
    /// The thread died.
    Thread,
}

impl Read for PieceReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(Piece::Bytes(piece)) => self.current = piece,
                Some(Piece::Broken) => return Err(io::Error::other("the stream broke")),
            }
        }
        let n = buf.len().min(self.current.len());
        self.current.copy_to_slice(&mut buf[..n]);
        Ok(n)
    }
}

/// Runs blocking `work` on a thread with a reader of the stream; the caller's task feeds it.
pub(crate) async fn with_reader<T, E>(
    mut stream: ByteStream,
    work: impl FnOnce(PieceReader) -> Result<T, E> + Send + 'static,
) -> Result<Result<T, E>, Interrupted>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let (sender, pieces) = mpsc::channel(WAITING);
    let feed = async move {
        loop {
            match stream.try_next().await {
                Ok(None) => return None,
                Ok(Some(piece)) => {
                    // The reader may stop early.
                    if sender.send(Piece::Bytes(piece)).await.is_err() {
                        return None;
                    }
                }
                Err(e) => return sender.send(Piece::Broken).await.is_ok().then_some(e),
            }
        }
    };
    let thread = tokio::task::spawn_blocking(move || work(PieceReader { pieces, current: Bytes::new() }));
    let (broken, done) = tokio::join!(feed, thread);
    match (done.map_err(|_| Interrupted::Thread)?, broken) {
        (Err(_), Some(e)) => Err(Interrupted::Stream(e)),
        (done, _) => Ok(done),
    }
}
