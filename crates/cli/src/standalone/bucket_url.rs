//! `--bucket` and `--repo`: a directory or a bucket of a provider.

use crate::standalone::directory_bucket;
use anyhow::{Context, Result, anyhow, bail};
use lifeboat_bucket::{BlobStore, Directory, Memory, Prefixed, Retried};
use lifeboat_s3::{S3, S3Config, percent_decoded};
use lifeboat_store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Supported forms of a bucket URL, as a hint in errors.
const FORMS: &str = "use a directory, file:///directory or s3://bucket/prefix?region=REGION&endpoint=URL";

/// The parsed location of a bucket.
#[derive(Debug, PartialEq, Eq)]
enum BucketLocation {
    Directory(String),
    /// A bucket, and what all keys in it begin with: nothing, or a text that ends with one slash.
    S3(Box<S3Config>, String),
}

/// The purpose for which a bucket is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
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
pub(crate) async fn open(url: &str, purpose: Purpose, patience: Duration) -> Result<Store> {
    let store: Arc<dyn BlobStore> = match parse("--bucket", url)? {
        BucketLocation::Directory(path) if purpose != Purpose::Write && !Path::new(&path).exists() => match purpose {
            Purpose::Preview => Arc::new(Memory::default()),
            _ => bail!("open the bucket {url}: there is no directory {path}; look at --bucket"),
        },
        BucketLocation::Directory(path) => {
            directory_bucket::open(Path::new(&path)).await.with_context(|| format!("open the bucket {url}"))?
        }
        BucketLocation::S3(config, prefix) => open_s3(*config, prefix, patience).await?,
    };
    Ok(Store::new(store).with_patience(patience))
}

/// Opens what lies behind the URL of a flag as it is: a directory is neither made nor marked. Calls that fail for a reason that
/// can pass are repeated for `patience`.
///
/// # Errors
/// When the URL is of no known form, the directory is not there or the bucket cannot be opened.
pub(crate) async fn open_existing(flag: &str, url: &str, patience: Duration) -> Result<Arc<dyn BlobStore>> {
    match parse(flag, url)? {
        BucketLocation::Directory(path) if !Path::new(&path).is_dir() => {
            bail!("open {url}: there is no directory {path}; look at {flag}")
        }
        location => open_as_it_is(url, location, patience).await,
    }
}

/// Opens what lies behind a URL as [`open_existing`] does, to put something new there: a directory is made when it is missing.
///
/// # Errors
/// When the URL is of no known form, or what it names cannot be made or opened.
pub(crate) async fn open_to_make(flag: &str, url: &str, patience: Duration) -> Result<Arc<dyn BlobStore>> {
    open_as_it_is(url, parse(flag, url)?, patience).await
}

async fn open_as_it_is(url: &str, location: BucketLocation, patience: Duration) -> Result<Arc<dyn BlobStore>> {
    let store: Arc<dyn BlobStore> = match location {
        BucketLocation::Directory(path) => {
            Arc::new(Directory::open(Path::new(&path)).with_context(|| format!("open {url}"))?)
        }
        BucketLocation::S3(config, prefix) => open_s3(*config, prefix, patience).await?,
    };
    Ok(Arc::new(Retried::new(store, patience)))
}

/// True where the URL of a flag names a directory.
///
/// # Errors
/// When it is of no known form.
pub(crate) fn is_directory(flag: &str, url: &str) -> Result<bool> {
    Ok(matches!(parse(flag, url)?, BucketLocation::Directory(_)))
}

/// Opens the part of a bucket below this prefix.
async fn open_s3(config: S3Config, prefix: String, patience: Duration) -> Result<Arc<dyn BlobStore>> {
    let store = Arc::new(S3::connect(S3Config { patience: Some(patience), ..config }).await?);
    Ok(if prefix.is_empty() { store } else { Arc::new(Prefixed::new(store, prefix)) })
}

/// Removes, when it is dropped, the folders that opening a bucket made and that nothing was put into.
#[derive(Debug)]
pub(crate) struct EmptyFolders(Vec<PathBuf>);

