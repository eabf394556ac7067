//! Bodies of requests and answers on their way.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

/// A body that is passed on, or made here.
pub(super) type Stream = UnsyncBoxBody<Bytes, std::io::Error>;

/// A body passed on as it comes.
pub(super) fn whole(body: Incoming) -> Stream {
    body.map_err(std::io::Error::other).boxed_unsync()
}

/// A body of these bytes.
pub(super) fn full(bytes: Bytes) -> Stream {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
