//! Streams whose end is said.
//!
//! A channel closes when its sender is done and also when its sender died. A receiver that takes the one for the other
//! loses what did not come, in silence. So a sender says the end, and a stream that closes without it is a failure.

use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;

/// A stage ended without having said that it was done. Displays what it was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker thread died while {0}")]
pub struct Broken(pub &'static str);

/// The receiver is gone: the operation is over, and the stage that ended it says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverGone;

/// A bounded stream between two stages. `what` says what the sending stage does, such as "listing objects".
#[must_use]
pub fn stream<T>(capacity: usize, what: &'static str) -> (StreamSender<T>, StreamReceiver<T>) {
    let (sender, pieces) = mpsc::channel(capacity);
    let broken = Arc::new(OnceLock::new());
    let sender = StreamSender { pieces: sender, broken: Arc::clone(&broken), what, ended: false };
    (sender, StreamReceiver { pieces, broken })
}

/// The sending end. The stream has ended when every sender of it has said so by [`StreamSender::end`]; it is broken when
/// one was dropped before.
#[derive(Debug)]
pub struct StreamSender<T> {
    pieces: mpsc::Sender<T>,
    broken: Arc<OnceLock<Broken>>,
    what: &'static str,
    ended: bool,
}

impl<T> StreamSender<T> {
    /// Creates one more sender, for a stage that does `what`.
    #[must_use]
    pub fn another(&self, what: &'static str) -> Self {
        Self { pieces: self.pieces.clone(), broken: Arc::clone(&self.broken), what, ended: false }
    }

    /// Sends a piece when there is room for it.
    ///
    /// # Errors
    /// [`ReceiverGone`].
    pub async fn send(&self, piece: T) -> Result<(), ReceiverGone> {
        self.pieces.send(piece).await.map_err(|_| ReceiverGone)
    }

    /// Waits for room for a piece.
    ///
    /// # Errors
    /// [`ReceiverGone`].
    pub async fn reserve(&self) -> Result<mpsc::Permit<'_, T>, ReceiverGone> {
        self.pieces.reserve().await.map_err(|_| ReceiverGone)
    }

    /// Room for a piece, if there is some right now.
    #[must_use]
    pub fn try_reserve(&self) -> Option<mpsc::Permit<'_, T>> {
        self.pieces.try_reserve().ok()
    }

    /// Returns true if the receiver is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.pieces.is_closed()
    }

    /// Says that nothing follows.
    pub fn end(mut self) {
        self.ended = true;
    }

    /// Says that nothing follows because a stage before this one broke: the receiver hears of that one.
    pub fn fail(self, broken: Broken) {
        // The first one to break is the cause.
        let _ = self.broken.set(broken);
    }
}

impl<T> Drop for StreamSender<T> {
    fn drop(&mut self) {
        if !self.ended {
            // The first one to break is the cause.
            let _ = self.broken.set(Broken(self.what));
        }
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct StreamReceiver<T> {
    pieces: mpsc::Receiver<T>,
    broken: Arc<OnceLock<Broken>>,
}

impl<T> StreamReceiver<T> {
    /// The next piece; `None` when every sender has said the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Broken`] when a sender went without saying the end, after everything that was sent.
    pub async fn next(&mut self) -> Result<Option<T>, Broken> {
        let piece = self.pieces.recv().await;
        self.or_end(piece)
    }

    /// [`StreamReceiver::next`] on a thread that may block.
    ///
    /// # Errors
    /// [`Broken`], as [`StreamReceiver::next`].
    pub fn blocking_next(&mut self) -> Result<Option<T>, Broken> {
        let piece = self.pieces.blocking_recv();
        self.or_end(piece)
    }

    fn or_end(&self, piece: Option<T>) -> Result<Option<T>, Broken> {
        match (piece, self.broken.get()) {
            (Some(piece), _) => Ok(Some(piece)),
            (None, None) => Ok(None),
            (None, Some(broken)) => Err(*broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinSet;

    async fn all(receiver: &mut StreamReceiver<u8>) -> (Vec<u8>, Result<(), Broken>) {
        let mut out = Vec::new();
        loop {
            match receiver.next().await {
                Ok(Some(piece)) => out.push(piece),
                end => return (out, end.map(drop)),
            }
        }
    }

    #[tokio::test]
    async fn a_stream_ends_when_every_sender_has_said_so() {
        let (one, mut receiver) = stream(4, "one");
        let two = one.another("two");
        one.send(1).await.unwrap();
        one.end();
        two.send(2).await.unwrap();
        two.end();
        assert_eq!(all(&mut receiver).await, (vec![1, 2], Ok(())));
        assert_eq!(receiver.next().await, Ok(None), "and stays at its end");
    }

    #[tokio::test]
    async fn a_sender_that_is_gone_without_the_end_breaks_the_stream() {
        let (one, mut receiver) = stream(4, "one");
        let two = one.another("two");
        one.send(1).await.unwrap();
        drop(two);
        one.send(2).await.unwrap();
        one.end();
        assert_eq!(all(&mut receiver).await, (vec![1, 2], Err(Broken("two"))));
        assert_eq!(receiver.next().await, Err(Broken("two")), "and stays broken");
    }

    #[tokio::test]
    async fn a_panic_of_the_sending_task_is_no_end() {
        let (sender, mut receiver) = stream::<u8>(4, "counting");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            sender.send(1).await.unwrap();
            if !sender.is_closed() {
                panic!("in the middle");
            }
            sender.end();
        });
        assert!(tasks.join_next().await.unwrap().is_err());
        assert_eq!(all(&mut receiver).await, (vec![1], Err(Broken("counting"))));
    }

    #[tokio::test]
    async fn the_stage_that_broke_first_is_named() {
        let (before, mut middle) = stream::<u8>(1, "first");
        let (sender, mut receiver) = stream::<u8>(1, "second");
        drop(before);
        sender.fail(middle.next().await.unwrap_err());
        assert_eq!(receiver.next().await, Err(Broken("first")));
        let (sender, receiver) = stream::<u8>(1, "x");
        drop(receiver);
        assert_eq!((sender.send(1).await, sender.is_closed()), (Err(ReceiverGone), true));
    }

    #[test]
    fn a_thread_sees_the_end_too() {
        let (sender, mut receiver) = stream::<u8>(1, "x");
        sender.end();
        assert_eq!(receiver.blocking_next(), Ok(None));
        let (sender, mut receiver) = stream::<u8>(1, "x");
        drop(sender);
        assert_eq!(receiver.blocking_next(), Err(Broken("x")));
    }
}
