//! Large objects, and puts that do not end well.

use crate::server::{Bucket, variable};
use bytes::Bytes;
use futures::StreamExt;
use lifeboat_bucket::{BlobStore, Body, BucketError, ErrorKind, PutOptions, collect};
use lifeboat_s3::{S3, S3Config};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use std::time::Duration;
use tokio::sync::oneshot;

const MIB: usize = 1 << 20;

fn pieces(count: usize) -> Vec<Result<Bytes, BucketError>> {
    (0..count).map(|n| Ok(Bytes::from(vec![u8::try_from(n % 251).unwrap(); MIB]))).collect()
}

fn broken() -> BucketError {
    BucketError {
        kind: ErrorKind::Other,
        operation: "make",
        key: String::new(),
        store: String::new(),
        message: "the source broke".to_owned(),
        source: None,
    }
}

#[tokio::test]
async fn large_objects_arrive_whole_from_streams_and_from_memory() {
    let bucket = Bucket::make("large").await;
    let store = bucket.store().await;
    let whole: Vec<u8> = pieces(50).into_iter().flat_map(Result::unwrap).collect();
    let whole = Bytes::from(whole);
    let bodies =
        [Body::Stream(futures::stream::iter(pieces(50)).boxed()), whole.clone().into(), whole.slice(..8 * MIB).into()];
    for (body, size) in bodies.into_iter().zip([50 * MIB, 50 * MIB, 8 * MIB]) {
        assert_eq!(store.put("large", body, PutOptions::default()).await.unwrap(), size as u64);
        let back = collect(store.get("large", None).await.unwrap(), 100 * MIB).await.unwrap();
        assert!(back == whole.slice(..size), "{size}");
    }
    assert_eq!(bucket.open_uploads().await, [""; 0]);
}

