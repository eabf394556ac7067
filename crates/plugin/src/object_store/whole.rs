//! A body that is whole, or breaks off.

use bytes::Bytes;
use http_body::{Body, Frame};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tonic::Status;

/// Set when the end of a body was announced.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyEnd(Arc<AtomicBool>);

impl BodyEnd {
    /// Says that it is the end.
    pub(crate) fn say(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_said(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A request that counts as whole when its end was said, and otherwise breaks off there: the other side is told that by a reset
/// of the stream, which no library takes for the end. (Some do so with the reset of a call that is cancelled.)
pub(crate) struct WholeRequest {
    body: tonic::body::Body,
    end: BodyEnd,
}

impl WholeRequest {
    /// The body, whose end this says.
    pub(crate) fn new(body: tonic::body::Body, end: BodyEnd) -> Self {
        Self { body, end }
    }
}

impl Body for WholeRequest {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(context).map(|frame| match frame {
            None if !self.end.is_said() => Some(Err(io::Error::other("the request was broken off"))),
            frame => frame.map(|frame| frame.map_err(|status: Status| io::Error::other(status))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.end.is_said() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, StreamBody};

    #[tokio::test]
    async fn a_body_breaks_off_unless_its_end_was_said() {
        for is_said in [false, true] {
            let end = BodyEnd::default();
            let pieces = ["a", "b"].map(|piece| Ok::<_, Status>(Frame::data(Bytes::from_static(piece.as_bytes()))));
            let body = tonic::body::Body::new(StreamBody::new(futures::stream::iter(pieces)));
            let mut body = WholeRequest::new(body, end.clone());
            for piece in ["a", "b"] {
                assert!(!body.is_end_stream());
                assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), piece.as_bytes());
            }
            if is_said {
                end.say();
            }
            assert_eq!(body.frame().await.map(|frame| frame.is_err()), (!is_said).then_some(true));
        }
    }
}
