//! Makes a client of a configuration.

use crate::config::{CredentialsFile, S3Config};
use crate::error::Failures;
use crate::trust;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::ProvideCredentials;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Builder, RequestChecksumCalculation, ResponseChecksumValidation, StalledStreamProtectionConfig,
};
use aws_sdk_s3::error::DisplayErrorContext;
use lifeboat_bucket::{BucketError, ErrorKind, PATIENCE, retry};
use std::path::Path;
use std::time::Duration;

/// Most attempts of one call.
const ATTEMPTS: u32 = 3;
/// Time limit of one attempt of a request that carries no object, unless the user's patience is shorter.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
/// Slowest line that an object may take: 128 KiB per second.
const SLOWEST: usize = 128 << 10;

/// Time limits of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Time limit of one request, all attempts together.
    pub(crate) patience: Duration,
}

impl Times {
    fn new(config: &S3Config) -> Self {
        Self { patience: config.patience.unwrap_or(PATIENCE) }
    }

    /// Limits of one attempt that sends so many bytes.
    pub(crate) fn of(self, size: usize) -> TimeoutConfig {
        self.slow(Duration::from_secs((size / SLOWEST) as u64))
    }

    /// Limits of one attempt that may take this much longer, because of the line or the server.
    pub(crate) fn slow(self, more: Duration) -> TimeoutConfig {
        TimeoutConfig::builder()
            .connect_timeout(self.attempt().min(Duration::from_secs(10)))
            .operation_attempt_timeout(self.attempt().saturating_add(more))
            .build()
    }

    /// Time limit of one attempt of a request that carries no object. All attempts of a call, with the pauses between
    /// them, take less than the patience.
    fn attempt(self) -> Duration {
        (self.patience / 4).min(ATTEMPT_TIMEOUT)
    }

    /// The number of attempts of the client at one call. It is small, because the store's caller repeats whole calls.
    fn attempts(self) -> RetryConfig {
        let pause = (self.patience / 24).min(Duration::from_secs(1));
        RetryConfig::standard().with_max_attempts(ATTEMPTS).with_initial_backoff(pause)
    }
}

/// The client of the bucket, a client that makes URLs for others, and the maker of the bucket's errors.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) public: Client,
    pub(crate) failures: Failures,
    pub(crate) times: Times,
}

impl Connection {
    pub(crate) async fn open(config: &S3Config) -> Result<Self, BucketError> {
        let times = Times::new(config);
        let mut failures = Failures {
            bucket: config.bucket.clone(),
            store: describe(&config.bucket, config.endpoint.as_deref()),
            region: String::new(),
        };
        let invalid = |message: String| failures.own(ErrorKind::Invalid, "open", &config.bucket, message);
        let ambient = ambient(config, times).await.map_err(&invalid)?;
        let endpoint = config.endpoint.as_deref().or(ambient.endpoint_url());
        let mut builder = settings(config, &ambient, endpoint, times).map_err(&invalid)?;
        failures.store = describe(&config.bucket, endpoint);
        let hint = ambient.region().map_or_else(|| "us-east-1".to_owned(), ToString::to_string);
        failures.region = match &config.region {
            Some(region) => region.clone(),
            None => {
                let client = Client::from_conf(builder.clone().region(Region::new(hint.clone())).build());
                failures.region.clone_from(&hint);
                retry(times.patience, || find_region(&client, &failures)).await?.unwrap_or(hint)
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
        Ok(Self { client, public, failures, times })
    }
}

/// Reads the credentials of a bucket where the client finds them: the files that it names, the environment, or the machine. Gives them as a
/// credentials file; `None` where there are none.
///
/// # Errors
/// The reason why they cannot be had.
pub async fn credentials_file(config: &S3Config) -> Result<Option<String>, String> {
    let ambient = ambient(config, Times::new(config)).await?;
    let Some(provider) = ambient.credentials_provider() else { return Ok(None) };
    let found = provider.provide_credentials().await.map_err(|e| DisplayErrorContext(&e).to_string())?;
    let mut text = format!(
        "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        found.access_key_id(),
        found.secret_access_key()
    );
    if let Some(token) = found.session_token() {
        text.push_str(&format!("aws_session_token = {token}\n"));
    }
    Ok(Some(text))
}

fn describe(bucket: &str, endpoint: Option<&str>) -> String {
    match endpoint {
        Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
        None => format!("s3://{bucket}"),
    }
}

/// Reads settings and credentials from the environment, the AWS files and the machine. Requests for credentials go through a
/// client of their own, which always verifies the server.
async fn ambient(config: &S3Config, times: Times) -> Result<SdkConfig, String> {
    let mut loader =
        aws_config::defaults(BehaviorVersion::v2026_01_12()).retry_config(times.attempts()).timeout_config(times.of(0));
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
            let files = EnvConfigFiles::builder();
            let files = match file {
                CredentialsFile::At(path) => {
                    check_readable(path).await?;
                    files.with_file(EnvConfigFileKind::Credentials, path)
                }
                CredentialsFile::Text(text) => files.with_contents(EnvConfigFileKind::Credentials, text),
            };
            provider = provider.profile_files(files.build());
        }
        loader = loader.credentials_provider(provider.build());
    }
    Ok(loader.load().await)
}

