//! `--bucket` and `--repo`: a directory or a bucket of a provider.

use crate::directory_bucket;
use anyhow::{Context, Result, bail};
use lifeboat_bucket::{BlobStore, Memory, Retried};
use lifeboat_provider::{UrlBucket, parse_url};
use lifeboat_store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The purpose for which a bucket is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To write: a directory that is not there is made.
    Write,
    /// To read: a directory must be there.
    Read,
    /// To see what a write would find: a directory that is not there is an empty bucket.
    Preview,
}

/// Opens the store behind a URL: `file:///dir`, a bare path, or `s3://bucket/prefix?region=…&endpoint=…`. One request of it
/// may take `patience`, all attempts together.
///
/// Credentials for a bucket come from the sources of AWS: environment, profiles and files, machine; or only from the
/// `profile=` and `credentialsFile=` of the URL.
///
/// # Errors
/// When the URL is of no known form or the bucket cannot be opened.
pub async fn open(url: &str, purpose: Purpose, patience: Duration) -> Result<Store> {
    let bucket = parse_url("--bucket", url)?;
    let attempted = || format!("open the bucket {url}");
    let store: Arc<dyn BlobStore> = match bucket.directory() {
        Some(path) if purpose != Purpose::Write && !path.exists() => match purpose {
            Purpose::Preview => Arc::new(Memory::default()),
            _ => bail!("open the bucket {url}: there is no directory {}; look at --bucket", path.display()),
        },
        Some(path) => directory_bucket::open(path).await.with_context(attempted)?,
        None => bucket.open(patience).await?,
    };
    Ok(Store::new(store).with_patience(patience))
}

/// Opens what lies behind the URL of a flag as it is: a directory is neither made nor marked. Calls that fail for a reason that
/// can pass are repeated for `patience`.
///
/// # Errors
/// When the URL is of no known form, the directory is not there or the bucket cannot be opened.
pub async fn open_existing(flag: &str, url: &str, patience: Duration) -> Result<Arc<dyn BlobStore>> {
    let bucket = parse_url(flag, url)?;
    match bucket.directory() {
        Some(path) if !path.is_dir() => bail!("open {url}: there is no directory {}; look at {flag}", path.display()),
        _ => open_as_it_is(url, &*bucket, patience).await,
    }
}

/// Opens what lies behind a URL as [`open_existing`] does, to put something new there: a directory is made when it is missing.
///
/// # Errors
/// When the URL is of no known form, or what it names cannot be made or opened.
pub async fn open_to_make(flag: &str, url: &str, patience: Duration) -> Result<Arc<dyn BlobStore>> {
    open_as_it_is(url, &*parse_url(flag, url)?, patience).await
}

async fn open_as_it_is(url: &str, bucket: &dyn UrlBucket, patience: Duration) -> Result<Arc<dyn BlobStore>> {
    let opened = bucket.open(patience).await;
    let store = match bucket.directory() {
        Some(_) => opened.with_context(|| format!("open {url}"))?,
        None => opened?,
    };
    Ok(Arc::new(Retried::new(store, patience)))
}

/// True where the URL of a flag names a directory.
///
/// # Errors
/// When it is of no known form.
pub fn is_directory(flag: &str, url: &str) -> Result<bool> {
    Ok(parse_url(flag, url)?.directory().is_some())
}

/// Removes, when it is dropped, the folders that opening a bucket made and that nothing was put into.
#[derive(Debug)]
pub struct EmptyFolders(Vec<PathBuf>);

impl EmptyFolders {
    /// Of the bucket that is about to be opened at this URL: its folder and those above it, as far as they are not there.
    pub fn of(url: &str) -> Self {
        let Ok(bucket) = parse_url("", url) else { return Self(Vec::new()) };
        let Some(path) = bucket.directory() else { return Self(Vec::new()) };
        let missing = path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        Self(missing.map(Path::to_path_buf).collect())
    }
}

impl Drop for EmptyFolders {
    fn drop(&mut self) {
        // A folder that holds something is not removed, nor what is above it.
        let _ = self.0.iter().try_for_each(std::fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bucket_that_nothing_was_put_into_leaves_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let bucket = folder.path().join("a/b");
        let url = bucket.display().to_string();
        let opened = || async {
            let made = EmptyFolders::of(&url);
            open(&url, Purpose::Write, Duration::from_secs(1)).await.unwrap();
            made
        };
        drop(opened().await);
        assert!(!folder.path().join("a").exists());
        let made = opened().await;
        std::fs::write(bucket.join("file"), "").unwrap();
        drop(made);
        assert!(bucket.join("file").exists());
        std::fs::remove_file(bucket.join("file")).unwrap();
        drop(opened().await);
        assert!(bucket.exists(), "it was there before");
    }
}
