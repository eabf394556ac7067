//! OpenAPI v2, as kubectl asks for it before it sends a `kind: List` or validates by itself: a document without schemas, with which
//! it leaves the validation to this server.

use crate::encoding::error::ApiError;
use crate::encoding::render::Accept;
use crate::encoding::response::{HandlerResult, answer, json_answer};
use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

/// Media types by which a client asks for the document in protocol buffers; the first name is the older one.
const ASKED: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
const TITLE: &str = "Kubernetes";
const VERSION: &str = "unversioned";

/// Answers `/openapi/v2` in the first form that the `Accept` header admits.
pub(crate) fn open_api_v2(accept: &str) -> HandlerResult {
    let first = accept.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
    let admits_json = |media: &str| Accept::parse(media).is_some();
    match first.into_iter().find(|media| ASKED.contains(media) || admits_json(media)) {
        Some(media) if ASKED.contains(&media) => Ok(answer(StatusCode::OK, ASKED[1], protobuf())),
        Some(_) => {
            let info = json!({"title": TITLE, "version": VERSION});
            Ok(json_answer(StatusCode::OK, &json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})))
        }
        None => Err(ApiError::new(
            406,
            "NotAcceptable",
            format!("OpenAPI v2 is answered as application/json and as {}, and the request accepts neither", ASKED[1]),
        )),
    }
}

/// The document in protocol buffers: `swagger` (1) and `info` (2) with `title` (1) and `version` (2).
fn protobuf() -> Bytes {
    let info = [field(1, TITLE.as_bytes()), field(2, VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info)].concat().into()
}

/// A field of bytes. They are few, so that their number is one byte.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap_or_default();
    [&[number << 3 | 2, length], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_first_that_is_admitted() {
        let form = |accept: &str| match open_api_v2(accept) {
            Ok(answer) => answer.headers()["content-type"].to_str().unwrap().to_owned(),
            Err(error) => error.code.to_string(),
        };
        for (accept, expected) in [
            (ASKED[0], ASKED[1]),
            (ASKED[1], ASKED[1]),
            ("", "application/json"),
            ("application/json, */*", "application/json"),
            (&*format!("text/plain, {}", ASKED[0]), ASKED[1]),
            ("text/plain", "406"),
        ] {
            assert_eq!(form(accept), expected, "{accept}");
        }
        assert_eq!(protobuf(), &b"\x0a\x032.0\x12\x19\x0a\x0aKubernetes\x12\x0bunversioned"[..]);
    }
}
