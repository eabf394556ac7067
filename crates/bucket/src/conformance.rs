//! One suite that every [`BlobStore`] passes. Panics at the first deviation; the store should be empty before.

use crate::{BlobStore, Body, BucketError, Entry, ErrorKind, ListOptions, PutOptions, collect};
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// Runs the suite against an empty store.
///
/// # Panics
/// When the store deviates.
pub async fn run(store: Arc<dyn BlobStore>) {
    whole_objects(&*store).await;
    ranges(&*store).await;
    if_absent_lets_one_win(&store).await;
    an_aborted_put_leaves_nothing(&*store).await;
    listing(&*store).await;
    deleting(&*store).await;
}

async fn put(store: &dyn BlobStore, key: &str, bytes: &'static [u8]) {
    let size = store.put(key, Bytes::from_static(bytes).into(), PutOptions::default()).await.expect(key);
    assert_eq!(size, bytes.len() as u64);
}

async fn read(store: &dyn BlobStore, key: &str) -> Result<Bytes, BucketError> {
    collect(store.get(key, None).await?, 100 << 20).await
}

fn kind<T>(result: Result<T, BucketError>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind)
}

async fn whole_objects(store: &dyn BlobStore) {
    assert_eq!(kind(read(store, "w/none").await), Some(ErrorKind::NotFound));
    assert_eq!(kind(store.head("w/none").await), Some(ErrorKind::NotFound));
    put(store, "w/a", b"one").await;
    put(store, "w/a", b"two!").await;
    assert_eq!(read(store, "w/a").await.expect("it was put"), Bytes::from_static(b"two!"));
    let head = store.head("w/a").await.expect("it was put");
    assert_eq!((head.key.as_str(), head.size), ("w/a", 4));
    put(store, "w/empty", b"").await;
    assert_eq!(read(store, "w/empty").await.expect("it was put"), Bytes::new());
    // Larger than one part of a multipart upload, in uneven pieces.
    let piece = Bytes::from(vec![7u8; 700_001]);
    let pieces: Vec<_> = (0..20).map(|_| Ok(piece.clone())).collect();
    let body = Body::Stream(futures::stream::iter(pieces).boxed());
    let size = store.put("w/large", body, PutOptions::default()).await.expect("a large stream");
    assert_eq!(size, 20 * 700_001);
    let back = read(store, "w/large").await.expect("it was put");
    assert!(back.len() == 20 * 700_001 && back.iter().all(|b| *b == 7));
}

async fn ranges(store: &dyn BlobStore) {
    put(store, "r/a", b"0123456789").await;
    for (range, expected) in [(0..1, "0"), (3..7, "3456"), (9..10, "9"), (0..10, "0123456789")] {
        let stream = store.get("r/a", Some(range.clone())).await.expect("a range");
        assert_eq!(collect(stream, 100).await.expect("a range"), Bytes::from(expected), "{range:?}");
    }
    assert_eq!(kind(store.get("r/a", Some(20..30)).await), Some(ErrorKind::Invalid));
    assert_eq!(kind(store.get("r/none", Some(0..1)).await), Some(ErrorKind::NotFound));
}

async fn if_absent_lets_one_win(store: &Arc<dyn BlobStore>) {
    let options = PutOptions { if_absent: true, ..PutOptions::default() };
    let mut racers = tokio::task::JoinSet::new();
    for n in 0..8u8 {
        let store = Arc::clone(store);
        racers.spawn(async move { (n, store.put("c/claim", vec![n].into(), options).await) });
    }
    let mut winners = Vec::new();
    while let Some(done) = racers.join_next().await {
        let (n, result) = done.expect("no panic");
        match result {
            Ok(_) => winners.push(n),
            Err(e) => assert_eq!(e.kind, ErrorKind::Exists, "{e}"),
        }
    }
    assert_eq!(winners.len(), 1, "exactly one conditional put may win");
    assert_eq!(read(&**store, "c/claim").await.expect("the winner's"), Bytes::from(winners));
}

async fn an_aborted_put_leaves_nothing(store: &dyn BlobStore) {
    let broken = || {
        let error = BucketError {
            kind: ErrorKind::Other,
            operation: "make",
            key: String::new(),
            store: String::new(),
            message: "the source broke".to_owned(),
            source: None,
        };
        let pieces = vec![Ok(Bytes::from_static(b"half")), Err(error)];
        Body::Stream(futures::stream::iter(pieces).boxed())
    };
    assert!(store.put("x/new", broken(), PutOptions::default()).await.is_err());
    assert_eq!(kind(store.head("x/new").await), Some(ErrorKind::NotFound));
    put(store, "x/old", b"whole").await;
    assert!(store.put("x/old", broken(), PutOptions::default()).await.is_err());
    assert_eq!(read(store, "x/old").await.expect("the old one"), Bytes::from_static(b"whole"));
    assert_eq!(store.abort_stale_uploads("x/", Duration::ZERO).await.expect("sweep"), 0, "nothing was left open");
}

async fn names(store: &dyn BlobStore, prefix: &str, delimiter: Option<&str>, page_size: usize) -> Vec<String> {
    let mut options = ListOptions {
        prefix: prefix.to_owned(),
        delimiter: delimiter.map(str::to_owned),
        page_size,
        continuation: None,
    };
    let mut out = Vec::new();
    loop {
        let page = store.list(options.clone()).await.expect("a page");
        assert!(page_size == 0 || page.entries.len() <= page_size);
        out.extend(page.entries.into_iter().map(|e| match e {
            Entry::Object(info) => info.key,
            Entry::Prefix(prefix) => prefix,
        }));
        match page.continuation {
            None => return out,
            next => options.continuation = next,
        }
    }
}

async fn listing(store: &dyn BlobStore) {
    for key in ["l/b/1", "l/a", "l/b/2", "l/b-x", "l/c/d/e", "l/é漢"] {
        put(store, key, b"x").await;
    }
    let all = ["l/a", "l/b-x", "l/b/1", "l/b/2", "l/c/d/e", "l/é漢"];
    let rolled = ["l/a", "l/b-x", "l/b/", "l/c/", "l/é漢"];
    for page_size in [0, 1, 2, 3] {
        assert_eq!(names(store, "l/", None, page_size).await, all);
        assert_eq!(names(store, "l/", Some("/"), page_size).await, rolled);
    }
    assert_eq!(names(store, "l/b", None, 0).await, ["l/b-x", "l/b/1", "l/b/2"], "a prefix is a string, not a path");
    assert_eq!(names(store, "l/b", Some("/"), 0).await, ["l/b-x", "l/b/"]);
    assert_eq!(names(store, "l/none", None, 0).await, [""; 0]);
}

async fn deleting(store: &dyn BlobStore) {
    put(store, "d/x/1", b"x").await;
    put(store, "d/x/2", b"x").await;
    put(store, "d/y", b"x").await;
    let keys = ["d/x/1", "d/none", "d/x/2"].map(str::to_owned);
    store.delete(&keys).await.expect("missing keys are no error");
    store.delete(&keys).await.expect("again");
    store.delete(&[]).await.expect("nothing");
    assert_eq!(names(store, "d/", None, 0).await, ["d/y"]);
}
