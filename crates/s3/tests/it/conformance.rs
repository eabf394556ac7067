//! The suite of all stores, and what only buckets have.

use crate::server::Bucket;
use lifeboat_bucket::{BlobStore, Entry, ErrorKind, ListOptions, Prefixed, PutOptions, collect};
use lifeboat_s3::{S3, S3Config};
use std::sync::Arc;

#[tokio::test]
async fn conforms() {
    let bucket = Bucket::make("conforms").await;
    lifeboat_bucket::conformance::run(Arc::new(bucket.store().await)).await;
}

#[tokio::test]
async fn conforms_below_a_prefix() {
    let bucket = Bucket::make("conforms-below").await;
    lifeboat_bucket::conformance::run(Arc::new(Prefixed::new(Arc::new(bucket.store().await), "deep/er/"))).await;
}

#[tokio::test]
async fn conforms_with_every_checksum() {
    for algorithm in ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] {
        let bucket = Bucket::make(&format!("checksum-{}", algorithm.to_lowercase())).await;
        let config = S3Config { checksum_algorithm: Some(algorithm.to_owned()), ..bucket.config() };
        lifeboat_bucket::conformance::run(Arc::new(S3::connect(config).await.unwrap())).await;
    }
}

#[tokio::test]
async fn keys_come_back_as_they_were_given() {
    let bucket = Bucket::make("keys").await;
    let store = bucket.store().await;
    let mut keys = ["a+b c%20d", "a&b<c>", "'\"", "ü/漢", "a=b;c@d:e", "tab\tx"].map(str::to_owned);
    for key in &keys {
        store.put(key, b"x".to_vec().into(), PutOptions::default()).await.expect(key);
        assert_eq!(collect(store.get(key, None).await.expect(key), 10).await.expect(key).as_ref(), b"x");
    }
    let page = store.list(ListOptions::default()).await.unwrap();
    let listed: Vec<_> = page
        .entries
        .into_iter()
        .map(|entry| match entry {
            Entry::Object(info) => info.key,
            Entry::Prefix(prefix) => prefix,
        })
        .collect();
    keys.sort();
    assert_eq!(listed, keys);
    store.delete(&keys).await.unwrap();
    assert_eq!(store.list(ListOptions::default()).await.unwrap().entries, []);
}

#[tokio::test]
async fn ranges_that_end_beyond_the_end_are_refused() {
    let bucket = Bucket::make("ranges").await;
    let store = bucket.store().await;
    store.put("a", b"0123456789".to_vec().into(), PutOptions::default()).await.unwrap();
    store.put("empty", Vec::new().into(), PutOptions::default()).await.unwrap();
    for (key, range, expected) in [
        ("a", 5..11, Err(ErrorKind::Invalid)),
        ("a", 10..11, Err(ErrorKind::Invalid)),
        ("a", 10..10, Ok("")),
        ("a", 11..11, Err(ErrorKind::Invalid)),
        ("empty", 0..0, Ok("")),
        ("empty", 0..1, Err(ErrorKind::Invalid)),
        ("none", 0..0, Err(ErrorKind::NotFound)),
    ] {
        let got = match store.get(key, Some(range.clone())).await {
            Ok(stream) => Ok(String::from_utf8(collect(stream, 100).await.unwrap().to_vec()).unwrap()),
            Err(e) => Err(e.kind),
        };
        assert_eq!(got, expected.map(str::to_owned), "{key} {range:?}");
    }
}

#[tokio::test]
async fn more_keys_are_deleted_than_a_batch_holds() {
    let bucket = Bucket::make("batches").await;
    let store = bucket.store().await;
    let mut keys: Vec<String> = (0..1500).map(|n| format!("none/{n}")).collect();
    for key in ["first", "last"] {
        store.put(key, b"x".to_vec().into(), PutOptions::default()).await.unwrap();
    }
    keys.insert(0, "first".to_owned());
    keys.push("last".to_owned());
    store.delete(&keys).await.unwrap();
    assert_eq!(store.list(ListOptions::default()).await.unwrap().entries, []);
}
