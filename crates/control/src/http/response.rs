//! Answers to HTTP requests.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use lifeboat_bucket::BucketError;
use std::convert::Infallible;

pub(crate) type HttpResponse = Response<UnsyncBoxBody<Bytes, BucketError>>;

/// An answer of plain text.
pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
