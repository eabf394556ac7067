//! Makes HTTP answers.

use crate::encoding::error::ApiError;
use crate::store::object_store::StoreError;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::Value;

/// A body; an error in its middle breaks the connection off, so that nobody takes the half for the whole.
pub(crate) type Body = UnsyncBoxBody<Bytes, StoreError>;
/// The outcome of a request: a response, or a refusal.
pub(crate) type HandlerResult = Result<Response<Body>, ApiError>;

pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(crate) fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    answer(status, "application/json", value.to_string().into())
}

/// The answer to a request that is refused.
pub(crate) fn refuse(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_answer(code, &error.status())
}
