//! Amazon S3 and what speaks its protocol.

use crate::provider::{Provider, ProviderSettings};
use crate::url::{UrlBucket, UrlError};
use async_trait::async_trait;
use lifeboat_api::BackupStorageLocation;
use lifeboat_bucket::{BlobStore, BucketError, Prefixed, StorageAccess};
use lifeboat_s3::{CredentialsFile, S3, S3Config, credentials_file, percent_decoded};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Amazon S3, under the name of Velero's plugin.
#[derive(Debug)]
pub(crate) struct S3Provider;

#[async_trait]
impl Provider for S3Provider {
    fn names(&self) -> &'static [&'static str] {
        &["velero.io/aws", "aws"]
    }

    fn config_keys(&self) -> &'static [&'static str] {
        &S3Config::LOCATION_KEYS
    }

    fn url_schemes(&self) -> &'static [&'static str] {
        &["s3"]
    }

    fn url_forms(&self) -> &'static str {
        "s3://bucket/prefix?region=REGION&endpoint=URL"
    }

    fn parse_url(&self, _: &str, rest: &str) -> Result<Box<dyn UrlBucket>, UrlError> {
        Ok(Box::new(parse(rest)?))
    }

    fn check(&self, location: &BackupStorageLocation) -> Result<(), String> {
        config(location).map(drop)
    }

    async fn open(
        &self,
        location: &BackupStorageLocation,
        access: StorageAccess,
        settings: &ProviderSettings,
    ) -> Result<Arc<dyn BlobStore>, String> {
        let mut config = config(location)?;
        config.patience = Some(settings.patience);
        if let Some(pem) = access.ca_bundle {
            config.ca_bundle = Some(pem);
        }
        if let Some(secret) = access.credentials {
            let no_text = |_| "the Secret with the credentials of the location is no text".to_owned();
            let text = String::from_utf8(secret).map_err(no_text)?;
            config.credentials_file = Some(CredentialsFile::Text(text));
        }
        Ok(Arc::new(S3::connect(config).await.map_err(|e| e.to_string())?))
    }
}

fn config(location: &BackupStorageLocation) -> Result<S3Config, String> {
    S3Config::from_velero(&location.spec.object_storage.bucket, &location.spec.config)
}

/// A bucket, and what all keys in it begin with: nothing, or a text that ends with one slash.
#[derive(Debug, PartialEq, Eq)]
struct S3Url {
    config: S3Config,
    prefix: String,
}

#[async_trait]
impl UrlBucket for S3Url {
    async fn open(&self, patience: Duration) -> Result<Arc<dyn BlobStore>, BucketError> {
        let config = S3Config { patience: Some(patience), ..self.config.clone() };
        let store = Arc::new(S3::connect(config).await?);
        Ok(match self.prefix.as_str() {
            "" => store,
            prefix => Arc::new(Prefixed::new(store, prefix)),
        })
    }

    async fn files(&self) -> Result<BTreeMap<&'static str, Vec<u8>>, String> {
        let credentials = credentials_file(&self.config).await;
        let credentials = credentials.map_err(|e| format!("find the credentials of the bucket: {e}"))?;
        let credentials = credentials.map(|text| ("credentialsFile", text.into_bytes()));
        Ok(credentials.into_iter().chain(self.config.ca_bundle.clone().map(|pem| ("caFile", pem))).collect())
    }
}

/// `bucket/prefix?key=value&key=value`; `%` signs as in every URL, `+` is a plus.
fn parse(rest: &str) -> Result<S3Url, UrlError> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.contains('@') {
        return Err(UrlError::new(
            "an s3:// URL must not hold credentials; use the AWS environment, or ?profile= or ?credentialsFile=",
        ));
    }
    let wrong = |why: String| UrlError::of(&format!("s3://{bucket}"), &why);
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
    Ok(S3Url { config, prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_give_bucket_prefix_and_settings() {
        let s3 = |bucket: &str, prefix: &str, config: S3Config| S3Url {
            config: S3Config { bucket: bucket.to_owned(), ..config },
            prefix: prefix.to_owned(),
        };
        let plain = || S3Config { checksum_algorithm: Some("CRC32".to_owned()), ..S3Config::default() };
        let full = S3Config {
            region: Some("eu-west-1".to_owned()),
            endpoint: Some("https://host:9000".to_owned()),
            tagging: Some("a=b&c=d+e".to_owned()),
            ..S3Config::default()
        };
        let table = [
            ("b", s3("b", "", plain())),
            ("b/", s3("b", "", plain())),
            ("b//", s3("b", "", plain())),
            ("b/p", s3("b", "p/", plain())),
            ("b//p/q//", s3("b", "p/q/", plain())),
            ("b/a%20b%2fc/?", s3("b", "a b/c/", plain())),
            ("b/p?region=eu-west-1&endpoint=https%3A%2F%2Fhost:9000&tagging=a=b%26c=d+e", s3("b", "p/", full.clone())),
            ("b?region=eu-west-1&endpoint=https://host:9000/&&tagging=a=b%26c=d+e", s3("b", "", full)),
        ];
        for (rest, expected) in table {
            assert_eq!(parse(rest).unwrap(), expected, "s3://{rest}");
        }
    }
}
