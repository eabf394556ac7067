//! The list of the providers that are built in.

use crate::directory::DirectoryProvider;
use crate::provider::{Provider, ProviderSettings};
use crate::s3::S3Provider;
use crate::url::{PortableBucket, UrlBucket, UrlError};
use lifeboat_api::BackupStorageLocation;
use lifeboat_bucket::{BlobStore, Prefixed, StorageAccess};
use std::sync::Arc;

/// The providers that are built in.
#[must_use]
pub fn built_in() -> [&'static dyn Provider; 2] {
    [&S3Provider, &DirectoryProvider]
}

/// The built-in provider of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Provider> {
    built_in().into_iter().find(|provider| provider.names().contains(&name))
}

/// All names of the built-in providers, the short ones too.
#[must_use]
pub fn names() -> Vec<&'static str> {
    built_in().into_iter().flat_map(Provider::names).copied().collect()
}

/// The full name of each built-in provider, as of a plugin.
#[must_use]
pub fn plugin_names() -> Vec<&'static str> {
    built_in().into_iter().filter_map(|provider| provider.names().first()).copied().collect()
}

/// Opens the bucket of a location below its prefix, by the built-in provider that it names. `others` says where providers are that
/// are not built in.
///
/// # Errors
/// A message for people that says why the bucket cannot be used.
pub async fn open_location(
    location: &BackupStorageLocation,
    access: StorageAccess,
    settings: &ProviderSettings,
    others: &str,
) -> Result<Arc<dyn BlobStore>, String> {
    let name = location.spec.provider.as_str();
    if name.is_empty() {
        return Err("object storage provider name must not be empty".to_owned());
    }
    let Some(provider) = find(name) else {
        let built_in = plugin_names().join(" and ");
        return Err(format!("there is no provider {name:?}: built in are {built_in}, and {others}"));
    };
    Ok(below_prefix(location, provider.open(location, access, settings).await?))
}

/// The bucket of a location below the prefix that the location gives.
#[must_use]
pub fn below_prefix(location: &BackupStorageLocation, bucket: Arc<dyn BlobStore>) -> Arc<dyn BlobStore> {
    let prefix = location.spec.object_storage.prefix.trim_matches('/');
    if prefix.is_empty() { bucket } else { Arc::new(Prefixed::new(bucket, format!("{prefix}/"))) }
}

/// Parses the URL of a flag, which errors name.
///
/// # Errors
/// When no built-in provider has such URLs, or this one is broken. Secrets in it are not repeated.
pub fn parse_url(flag: &str, url: &str) -> Result<Box<dyn UrlBucket>, UrlError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    // No scheme is another thing than an empty one, as an unset variable leaves it.
    let is_path = !url.contains("://");
    let has_scheme = |provider: &&dyn Provider| provider.url_schemes().contains(&scheme);
    let provider = built_in().into_iter().find(has_scheme).filter(|_| is_path || !scheme.is_empty());
    let parsed = match provider {
        _ if url.is_empty() => Err(UrlError::empty(&forms())),
        Some(provider) => provider.parse_url(scheme, rest),
        None => Err(UrlError::new(&format!("{scheme}:// is not known; {}", forms()))),
    };
    parsed.map_err(|error| error.of_flag(flag))
}

/// The bucket of a URL as another machine opens it that has the files of the bucket in a folder.
///
/// # Errors
/// A message for people: the URL names no bucket, or one that this machine alone has.
pub async fn portable(flag: &str, url: &str, folder: &str) -> Result<PortableBucket, String> {
    let files = parse_url(flag, url).map_err(|e| e.to_string())?.files().await;
    let files = files.map_err(|why| format!("{flag} {url}: {why}"))?;
    Ok(PortableBucket::new(url, files, folder))
}

/// The forms of all URLs, as a hint in messages.
fn forms() -> String {
    let forms: Vec<&str> = built_in().iter().rev().map(|provider| provider.url_forms()).collect();
    format!("use {}", forms.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn no_two_providers_have_a_name_or_a_scheme_in_common() {
        let all = names();
        assert_eq!(all, ["velero.io/aws", "aws", "lifeboat.io/directory"]);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let schemes: Vec<&str> = built_in().iter().flat_map(|provider| provider.url_schemes()).copied().collect();
        assert_eq!(schemes.iter().collect::<BTreeSet<_>>().len(), schemes.len());
        for provider in built_in() {
            for name in provider.names() {
                assert_eq!(find(name).unwrap().names(), provider.names());
            }
        }
        assert!(find("azure").is_none());
    }

    #[test]
    fn every_name_and_key_stands_on_the_page_of_providers() {
        let page = include_str!("../../../docs/providers.md");
        for provider in built_in() {
            for word in provider.names().iter().chain(provider.config_keys()) {
                assert!(page.contains(&format!("`{word}`")), "docs/providers.md does not tell of {word}");
            }
        }
    }

    #[test]
    fn urls_that_name_no_bucket_are_refused_with_the_right_form() {
        let table = [
            ("", "--bucket is empty; use a directory, "),
            ("://b", "--bucket: :// is not known; use a directory, "),
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
