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
    pieces: mpsc::Receiver<Result<Bytes, BucketError>>,
    current: Bytes,
}

impl Read for PieceReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(Ok(piece)) => self.current = piece,
                Some(Err(e)) => return Err(io::Error::other(e)),
            }
        }
        let n = buf.len().min(self.current.len());
        self.current.copy_to_slice(&mut buf[..n]);
        Ok(n)
    }
}

/// Runs blocking `work` on a thread with a reader of the stream; the caller's task feeds it.
pub(crate) async fn with_reader<T: Send + 'static>(
    mut stream: ByteStream,
    work: impl FnOnce(PieceReader) -> T + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    let (sender, pieces) = mpsc::channel(WAITING);
    let feed = async move {
        loop {
            match stream.try_next().await {
                Ok(None) => return,
                Ok(Some(piece)) => {
                    if sender.send(Ok(piece)).await.is_err() {
                        return;
                    }
                }
                Err(e) => {
                    // The reader may have stopped early; then nobody needs the error.
                    let _ = sender.send(Err(e)).await;
                    return;
                }
            }
        }
    };
    let thread = tokio::task::spawn_blocking(move || work(PieceReader { pieces, current: Bytes::new() }));
    let ((), result) = tokio::join!(feed, thread);
    result
}
