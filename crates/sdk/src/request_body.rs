//! The messages of a call, with an end that can be trusted.
//!
//! The library of the protocol takes a call that its client has broken off for one whose messages have ended, and half an object for a
//! whole one.

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::{Code, Status};

/// Lets a call that is broken off end with an error.
pub(crate) fn trusted(request: Request<Body>) -> Request<Body> {
    request.map(|body| Body::new(Trusted { body }))
}

struct Trusted {
    body: Body,
}

impl http_body::Body for Trusted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let body = &mut self.get_mut().body;
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        Poll::Ready(match frame {
            Some(Err(status)) if status.code() == Code::Cancelled => Some(Err(broken_off())),
            None if !http_body::Body::is_end_stream(body) => Some(Err(broken_off())),
            frame => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

fn broken_off() -> Status {
    // Any code but `Cancelled`, which would be passed over.
    Status::aborted("it has broken the call off")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use http_body::SizeHint;
    use std::collections::VecDeque;
    use std::future::poll_fn;

    /// Gives these frames; then it is at its end, or not.
    struct Frames(VecDeque<Result<&'static str, Status>>, bool);

    impl http_body::Body for Frames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|frame| frame.map(|text| Frame::data(Bytes::from(text)))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty() && self.1
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::default()
        }
    }

    /// Reads such a body; gives the texts of its frames.
    async fn read(frames: Vec<Result<&'static str, Status>>, is_ended: bool) -> Vec<Result<String, (Code, String)>> {
        let body = trusted(Request::new(Body::new(Frames(frames.into(), is_ended)))).into_body();
        let next = |mut body: Body| async {
            let frame = poll_fn(|context| http_body::Body::poll_frame(Pin::new(&mut body), context)).await?;
            let text = |frame: Frame<Bytes>| String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
            let is_last = frame.is_err();
            let frame = frame.map(text).map_err(|status| (status.code(), status.message().to_owned()));
            Some((frame, if is_last { Body::empty() } else { body }))
        };
        futures::StreamExt::collect(stream::unfold(body, next)).await
    }

    #[tokio::test]
    async fn only_an_end_is_an_end() {
        let broken = || Err((Code::Aborted, "it has broken the call off".to_owned()));
        let x = || Ok("x".to_owned());
        assert_eq!(read(vec![Ok("x")], true).await, [x()]);
        assert_eq!(read(vec![Ok("x")], false).await, [x(), broken()]);
        assert_eq!(read(vec![Ok("x"), Err(Status::cancelled("reset"))], true).await, [x(), broken()]);
        let lost = || Err((Code::Unknown, "lost".to_owned()));
        assert_eq!(read(vec![Ok("x"), Err(Status::unknown("lost"))], true).await, [x(), lost()]);
        assert_eq!(read(vec![], true).await, []);
    }
}
