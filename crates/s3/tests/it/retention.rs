//! Objects that are kept.

use crate::server::Bucket;
use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{ChecksumMode, ObjectLockMode};
use lifeboat_bucket::{BlobStore, ErrorKind, PutOptions, Retention, RetentionMode};
use std::time::{Duration, SystemTime};

/// Returns true if the newest version of an object has this retention and cannot be deleted. All but the one that was put
/// without retention came with a checksum.
async fn is_kept(bucket: &Bucket, key: &str, retention: Retention) -> bool {
    let head = bucket.raw.head_object().bucket(&bucket.name).key(key).checksum_mode(ChecksumMode::Enabled);
    let head = head.send().await.unwrap();
    let mode = match retention.mode {
        RetentionMode::Governance => ObjectLockMode::Governance,
        RetentionMode::Compliance => ObjectLockMode::Compliance,
    };
    // The answer of versitygw to GetObjectRetention is none that the SDK understands.
    let until = head.object_lock_retain_until_date().copied();
    assert_eq!((head.object_lock_mode(), until), (Some(&mode), Some(DateTime::from(retention.until))), "{key}");
    assert!(head.checksum_crc32().is_some() || key == "k/free", "{key}");
    let version = head.version_id().unwrap();
    let refused = bucket.raw.delete_object().bucket(&bucket.name).key(key).version_id(version).send().await.err();
    refused.is_some_and(|e| e.code() == Some("AccessDenied"))
}

#[tokio::test]
async fn what_is_retained_cannot_be_deleted_before_its_time() {
    let bucket = Bucket::make_locked("retained").await;
    let store = bucket.store().await;
    let until = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 24 * 3600;
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(until);
    let kept = async |key: &str, retention| is_kept(&bucket, key, retention).await;
    lifeboat_bucket::conformance::retention_is_honoured(&store, until, kept).await;
    // What is put without stays free.
    store.put("free", b"x".to_vec().into(), PutOptions::default()).await.unwrap();
    let free = bucket.raw.head_object().bucket(&bucket.name).key("free").send().await.unwrap();
    let version = free.version_id().unwrap();
    bucket.raw.delete_object().bucket(&bucket.name).key("free").version_id(version).send().await.unwrap();
    assert_eq!(bucket.open_uploads().await, [""; 0]);
}

#[tokio::test]
async fn a_bucket_without_object_lock_says_so() {
    let bucket = Bucket::make("unlocked").await;
    let store = bucket.store().await;
    let until = SystemTime::now() + Duration::from_secs(3600);
    let retention = Some(Retention { mode: RetentionMode::Governance, until });
    let options = PutOptions { retention, ..PutOptions::default() };
    let error = store.put("k", b"x".to_vec().into(), options).await.unwrap_err();
    let expected = format!(
        "the bucket {:?} has no object lock, so nothing keeps an object from being deleted: enable object lock, or put it \
         without retention",
        bucket.name
    );
    assert_eq!((error.kind, error.message), (ErrorKind::Invalid, expected));
    assert_eq!(store.head("k").await.unwrap_err().kind, ErrorKind::NotFound);
}
