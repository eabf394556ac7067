//! URLs that name buckets.

use crate::provider::built_in;
use async_trait::async_trait;
use lifeboat_bucket::BlobStore;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A bucket that a URL names, or a part of it.
#[async_trait]
pub trait UrlBucket: Debug + Send + Sync {
    /// The directory, where the URL names one of this machine.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// Opens the bucket as it is. A directory is made when it is missing. One request may take `patience`, with all attempts
    /// that the client makes by itself; whole calls are not repeated.
    ///
    /// # Errors
    /// A message for people that says why it cannot be opened.
    async fn open(&self, patience: Duration) -> Result<Arc<dyn BlobStore>, String>;
}

/// A URL that names no bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag}{text}")]
pub struct UrlError {
    /// The flag that has the URL.
    flag: String,
    /// The message after the name of the flag.
    text: String,
}

impl UrlError {
    /// Of a URL that is not repeated, because it may hold a secret.
    pub(crate) fn new(why: &str) -> Self {
        Self { flag: String::new(), text: format!(": {why}") }
    }

    /// Of a URL of which this much is repeated.
    pub(crate) fn of(url: &str, why: &str) -> Self {
        Self { flag: String::new(), text: format!(" {url}: {why}") }
    }
}

/// Parses the URL of a flag, which errors name.
///
/// # Errors
/// When no built-in provider has such URLs, or this one is broken. Secrets in it are not repeated.
pub fn parse_url(flag: &str, url: &str) -> Result<Box<dyn UrlBucket>, UrlError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let provider = built_in().into_iter().find(|provider| provider.url_schemes().contains(&scheme));
    let parsed = match provider {
        _ if url.is_empty() => Err(UrlError { flag: String::new(), text: format!(" is empty; {}", forms()) }),
        Some(provider) => provider.parse_url(scheme, rest),
        None => Err(UrlError::new(&format!("{scheme}:// is not known; {}", forms()))),
    };
    parsed.map_err(|error| UrlError { flag: flag.to_owned(), ..error })
}

/// The forms of all URLs, as a hint in messages.
fn forms() -> String {
    let forms: Vec<&str> = built_in().iter().rev().map(|provider| provider.url_forms()).collect();
    format!("use {}", forms.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_name_no_bucket_are_refused_with_the_right_form() {
        let table = [
            ("", "--bucket is empty; use a directory, "),
            ("gs://b", "--bucket: gs:// is not known; use a directory, file:///directory or s3://bucket/prefix?"),
            ("file://srv", "--bucket file://srv: write an absolute path"),
            ("s3://", "--bucket s3://: the name of the bucket is missing"),
            ("s3:///p", "--bucket s3://: the name of the bucket is missing"),
            ("s3://key:secret@b/p", "--bucket: an s3:// URL must not hold credentials;"),
            ("s3://b/p#q", "--bucket s3://b: write # as %23"),
            ("s3://b/p%", "--bucket s3://b: the prefix has a broken % sign"),
            ("s3://b/%ff", "--bucket s3://b: the prefix has a broken % sign"),
            ("s3://b?region=%4", "--bucket s3://b: the value of region has a broken % sign"),
            ("s3://b?zone=x", r#"--bucket s3://b: "zone" is not known; valid are region, endpoint,"#),
            ("s3://b?region", "--bucket s3://b: region has no value"),
            ("s3://b?endpoint=host:9000", r#"--bucket s3://b: endpoint "host:9000" must begin with http://"#),
        ];
        for (url, expected) in table {
            for flag in ["--bucket", "--repo"] {
                let message = parse_url(flag, url).unwrap_err().to_string();
                assert!(message.starts_with(&expected.replace("--bucket", flag)), "{url}: {message}");
                assert!(!message.contains("secret@"), "{message}");
            }
        }
    }

    #[test]
    fn directories_are_paths_with_and_without_a_scheme() {
        for (url, expected) in [
            ("some/dir", Some("some/dir")),
            ("/srv/bucket", Some("/srv/bucket")),
            ("file:///srv/bucket", Some("/srv/bucket")),
            ("s3://b/p", None),
        ] {
            assert_eq!(parse_url("--bucket", url).unwrap().directory(), expected.map(Path::new), "{url}");
        }
    }
}
