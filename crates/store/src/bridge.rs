//! Passes asynchronous bytes to a synchronous reader on another thread.

use crate::stream::{StreamReceiver, stream};
use bytes::{Buf, Bytes};
use futures::TryStreamExt;
use lifeboat_bucket::{BucketError, ByteStream};
use std::io::{self, Read};

/// Pieces that may wait between the two sides.
const WAITING: usize = 8;

/// The synchronous end: blocks until the other side has sent the next piece. A stream that broke is an error, never
/// an end; the feeding side knows why.
pub(crate) struct PieceReader {
    pieces: StreamReceiver<Bytes>,
    current: Bytes,
}

/// The reason for which the work was not done.
#[derive(Debug)]
pub(crate) enum NotDone<E> {
    /// The stream broke before the work could be done: the error of the work means nothing.
    Stream(BucketError),
    /// The thread died.
    Thread,
    /// The error of the work.
    Work(E),
}

impl Read for PieceReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_next().map_err(io::Error::other)? {
                None => return Ok(0),
                Some(piece) => self.current = piece,
            }
        }
        let n = buf.len().min(self.current.len());
        self.current.copy_to_slice(&mut buf[..n]);
        Ok(n)
    }
}

/// Runs blocking `work` on a thread with a reader of the stream; the caller's task feeds it.
pub(crate) async fn with_reader<T, E>(
    mut bytes: ByteStream,
    work: impl FnOnce(PieceReader) -> Result<T, E> + Send + 'static,
) -> Result<T, NotDone<E>>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let (sender, pieces) = stream(WAITING, "reading from the bucket");
    let feed = async move {
        loop {
            match bytes.try_next().await {
                Ok(None) => {
                    sender.end();
                    return None;
                }
                Ok(Some(piece)) => {
                    // The reader may stop early.
                    if sender.send(piece).await.is_err() {
                        return None;
                    }
                }
                Err(e) => return (!sender.is_closed()).then_some(e),
            }
        }
    };
    let thread = tokio::task::spawn_blocking(move || work(PieceReader { pieces, current: Bytes::new() }));
    let (broken, done) = tokio::join!(feed, thread);
    match (done.map_err(|_| NotDone::Thread)?, broken) {
        (Err(_), Some(e)) => Err(NotDone::Stream(e)),
        (Err(e), None) => Err(NotDone::Work(e)),
        (Ok(done), _) => Ok(done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use lifeboat_bucket::ErrorKind;

    #[test]
    fn a_feeder_that_died_is_no_end_of_the_bytes() {
        let (sender, pieces) = stream(4, "reading from the bucket");
        sender.try_reserve().unwrap().send(Bytes::from_static(b"half"));
        drop(sender);
        let mut read = Vec::new();
        let error = PieceReader { pieces, current: Bytes::new() }.read_to_end(&mut read).unwrap_err();
        assert_eq!(
            (read, error.to_string().as_str()),
            (b"half".to_vec(), "a worker thread died while reading from the bucket")
        );
    }

    #[tokio::test]
    async fn bytes_that_break_are_no_whole() {
        let error = BucketError {
            kind: ErrorKind::Other,
            operation: "get",
            key: "k".into(),
            store: "s".into(),
            message: "cut".into(),
            source: None,
        };
        let bytes = futures::stream::iter([Ok(Bytes::from_static(b"half")), Err(error)]).boxed();
        let read = |mut reader: PieceReader| {
            let mut out = Vec::new();
            reader.read_to_end(&mut out).map(|_| out)
        };
        let Err(NotDone::Stream(e)) = with_reader(bytes, read).await else { panic!("it broke") };
        assert_eq!(e.to_string(), "cannot get \"k\" in s: cut");
        let bytes = futures::stream::iter([Ok(Bytes::from_static(b"who")), Ok(Bytes::from_static(b"le"))]).boxed();
        assert_eq!(with_reader(bytes, read).await.unwrap(), b"whole");
    }
}
