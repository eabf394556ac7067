//! Credentials, buckets, regions, URLs for others.

use crate::server::{Bucket, variable};
use lifeboat_bucket::{BlobStore, BucketError, ErrorKind, ListOptions, PutOptions};
use lifeboat_s3::{CredentialsFile, S3, S3Config};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The errors of reading, writing, listing, deleting and sweeping.
async fn failures(config: S3Config) -> Vec<BucketError> {
    let store = S3::connect(config).await.expect("connecting asks nothing");
    vec![
        store.get("k", None).await.err().expect("get"),
        store.put("k", b"x".to_vec().into(), PutOptions::default()).await.expect_err("put"),
        store.put("k", vec![0; 9 << 20].into(), PutOptions::default()).await.expect_err("put large"),
        store.list(ListOptions::default()).await.expect_err("list"),
        store.delete(&["k".to_owned()]).await.expect_err("delete"),
        store.abort_stale_uploads("", Duration::ZERO).await.expect_err("sweep"),
    ]
}

#[track_caller]
fn assert_all(errors: &[BucketError], kind: ErrorKind, said: &str) {
    for error in errors {
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[tokio::test]
async fn wrong_credentials_are_named() {
    let bucket = Bucket::make("credentials").await;
    let errors = failures(bucket.config_with("nobody", "x")).await;
    assert_all(&errors, ErrorKind::Denied, "the access key is not known; check the access key ID");
    let errors = failures(bucket.config_with(&variable("LIFEBOAT_TEST_S3_ACCESS_KEY"), "wrong")).await;
    assert_all(&errors, ErrorKind::Denied, "the signature does not match; check the secret access key");
    // An answer without a body: nothing tells what is wrong.
    let config = bucket.config_with(&variable("LIFEBOAT_TEST_S3_ACCESS_KEY"), "wrong");
    let store = S3::connect(config).await.unwrap();
    assert_eq!(store.head("k").await.unwrap_err().kind, ErrorKind::Denied);
}

#[tokio::test]
async fn files_and_profiles_without_credentials_are_told() {
    let bucket = Bucket::make("profiles").await;
    let config = S3Config { profile: Some("other".to_owned()), ..bucket.config() };
    let error = S3::connect(config).await.unwrap().get("k", None).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    assert!(error.message.starts_with("there are no credentials: check the profile"), "{error}");
    let config = S3Config { credentials_file: Some(CredentialsFile::At("/none".into())), ..bucket.config() };
    let error = S3::connect(config).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.starts_with("cannot read the credentials file /none: "), "{error}");
}

#[tokio::test]
async fn credentials_of_a_secret_need_no_file() {
    let bucket = Bucket::make("secret").await;
    let keys = ["ACCESS_KEY", "SECRET"].map(|name| variable(&format!("LIFEBOAT_TEST_S3_{name}")));
    let text = format!("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n", keys[0], keys[1]);
    let config = S3Config { credentials_file: Some(CredentialsFile::Text(text)), ..bucket.config() };
    assert!(!format!("{config:?}").contains(&keys[1]), "a secret is not for logs");
    S3::connect(config).await.unwrap().put("k", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
}

#[tokio::test]
async fn an_unknown_bucket_is_told_from_an_unknown_key() {
    let bucket = Bucket::make("buckets").await;
    let config = S3Config { bucket: "no-such-bucket".to_owned(), ..bucket.config() };
    let said = "the bucket \"no-such-bucket\" does not exist";
    assert_all(&failures(config.clone()).await, ErrorKind::NotFound, said);
    let error = S3::connect(S3Config { region: None, ..config }).await.unwrap_err();
    assert_all(&[error], ErrorKind::NotFound, said);
    let error = bucket.store().await.get("k", None).await.err().unwrap();
    assert_all(&[error], ErrorKind::NotFound, "there is no such object");
}

#[tokio::test]
async fn a_wrong_region_is_told_and_none_is_found_out() {
    let bucket = Bucket::make("regions").await;
    let config = S3Config { region: Some("eu-west-1".to_owned()), ..bucket.config() };
    assert_all(&failures(config).await, ErrorKind::Invalid, "region \"eu-west-1\"");
    let store = S3::connect(S3Config { region: None, ..bucket.config() }).await.unwrap();
    assert_eq!(store.region(), "us-east-1");
    store.put("k", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_transient() {
    let bucket = Bucket::make("absent").await;
    let port = lifeboat_testbed::free_port().unwrap();
    let config = S3Config { endpoint: Some(format!("http://127.0.0.1:{port}")), ..bucket.config() };
    let error = S3::connect(config).await.unwrap().get("k", None).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Transient, "{error}");
    assert!(error.message.starts_with("the server cannot be reached"), "{error}");
}

#[tokio::test]
async fn a_presigned_url_is_readable_by_anyone_for_a_while() {
    let bucket = Bucket::make("presign").await;
    let store = bucket.store().await;
    store.put("p/a b+c", b"the bytes".to_vec().into(), PutOptions::default()).await.unwrap();
    let url = store.presign("p/a b+c", Duration::from_secs(60)).await.unwrap().unwrap();
    let answer = plain_get(&url).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nthe bytes"), "{answer}");
    let answer = plain_get(&url.replace("X-Amz-Signature=", "X-Amz-Signature=0")).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let error = store.presign("p", Duration::from_secs(8 * 24 * 3600)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn presigned_urls_point_to_the_public_endpoint() {
    let bucket = Bucket::make("public").await;
    let config = S3Config { public_endpoint: Some("https://storage.example.com".to_owned()), ..bucket.config() };
    let store = S3::connect(config).await.unwrap();
    let url = store.presign("k", Duration::from_secs(60)).await.unwrap().unwrap();
    let expected = format!("https://storage.example.com/{}/k?", bucket.name);
    assert!(url.starts_with(&expected), "{url}");
    store.put("k", b"x".to_vec().into(), PutOptions::default()).await.expect("not through the public endpoint");
}

#[tokio::test]
async fn descriptions_hold_no_secrets() {
    let bucket = Bucket::make("described").await;
    let store = bucket.store().await;
    let endpoint = variable("LIFEBOAT_TEST_S3_ENDPOINT");
    assert_eq!(store.describe(), format!("{endpoint}/{}", bucket.name));
    assert!(!format!("{store:?}").contains(&variable("LIFEBOAT_TEST_S3_SECRET")));
}

/// The whole answer to a GET, by a client that knows nothing of S3.
async fn plain_get(url: &str) -> String {
    let rest = url.strip_prefix("http://").expect("plain HTTP");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
