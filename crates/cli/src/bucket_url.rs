//! `--bucket`: a directory or a bucket of a provider.

use anyhow::{Context, Result, bail};
use lifeboat_bucket::Directory;
use lifeboat_store::Store;
use std::sync::Arc;

/// Opens the store behind a URL: `file:///dir` or a bare path.
///
/// # Errors
/// When the URL is of no known form or the bucket cannot be opened.
pub(crate) fn open(url: &str) -> Result<Store> {
    let path = match url.split_once("://") {
        Some(("file", path)) if path.starts_with('/') => path,
        Some(("file", _)) => bail!("--bucket {url}: write an absolute path after file://, such as file:///srv/bucket"),
        Some((scheme, _)) => bail!("--bucket {url}: {scheme}:// is not known; use a directory or file:///directory"),
        None if url.is_empty() => bail!("--bucket is empty: give a directory or file:///directory"),
        None => url,
    };
    let directory = Directory::open(path).with_context(|| format!("open the bucket {url}"))?;
    Ok(Store::new(Arc::new(directory)))
}
