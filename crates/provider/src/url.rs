//! URLs that name buckets.

use async_trait::async_trait;
use lifeboat_bucket::{BlobStore, BucketError};
use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter, Result as FmtResult};
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
    /// The errors of the provider.
    async fn open(&self, patience: Duration) -> Result<Arc<dyn BlobStore>, BucketError>;

    /// The files with which another machine opens the bucket, such as credentials, by the key of the URL that names each.
    ///
    /// # Errors
    /// The reason why they cannot be had, or no other machine can open it.
    async fn files(&self) -> Result<BTreeMap<&'static str, Vec<u8>>, String>;
}

/// The keys of a URL whose values are of one machine.
const OF_ONE_MACHINE: [&str; 3] = ["profile", "credentialsFile", "caFile"];

/// A bucket as another machine opens it.
#[derive(Clone, PartialEq, Eq)]
pub struct PortableBucket {
    /// Its URL, which names the files in the folder that they are to lie in.
    pub url: String,
    /// The files, by their names.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Without the contents of the files.
impl Debug for PortableBucket {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        let files: Vec<&String> = self.files.keys().collect();
        f.debug_struct("PortableBucket").field("url", &self.url).field("files", &files).finish()
    }
}

impl PortableBucket {
    /// The bucket of this URL with these files, which are to lie in a folder.
    pub(crate) fn new(url: &str, files: BTreeMap<&'static str, Vec<u8>>, folder: &str) -> Self {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let is_kept = |pair: &&str| {
            let key = pair.split_once('=').map_or(*pair, |(key, _)| key);
            !pair.is_empty() && !OF_ONE_MACHINE.contains(&key)
        };
        let named = files.keys().map(|key| format!("{key}={folder}/{key}"));
        let pairs: Vec<String> = query.split('&').filter(is_kept).map(str::to_owned).chain(named).collect();
        let url = if pairs.is_empty() { place.to_owned() } else { format!("{place}?{}", pairs.join("&")) };
        Self { url, files: files.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect() }
    }
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

    /// Of a flag without a value, with the forms that one can have.
    pub(crate) fn empty(forms: &str) -> Self {
        Self { flag: String::new(), text: format!(" is empty; {forms}") }
    }

    /// The same, of this flag.
    pub(crate) fn of_flag(self, flag: &str) -> Self {
        Self { flag: flag.to_owned(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_for_another_machine_names_the_files_that_go_with_it() {
        let portable = |url: &str, keys: &[&'static str]| {
            let files = keys.iter().map(|key| (*key, b"secret".to_vec())).collect();
            PortableBucket::new(url, files, "/repository")
        };
        for (url, keys, expected) in [
            ("s3://b", &[][..], "s3://b"),
            ("s3://b/p?profile=x", &[], "s3://b/p"),
            (
                "s3://b/p?region=r&profile=x&endpoint=https://h:1&caFile=/etc/ca",
                &["caFile", "credentialsFile"],
                "s3://b/p?region=r&endpoint=https://h:1&caFile=/repository/caFile&credentialsFile=/repository/credentialsFile",
            ),
        ] {
            let made = portable(url, keys);
            assert_eq!(made.url, expected);
            assert_eq!(made.files.keys().collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>());
            assert!(!format!("{made:?}").contains("secret") && !format!("{made:?}").contains("115"));
        }
    }
}
