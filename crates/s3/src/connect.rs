//! From a configuration to a client.

use crate::S3Config;
use crate::error::Failures;
use crate::trust;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Builder, RequestChecksumCalculation, ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use lifeboat_bucket::{BucketError, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// Most attempts of one request; whoever uses the store repeats whole calls.
const ATTEMPTS: u32 = 3;
/// For one attempt of a request that carries no object.
pub(crate) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// The client, one for URLs that others use, and what errors say.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) public: Client,
    pub(crate) failures: Failures,
}

impl Connection {
    pub(crate) async fn open(config: &S3Config) -> Result<Self, BucketError> {
        let mut failures = Failures {
            bucket: config.bucket.clone(),
            store: describe(&config.bucket, config.endpoint.as_deref()),
            region: String::new(),
        };
        let invalid = |message: String| failures.own(ErrorKind::Invalid, "open", &config.bucket, message);
        let ambient = ambient(config).await.map_err(&invalid)?;
        let endpoint = config.endpoint.as_deref().or(ambient.endpoint_url());
        let mut builder = settings(config, &ambient, endpoint).map_err(&invalid)?;
        failures.store = describe(&config.bucket, endpoint);
        let hint = ambient.region().map_or_else(|| "us-east-1".to_owned(), ToString::to_string);
        failures.region = match &config.region {
            Some(region) => region.clone(),
            None => {
                let client = Client::from_conf(builder.clone().region(Region::new(hint.clone())).build());
                failures.region.clone_from(&hint);
                find_region(&client, &failures).await?.unwrap_or(hint)
            }
        };
        builder = builder.region(Region::new(failures.region.clone()));
        let client = Client::from_conf(builder.clone().build());
        let public = match &config.public_endpoint {
            Some(endpoint) => {
                let path_style = config.force_path_style.unwrap_or(true);
                Client::from_conf(builder.endpoint_url(endpoint).force_path_style(path_style).build())
            }
            None => client.clone(),
        };
        Ok(Self { client, public, failures })
    }
}

fn describe(bucket: &str, endpoint: Option<&str>) -> String {
    match endpoint {
        Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
        None => format!("s3://{bucket}"),
    }
}

/// What environment, files and machine say. Requests for credentials go through a client of their own that always
/// verifies whom it talks to.
async fn ambient(config: &S3Config) -> Result<SdkConfig, String> {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts(ATTEMPT_TIMEOUT));
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(profile) = &config.profile {
        loader = loader.profile_name(profile);
    }
    if config.profile.is_some() || config.credentials_file.is_some() {
        let mut provider = ProfileFileCredentialsProvider::builder();
        let region = Region::new(config.region.clone().unwrap_or_else(|| "us-east-1".to_owned()));
        provider = provider.configure(&ProviderConfig::default().with_region(Some(region)));
        if let Some(profile) = &config.profile {
            provider = provider.profile_name(profile);
        } else {
            // Not AWS_PROFILE: it speaks of other files.
            provider = provider.profile_name("default");
        }
        if let Some(file) = &config.credentials_file {
            check_readable(file).await?;
            let files = EnvConfigFiles::builder().with_file(EnvConfigFileKind::Credentials, file).build();
            provider = provider.profile_files(files);
        }
        loader = loader.credentials_provider(provider.build());
    }
    Ok(loader.load().await)
}

/// The SDK takes a missing file for an empty one.
async fn check_readable(file: &Path) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("cannot read the credentials file {}: {e}", file.display());
    tokio::fs::read(file).await.map(drop).map_err(wrong)
}

fn settings(config: &S3Config, ambient: &SdkConfig, endpoint: Option<&str>) -> Result<Builder, String> {
    let mut builder = Builder::from(ambient)
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS).with_max_backoff(Duration::from_secs(5)))
        .timeout_config(timeouts(ATTEMPT_TIMEOUT))
        // Many servers refuse checksums that the protocol does not require. The one of the configuration travels as a
        // header: bodies are in memory. Left at "when required", the SDK would announce but not send it.
        .request_checksum_calculation(match config.checksum_algorithm {
            Some(_) => RequestChecksumCalculation::WhenSupported,
            None => RequestChecksumCalculation::WhenRequired,
        })
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        // The default of five seconds ends transfers over slow links.
        .stalled_stream_protection(
            StalledStreamProtectionConfig::enabled().grace_period(Duration::from_secs(60)).build(),
        );
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint_url(endpoint);
    }
    builder = builder.force_path_style(config.force_path_style.unwrap_or(endpoint.is_some()));
    if config.insecure_skip_tls_verify {
        builder = builder.http_client(trust::unverified()?);
    } else if let Some(pem) = &config.ca_bundle {
        builder = builder.http_client(trust::trusting(pem)?);
    }
    Ok(builder)
}

/// Limits of one attempt. There is none for the whole call: attempts and pauses are bounded.
pub(crate) fn timeouts(attempt: Duration) -> TimeoutConfig {
    TimeoutConfig::builder().connect_timeout(Duration::from_secs(10)).operation_attempt_timeout(attempt).build()
}

/// The region of the bucket as the server tells it; none when it does not.
async fn find_region(client: &Client, failures: &Failures) -> Result<Option<String>, BucketError> {
    match client.head_bucket().bucket(&failures.bucket).send().await {
        Ok(found) => Ok(found.bucket_region().filter(|r| !r.is_empty()).map(str::to_owned)),
        Err(error) => {
            // Answers to a request for the wrong region say the right one, and answers to the unentitled too.
            let told = error.raw_response().and_then(|r| r.headers().get("x-amz-bucket-region")).map(str::to_owned);
            match (told, error.raw_response().map(|r| r.status().as_u16())) {
                (Some(region), _) => Ok(Some(region)),
                (None, Some(404)) => {
                    let message = format!("the bucket {:?} does not exist", failures.bucket);
                    Err(failures.own(ErrorKind::NotFound, "open", &failures.bucket, message))
                }
                // Not entitled to ask: perhaps to write. The first request that needs the region will tell.
                (None, Some(300..=499)) => Ok(None),
                _ => Err(failures.of("open", &failures.bucket, error)),
            }
        }
    }
}
