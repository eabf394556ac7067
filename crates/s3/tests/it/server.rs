//! The server of the tests, and buckets of one's own.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Builder, Credentials, Region};
use lifeboat_s3::{CredentialsFile, S3, S3Config};
use std::path::PathBuf;
use tempfile::TempDir;

/// A bucket of one test, with a credentials file for it and the SDK's own client.
pub(crate) struct Bucket {
    folder: TempDir,
    pub(crate) name: String,
    pub(crate) raw: Client,
}

pub(crate) fn variable(name: &str) -> String {
    match std::env::var(name) {
        Ok(value) => value,
        Err(_) => panic!("{name} is not set: this test needs the S3 server that `make test` starts"),
    }
}

pub(crate) fn credentials_file(folder: &TempDir, access_key: &str, secret: &str) -> PathBuf {
    let path = folder.path().join(format!("credentials-{access_key}"));
    let text = format!("[default]\naws_access_key_id = {access_key}\naws_secret_access_key = {secret}\n");
    std::fs::write(&path, text).unwrap();
    path
}

impl Bucket {
    /// Makes one; names are of one test and one run.
    pub(crate) async fn make(test: &str) -> Self {
        Self::begin(test, false).await
    }

    /// Makes one with object lock, which keeps versions.
    pub(crate) async fn make_locked(test: &str) -> Self {
        Self::begin(test, true).await
    }

    async fn begin(test: &str, is_locked: bool) -> Self {
        let (access_key, secret) = (variable("LIFEBOAT_TEST_S3_ACCESS_KEY"), variable("LIFEBOAT_TEST_S3_SECRET"));
        let raw = Client::from_conf(
            Builder::new()
                .behavior_version(BehaviorVersion::v2026_01_12())
                .endpoint_url(variable("LIFEBOAT_TEST_S3_ENDPOINT"))
                .force_path_style(true)
                .region(Region::new("us-east-1"))
                .credentials_provider(Credentials::new(&access_key, &secret, None, None, "test"))
                .build(),
        );
        let name = format!("{test}-{}", std::process::id());
        raw.create_bucket()
            .bucket(&name)
            .object_lock_enabled_for_bucket(is_locked)
            .send()
            .await
            .expect("make a bucket");
        let folder = tempfile::tempdir().unwrap();
        credentials_file(&folder, &access_key, &secret);
        Self { folder, name, raw }
    }

    pub(crate) fn config(&self) -> S3Config {
        let file = format!("credentials-{}", variable("LIFEBOAT_TEST_S3_ACCESS_KEY"));
        S3Config {
            bucket: self.name.clone(),
            region: Some("us-east-1".to_owned()),
            endpoint: Some(variable("LIFEBOAT_TEST_S3_ENDPOINT")),
            credentials_file: Some(CredentialsFile::At(self.folder.path().join(file))),
            ..S3Config::default()
        }
    }

    /// The same bucket with other keys.
    pub(crate) fn config_with(&self, access_key: &str, secret: &str) -> S3Config {
        S3Config {
            credentials_file: Some(CredentialsFile::At(credentials_file(&self.folder, access_key, secret))),
            ..self.config()
        }
    }

    pub(crate) async fn store(&self) -> S3 {
        S3::connect(self.config()).await.expect("connect")
    }

    /// Keys of the uploads that were begun and not ended.
    pub(crate) async fn open_uploads(&self) -> Vec<String> {
        let answer = self.raw.list_multipart_uploads().bucket(&self.name).send().await.expect("list uploads");
        answer.uploads().iter().filter_map(|u| u.key().map(str::to_owned)).collect()
    }
}