impl EmptyFolders {
    /// Of the bucket that is about to be opened at this URL: its folder and those above it, as far as they are not there.
    pub(crate) fn of(url: &str) -> Self {
        let Ok(BucketLocation::Directory(path)) = parse("", url) else { return Self(Vec::new()) };
        let missing = Path::new(&path).ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
        Self(missing.map(Path::to_path_buf).collect())
    }
}

impl Drop for EmptyFolders {
    fn drop(&mut self) {
        // A folder that holds something is not removed, nor what is above it.
        let _ = self.0.iter().try_for_each(std::fs::remove_dir);
    }
}

/// Parses the URL of a flag, which errors name.
fn parse(flag: &str, url: &str) -> Result<BucketLocation> {
    let path = match url.split_once("://") {
        Some(("s3", rest)) => return parse_s3(flag, rest),
        Some(("file", path)) if path.starts_with('/') => path,
        Some(("file", _)) => bail!("{flag} {url}: write an absolute path after file://, such as file:///srv/bucket"),
        Some((scheme, _)) => bail!("{flag}: {scheme}:// is not known; {FORMS}"),
        None if url.is_empty() => bail!("{flag} is empty; {FORMS}"),
        None => url,
    };
    Ok(BucketLocation::Directory(path.to_owned()))
}

/// `bucket/prefix?key=value&key=value`; `%` signs as in every URL, `+` is a plus.
fn parse_s3(flag: &str, rest: &str) -> Result<BucketLocation> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.contains('@') {
        // Not repeated: it may hold a secret.
        bail!(
            "{flag}: an s3:// URL must not hold credentials; use the AWS environment, or ?profile= or ?credentialsFile="
        );
    }
    let wrong = |why: String| anyhow!("{flag} s3://{bucket}: {why}");
    if rest.contains('#') {
        return Err(wrong("write # as %23".to_owned()));
    }
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decoded(value).ok_or_else(|| wrong(format!("the value of {key} has a broken % sign")))?;
        pairs.push((key.to_owned(), value));
    }
    let config = S3Config::from_url_query(bucket, &pairs).map_err(wrong)?;
    let prefix = percent_decoded(prefix).ok_or_else(|| wrong("the prefix has a broken % sign".to_owned()))?;
    let prefix = match prefix.trim_matches('/') {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    };
    Ok(BucketLocation::S3(Box::new(config), prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3(bucket: &str, prefix: &str, config: S3Config) -> BucketLocation {
        BucketLocation::S3(Box::new(S3Config { bucket: bucket.to_owned(), ..config }), prefix.to_owned())
    }

    #[test]
    fn reads_every_form() {
        let directory = |path: &str| BucketLocation::Directory(path.to_owned());
        let plain = || S3Config { checksum_algorithm: Some("CRC32".to_owned()), ..S3Config::default() };
        let full = S3Config {
            region: Some("eu-west-1".to_owned()),
            endpoint: Some("https://host:9000".to_owned()),
            tagging: Some("a=b&c=d+e".to_owned()),
            ..S3Config::default()
        };
        let table = [
            ("some/dir", directory("some/dir")),
            ("/srv/bucket", directory("/srv/bucket")),
            ("file:///srv/bucket", directory("/srv/bucket")),
            ("s3://b", s3("b", "", plain())),
            ("s3://b/", s3("b", "", plain())),
            ("s3://b//", s3("b", "", plain())),
            ("s3://b/p", s3("b", "p/", plain())),
            ("s3://b//p/q//", s3("b", "p/q/", plain())),
            ("s3://b/a%20b%2fc/?", s3("b", "a b/c/", plain())),
            (
                "s3://b/p?region=eu-west-1&endpoint=https%3A%2F%2Fhost:9000&tagging=a=b%26c=d+e",
                s3("b", "p/", full.clone()),
            ),
            ("s3://b?region=eu-west-1&endpoint=https://host:9000/&&tagging=a=b%26c=d+e", s3("b", "", full)),
        ];
        for (url, expected) in table {
            assert_eq!(parse("--bucket", url).unwrap(), expected, "{url}");
        }
    }

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

    #[test]
    fn refuses_the_rest_and_says_how_to_write_it() {
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
                let message = parse(flag, url).unwrap_err().to_string();
                assert!(message.starts_with(&expected.replace("--bucket", flag)), "{url}: {message}");
                assert!(!message.contains("secret@"), "{message}");
            }
        }
    }
}