#[tokio::test]
async fn an_upload_whose_source_breaks_is_aborted() {
    let bucket = Bucket::make("breaks").await;
    let store = bucket.store().await;
    let mut source = pieces(20);
    source.push(Err(broken()));
    let error = store.put("k", Body::Stream(futures::stream::iter(source).boxed()), PutOptions::default()).await;
    assert_eq!(error.unwrap_err().message, "the source broke");
    assert_eq!(bucket.open_uploads().await, [""; 0]);
    assert_eq!(store.head("k").await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn one_of_many_large_conditional_puts_wins() {
    let bucket = Bucket::make("conditional").await;
    let store = bucket.store().await;
    let options = PutOptions { if_absent: true, ..PutOptions::default() };
    let put = || store.put("k", Body::Stream(futures::stream::iter(pieces(9)).boxed()), options);
    let results = futures::future::join_all([put(), put(), put()]).await;
    let kinds: Vec<_> = results.iter().filter_map(|r| r.as_ref().err().map(|e| e.kind)).collect();
    assert_eq!(kinds, [ErrorKind::Exists, ErrorKind::Exists]);
    assert_eq!(bucket.open_uploads().await, [""; 0]);
}

#[tokio::test]
async fn a_dropped_put_leaves_no_upload_after_the_sweep() {
    let bucket = Bucket::make("dropped").await;
    let store = bucket.store().await;
    let (reached, begun) = oneshot::channel();
    // The first part is read before the upload is begun, and the rest when the put knows the upload's name: before that, a
    // put that is dropped has nothing that it could abort.
    let end = futures::stream::once(async {
        reached.send(()).unwrap();
        futures::future::pending().await
    });
    let source = futures::stream::iter(pieces(20)).chain(end).boxed();
    let put = store.put("p/k", Body::Stream(source), PutOptions::default());
    tokio::select! {
        _ = put => panic!("the put cannot end"),
        begun = begun => begun.unwrap(),
    }
    // What the dropped put began is waited for, not found by the sweep: nothing is an hour old.
    assert_eq!(store.abort_stale_uploads("p/", Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(bucket.open_uploads().await, [""; 0]);
    assert_eq!(store.head("p/k").await.unwrap_err().kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn uploads_of_killed_processes_are_swept_by_prefix_and_age() {
    let bucket = Bucket::make("swept").await;
    let store = bucket.store().await;
    for key in ["a/1", "a/2", "b/1"] {
        bucket.raw.create_multipart_upload().bucket(&bucket.name).key(key).send().await.unwrap();
    }
    assert_eq!(store.abort_stale_uploads("", Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(store.abort_stale_uploads("a/", Duration::ZERO).await.unwrap(), 2);
    assert_eq!(bucket.open_uploads().await, ["b/1"]);
    assert_eq!(store.abort_stale_uploads("", Duration::ZERO).await.unwrap(), 1);
    assert_eq!(bucket.open_uploads().await, [""; 0]);
}

#[tokio::test]
async fn what_the_location_says_is_sent_with_every_object() {
    let bucket = Bucket::make("tags").await;
    let config = S3Config { tagging: Some("team=a".to_owned()), ..bucket.config() };
    let store = S3::connect(config).await.unwrap();
    let options = PutOptions { content_type: Some("application/gzip"), ..PutOptions::default() };
    store.put("small", b"x".to_vec().into(), options).await.unwrap();
    store.put("large", vec![1; 9 * MIB].into(), options).await.unwrap();
    for key in ["small", "large"] {
        let tags = bucket.raw.get_object_tagging().bucket(&bucket.name).key(key).send().await.unwrap();
        let tags: Vec<_> = tags.tag_set().iter().map(|t| (t.key(), t.value())).collect();
        assert_eq!(tags, [("team", "a")], "{key}");
        let head = bucket.raw.head_object().bucket(&bucket.name).key(key).send().await.unwrap();
        assert_eq!(head.content_type(), Some("application/gzip"), "{key}");
    }
}

/// A server that forgets an upload once it is completed, as some do.
fn forgets() -> Fault {
    let body = "<Error><Code>NoSuchUpload</Code><Message>gone</Message></Error>".to_owned();
    Fault::Answer { status: 404, headers: vec![], body }
}

async fn put_large(bucket: &Bucket, rules: Vec<Rule>) -> (Proxy, Result<u64, BucketError>) {
    put_large_within(bucket, rules, None).await
}

async fn put_large_within(
    bucket: &Bucket,
    rules: Vec<Rule>,
    patience: Option<Duration>,
) -> (Proxy, Result<u64, BucketError>) {
    let proxy = Proxy::start(&variable("LIFEBOAT_TEST_S3_ENDPOINT"), None).unwrap();
    proxy.script(rules);
    let config = S3Config { endpoint: Some(proxy.url().to_owned()), patience, ..bucket.config() };
    let store = S3::connect(config).await.unwrap();
    let put = store.put("k", Body::Stream(futures::stream::iter(pieces(9)).boxed()), PutOptions::default()).await;
    (proxy, put)
}

#[tokio::test]
async fn a_completion_whose_answer_is_lost_counts_when_the_object_is_there() {
    let bucket = Bucket::make("completed").await;
    let complete = |nth, fault| Rule::new("POST", "*uploadId=*", nth, fault);
    let lost = vec![complete(Nth::Only(1), Fault::CutAfter), complete(Nth::From(2), forgets())];
    let (_proxy, put) = put_large(&bucket, lost).await;
    assert_eq!(put.unwrap(), 9 * MIB as u64);
    // The object of before is not taken for this one.
    let store = bucket.store().await;
    store.put("k", vec![0; 9 * MIB].into(), PutOptions::default()).await.unwrap();
    let (_proxy, put) = put_large(&bucket, vec![complete(Nth::Every, forgets())]).await;
    let error = put.unwrap_err();
    assert_eq!(
        (error.kind, error.message.contains("the upload was aborted from elsewhere")),
        (ErrorKind::Transient, true)
    );
    assert_eq!(bucket.open_uploads().await, [""; 0]);
}

#[tokio::test]
async fn an_upload_is_aborted_after_its_last_part_has_arrived() {
    let bucket = Bucket::make("late").await;
    let broken = Rule::new("PUT", "*partNumber=2&*", Nth::Every, forgets());
    let late = Rule::new("PUT", "*partNumber=1&*", Nth::Every, Fault::Delay(Duration::from_secs(1)));
    let (proxy, put) = put_large(&bucket, vec![broken, late]).await;
    assert_eq!(put.unwrap_err().kind, ErrorKind::Transient);
    let of_parts: Vec<(String, u16)> = proxy
        .take_seen()
        .into_iter()
        .filter(|seen| seen.path.contains("uploadId="))
        .map(|seen| (seen.method, seen.status))
        .collect();
    let expected = [("PUT", 404), ("PUT", 200), ("DELETE", 204)].map(|(method, code)| (method.to_owned(), code));
    assert_eq!(of_parts, expected);
    assert_eq!(bucket.open_uploads().await, [""; 0]);
}

/// More often than the client's own attempts.
#[tokio::test]
async fn a_part_is_sent_again_until_patience_ends() {
    let bucket = Bucket::make("patience").await;
    let broken = |nth| vec![Rule::new("PUT", "*partNumber=2&*", nth, Fault::CutBefore)];
    let (_proxy, put) = put_large(&bucket, broken(Nth::First(7))).await;
    assert_eq!(put.unwrap(), 9 * MIB as u64);
    let (_proxy, put) = put_large_within(&bucket, broken(Nth::Every), Some(Duration::from_secs(4))).await;
    let error = put.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient, "{error}");
    assert!(error.message.starts_with("the connection broke before the answer; tried "), "{error}");
    assert_eq!(bucket.open_uploads().await, [""; 0]);
}
