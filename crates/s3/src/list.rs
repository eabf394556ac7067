//! Listings, of objects and of open uploads.

use crate::error::Failures;
use crate::percent::percent_decoded;
use aws_sdk_s3::Client;
use aws_sdk_s3::types::EncodingType;
use lifeboat_bucket::{BucketError, Entry, ErrorKind, ListOptions, Listed, Page};
use std::time::{Duration, SystemTime};

/// Reads one page of keys.
pub(crate) async fn page(client: &Client, failures: &Failures, options: ListOptions) -> Result<Page, BucketError> {
    let page_size = i32::try_from(options.page_size.min(1000)).ok().filter(|size| *size > 0);
    let answer = client
        .list_objects_v2()
        .bucket(&failures.bucket)
        .prefix(&options.prefix)
        .set_delimiter(options.delimiter)
        .set_max_keys(page_size)
        .set_continuation_token(options.continuation)
        // XML cannot hold every key.
        .encoding_type(EncodingType::Url)
        .send()
        .await
        .map_err(|e| failures.of("list", &options.prefix, e))?;
    let encoded = answer.encoding_type() == Some(&EncodingType::Url);
    let key = |text: Option<&str>| {
        let text = text.unwrap_or_default();
        let key = if encoded { decode(text) } else { Some(text.to_owned()) };
        key.ok_or_else(|| failures.own(ErrorKind::Other, "list", text, "the server sent a key that is no text"))
    };
    let mut entries = Vec::with_capacity(answer.contents().len() + answer.common_prefixes().len());
    let objects = if options.prefixes_only { &[] } else { answer.contents() };
    for object in objects {
        entries.push(Entry::Object(Listed {
            key: key(object.key())?,
            size: object.size().and_then(|size| u64::try_from(size).ok()),
            modified: object.last_modified().and_then(|at| SystemTime::try_from(*at).ok()),
        }));
    }
    for prefix in answer.common_prefixes() {
        entries.push(Entry::Prefix(key(prefix.prefix())?));
    }
    entries.sort_by(|a, b| name(a).cmp(name(b)));
    let continuation = match (answer.is_truncated(), answer.next_continuation_token()) {
        (Some(true), None) => {
            let message = "the server cut the listing short without saying how to go on";
            return Err(failures.own(ErrorKind::Other, "list", &options.prefix, message));
        }
        (Some(true), Some(token)) => Some(token.to_owned()),
        _ => None,
    };
    Ok(Page { entries, continuation })
}

fn name(entry: &Entry) -> &str {
    match entry {
        Entry::Object(info) => &info.key,
        Entry::Prefix(prefix) => prefix,
    }
}

/// Decodes a key of a listing in URL encoding, which has percent signs, and `+` for a blank.
fn decode(text: &str) -> Option<String> {
    percent_decoded(&text.replace('+', " "))
}

/// An upload that was begun and neither completed nor aborted.
pub(crate) struct OpenUpload {
    pub(crate) key: String,
    pub(crate) id: String,
}

/// Lists open uploads below a prefix that were begun at least `age` ago by the clock of this machine.
pub(crate) async fn open_uploads(
    client: &Client,
    failures: &Failures,
    prefix: &str,
    age: Duration,
) -> Result<Vec<OpenUpload>, BucketError> {
    let mut out = Vec::new();
    let (mut key_marker, mut id_marker) = (None, None);
    loop {
        let answer = client
            .list_multipart_uploads()
            .bucket(&failures.bucket)
            .prefix(prefix)
            .set_key_marker(key_marker)
            .set_upload_id_marker(id_marker)
            .send()
            .await
            .map_err(|e| failures.of("sweep", prefix, e))?;
        for upload in answer.uploads() {
            let (Some(key), Some(id)) = (upload.key(), upload.upload_id()) else { continue };
            let begun = upload.initiated().and_then(|at| SystemTime::try_from(*at).ok());
            let old = age.is_zero() || begun.is_some_and(|at| at.elapsed().is_ok_and(|passed| passed >= age));
            // Not every server heeds the prefix.
            if old && key.starts_with(prefix) {
                out.push(OpenUpload { key: key.to_owned(), id: id.to_owned() });
            }
        }
        if answer.is_truncated() != Some(true) {
            return Ok(out);
        }
        let next = (answer.next_key_marker().map(str::to_owned), answer.next_upload_id_marker().map(str::to_owned));
        if next.0.is_none() {
            let message = "the server cut the listing of uploads short without saying how to go on";
            return Err(failures.own(ErrorKind::Other, "sweep", prefix, message));
        }
        (key_marker, id_marker) = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_keys() {
        let table = [
            ("a/b", Some("a/b")),
            ("a+b%2Bc%20d", Some("a b+c d")),
            ("%e6%BC%A2", Some("漢")),
            ("%01", Some("\u{1}")),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%ff", None),
        ];
        for (text, expected) in table {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }
}