/// Refuses a file that cannot be read: the SDK would take it for an empty one.
async fn check_readable(file: &Path) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("cannot read the credentials file {}: {e}", file.display());
    tokio::fs::read(file).await.map(drop).map_err(wrong)
}

fn settings(config: &S3Config, ambient: &SdkConfig, endpoint: Option<&str>, times: Times) -> Result<Builder, String> {
    let mut builder = Builder::from(ambient)
        .retry_config(times.attempts())
        .timeout_config(times.of(0))
        // Many servers refuse checksums that the protocol does not require. The one of the configuration travels as a
        // header: bodies are in memory. Left at "when required", the SDK would announce but not send it.
        .request_checksum_calculation(match config.checksum_algorithm {
            Some(_) => RequestChecksumCalculation::WhenSupported,
            None => RequestChecksumCalculation::WhenRequired,
        })
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        // The default of five seconds ends transfers over slow links.
        .stalled_stream_protection(StalledStreamProtectionConfig::enabled().grace_period(times.attempt()).build());
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

/// Asks the server for the region of the bucket; `None` when it does not tell.
async fn find_region(client: &Client, failures: &Failures) -> Result<Option<String>, BucketError> {
    match client.head_bucket().bucket(&failures.bucket).send().await {
        Ok(found) => Ok(found.bucket_region().filter(|r| !r.is_empty()).map(str::to_owned)),
        Err(error) => {
            // The server names the region even when it refuses, be it for a wrong region or for missing rights.
            let told = error.raw_response().and_then(|r| r.headers().get("x-amz-bucket-region")).map(str::to_owned);
            match (told, error.raw_response().map(|r| r.status().as_u16())) {
                (Some(region), _) => Ok(Some(region)),
                (None, Some(404)) => {
                    let message = format!("the bucket {:?} does not exist", failures.bucket);
                    Err(failures.own(ErrorKind::NotFound, "open", &failures.bucket, message))
                }
                // A client that may not ask may still be allowed to write: the first request that needs the region tells.
                (None, Some(300..=499)) => Ok(None),
                _ => Err(failures.of("open", &failures.bucket, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn credentials_of_a_bucket_are_read_where_its_client_reads_them() {
        let text = "[default]\naws_access_key_id=id\naws_secret_access_key=secret\naws_session_token=token\n";
        let config = S3Config { credentials_file: Some(CredentialsFile::Text(text.to_owned())), ..S3Config::default() };
        let expected = "[default]\naws_access_key_id = id\naws_secret_access_key = secret\naws_session_token = token\n";
        assert_eq!(credentials_file(&config).await, Ok(Some(expected.to_owned())));
        let missing =
            S3Config { credentials_file: Some(CredentialsFile::At("/nowhere".into())), ..S3Config::default() };
        assert!(credentials_file(&missing).await.unwrap_err().contains("/nowhere"));
    }

    #[test]
    fn the_attempts_of_a_call_stay_below_the_patience() {
        for (seconds, attempt) in [(180, 45_000), (6, 1_500), (3600, 60_000), (0, 0)] {
            let times = Times { patience: Duration::from_secs(seconds) };
            assert_eq!(times.attempt(), Duration::from_millis(attempt));
            let pauses = times.attempts().initial_backoff() * 3;
            assert!(times.attempt() * ATTEMPTS + pauses <= times.patience, "{seconds}");
            let of = |limits: TimeoutConfig| limits.operation_attempt_timeout();
            assert_eq!(of(times.of(1 << 20)), Some(times.attempt() + Duration::from_secs(8)));
        }
    }
}
