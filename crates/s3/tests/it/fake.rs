//! A server that misbehaves.

use crate::server::credentials_file;
use lifeboat_bucket::{BlobStore, ErrorKind, ListOptions, PutOptions};
use lifeboat_s3::{CredentialsFile, S3, S3Config};
use lifeboat_testbed::{ScriptedResponse, ScriptedServer};
use tempfile::TempDir;

/// Answers each request line with a status and a body; remembers the lines.
struct Fake {
    store: S3,
    server: ScriptedServer,
    _folder: TempDir,
}

impl Fake {
    async fn start(answer: fn(&str) -> (u16, &'static str)) -> Self {
        let server = ScriptedServer::start(move |request| {
            let (status, body) = answer(&format!("{} {}", request.method, request.path));
            std::future::ready(ScriptedResponse::new(status, body))
        });
        let server = server.await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = S3Config {
            bucket: "b".to_owned(),
            region: Some("us-east-1".to_owned()),
            endpoint: Some(server.url()),
            credentials_file: Some(CredentialsFile::At(credentials_file(&folder, "a", "b"))),
            ..S3Config::default()
        };
        Self { store: S3::connect(config).await.unwrap(), server, _folder: folder }
    }

    fn lines(&self) -> Vec<String> {
        let requests = self.server.requests();
        requests.iter().map(|request| format!("{} {}", request.method, request.path)).collect()
    }
}

#[tokio::test]
async fn keys_are_deleted_one_by_one_where_batches_are_refused() {
    let fake = Fake::start(|line| match line {
        _ if line.starts_with("POST") => (501, "<Error><Code>NotImplemented</Code></Error>"),
        _ if line.contains("none") => (404, "<Error><Code>NoSuchKey</Code></Error>"),
        _ => (204, ""),
    })
    .await;
    let keys = ["one", "none"].map(str::to_owned);
    fake.store.delete(&keys).await.unwrap();
    fake.store.delete(&keys[..1]).await.unwrap();
    let mut lines = fake.lines();
    let asked = lines.iter().filter(|line| line.starts_with("POST")).count();
    lines.retain(|line| line.starts_with("DELETE"));
    lines.sort();
    let expected = ["none", "one", "one"].map(|key| format!("DELETE /b/{key}?x-id=DeleteObject"));
    assert_eq!(lines, expected);
    assert!(asked > 0, "batches come first");
}

#[tokio::test]
async fn errors_of_single_keys_are_told() {
    let fake = Fake::start(|_| {
        let body = "<DeleteResult><Error><Key>a</Key><Code>NoSuchKey</Code></Error>\
                    <Error><Key>b</Key><Code>AccessDenied</Code><Message>Locked.</Message></Error>\
                    <Error><Key>c</Key><Code>AccessDenied</Code></Error></DeleteResult>";
        (200, body)
    })
    .await;
    let error = fake.store.delete(&["a", "b", "c"].map(str::to_owned)).await.unwrap_err();
    assert_eq!((error.kind, error.key.as_str()), (ErrorKind::Denied, "b"));
    assert!(error.message.ends_with("(AccessDenied): Locked; 2 of 3 objects were not deleted"), "{error}");
}

#[tokio::test]
async fn a_busy_server_is_asked_few_times_and_told() {
    let fake = Fake::start(|_| (503, "<Error><Code>SlowDown</Code></Error>")).await;
    let error = fake.store.list(ListOptions::default()).await.unwrap_err();
    assert_eq!((error.kind, fake.lines().len()), (ErrorKind::Throttled, 3), "{error}");
}

#[tokio::test]
async fn a_conditional_put_is_sent_once() {
    let fake = Fake::start(|_| (500, "")).await;
    let options = PutOptions { if_absent: true, ..PutOptions::default() };
    let error = fake.store.put("k", b"x".to_vec().into(), options).await.unwrap_err();
    assert_eq!((error.kind, fake.lines().len()), (ErrorKind::Transient, 1), "{error}");
}

#[tokio::test]
async fn a_listing_that_is_cut_short_is_no_listing() {
    let fake = Fake::start(|line| match line.contains("uploads") {
        true => (200, "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>"),
        false => (200, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
    })
    .await;
    let error = fake.store.list(ListOptions::default()).await.unwrap_err();
    assert_eq!((error.kind, error.operation), (ErrorKind::Other, "list"), "{error}");
    let error = fake.store.abort_stale_uploads("", std::time::Duration::ZERO).await.unwrap_err();
    assert_eq!((error.kind, error.operation), (ErrorKind::Other, "sweep"), "{error}");
}

#[tokio::test]
async fn a_part_is_read_whole_and_right_from_a_server_that_ignores_ranges() {
    let fake = Fake::start(|_| (200, "0123456789")).await;
    assert!(fake.store.reads_ranges());
    for (range, expected) in [(2..4, "23"), (0..10, "0123456789"), (0..1, "0"), (9..10, "9")] {
        let stream = fake.store.get("k", Some(range)).await.unwrap();
        assert_eq!(lifeboat_bucket::collect(stream, 100).await.unwrap(), expected);
    }
    assert!(!fake.store.reads_ranges(), "who needs several parts copies the object first");
    let error = fake.store.get("k", Some(8..11)).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn a_server_that_refuses_conditional_puts_is_known_by_that() {
    let fake = Fake::start(|_| (501, "<Error><Code>NotImplemented</Code></Error>")).await;
    let options = PutOptions { if_absent: true, ..PutOptions::default() };
    let error = fake.store.put("k", b"x".to_vec().into(), options).await.unwrap_err();
    assert_eq!((error.kind, fake.lines().len()), (ErrorKind::Unsupported, 1), "{error}");
}

#[tokio::test]
async fn what_is_no_s3_server_is_told() {
    let fake = Fake::start(|_| (200, "<html>welcome")).await;
    let error = fake.store.list(ListOptions::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Other, "{error}");
    assert!(error.message.starts_with("the answer is none of an S3 server"), "{error}");
}
