//! Conformance suite that every [`BlobStore`] passes. Panics at the first deviation; the store must be empty before.

use crate::{
    BlobStore, Body, BucketError, Entry, ErrorKind, ListOptions, PutOptions, Retention, RetentionMode, collect,
};
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The guarantee that a store gives for [`PutOptions::if_absent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfAbsent {
    /// Of several at the same time exactly one wins, as the contract says.
    Atomic,
    /// The store looks first and puts then, because it has no conditional put. One that comes after another has ended fails;
    /// of several at the same time more than one may win, and the last of them stays. Such a store breaks the contract, and
    /// whoever gives one out has to say so: two servers that share a location may both believe that a name is theirs.
    LooksFirst,
}

/// Runs the suite against an empty store. What it can store it can also delete: where a store can keep objects, that is
/// another one, for [`retention_is_honoured`].
///
/// # Panics
/// When the store deviates.
pub async fn run(store: Arc<dyn BlobStore>) {
    run_where(store, IfAbsent::Atomic).await;
}

/// Runs the suite as [`run`] does, against a store whose conditional put is worth that.
///
/// # Panics
/// When the store deviates otherwise.
pub async fn run_where(store: Arc<dyn BlobStore>, if_absent: IfAbsent) {
    whole_objects(&*store).await;
    ranges(&*store).await;
    if_absent_fails_where_an_object_is(&*store).await;
    match if_absent {
        IfAbsent::Atomic => if_absent_lets_one_win(&store).await,
        IfAbsent::LooksFirst => if_absent_lets_none_lose(&store).await,
    }
    an_aborted_put_leaves_nothing(&*store).await;
    listing(&*store).await;
    deleting(&*store).await;
    retention_is_refused(&*store).await;
}

/// Runs what [`run`] leaves out: on a store that can keep objects, those with a retention are kept, however they are put.
/// `is_kept` finds out by other means whether the object with this key has this retention, and whether deleting that
/// version is refused. The objects stay in the store until `until`.
///
/// # Panics
/// When the store deviates.
pub async fn retention_is_honoured(
    store: &dyn BlobStore,
    until: SystemTime,
    is_kept: impl AsyncFn(&str, Retention) -> bool,
) {
    let large = Bytes::from(vec![7u8; 9 << 20]);
    for (name, mode) in [("governance", RetentionMode::Governance), ("compliance", RetentionMode::Compliance)] {
        let retention = Retention { mode, until };
        for (size, bytes) in [("small", Bytes::from_static(b"kept")), ("large", large.clone())] {
            let pieces: Vec<_> = bytes.chunks(1 << 20).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            let stream = Body::Stream(futures::stream::iter(pieces).boxed());
            for (form, body, if_absent) in [("whole", bytes.clone().into(), false), ("stream", stream, true)] {
                let key = format!("k/{name}/{size}/{form}");
                let options = PutOptions { if_absent, retention: Some(retention), ..PutOptions::default() };
                assert_eq!(store.put(&key, body, options).await.expect(&key), bytes.len() as u64);
                assert!(is_kept(&key, retention).await, "{key} is not kept");
                assert!(read(store, &key).await.expect(&key) == bytes, "{key}");
            }
        }
    }
    retention_is_extended(store, until, is_kept).await;
}

/// An object is kept longer than it was kept before, or for the first time, and never shorter or in a weaker mode.
async fn retention_is_extended(
    store: &dyn BlobStore,
    until: SystemTime,
    is_kept: impl AsyncFn(&str, Retention) -> bool,
) {
    let mode = RetentionMode::Governance;
    let later = until + Duration::from_secs(3600);
    let of = |until| Retention { mode, until };
    put(store, "k/free", b"free").await;
    let options = PutOptions { retention: Some(of(until)), ..PutOptions::default() };
    store.put("k/kept", Bytes::from_static(b"kept").into(), options).await.expect("k/kept");
    for key in ["k/free", "k/kept"] {
        store.retain(key, of(later)).await.expect(key);
        assert!(is_kept(key, of(later)).await, "{key} is not kept longer");
        store.retain(key, of(until)).await.expect(key);
        assert!(is_kept(key, of(later)).await, "{key} is kept for a shorter time");
    }
    let strong = |until| Retention { mode: RetentionMode::Compliance, until };
    let options = PutOptions { retention: Some(strong(until)), ..PutOptions::default() };
    store.put("k/strong", Bytes::from_static(b"strong").into(), options).await.expect("k/strong");
    store.retain("k/strong", of(later)).await.expect("k/strong");
    assert!(is_kept("k/strong", strong(later)).await, "the stronger mode was not kept longer");
    assert_eq!(kind(store.retain("k/none", of(later)).await), Some(ErrorKind::NotFound));
}

/// A store that cannot keep objects, or a bucket where that is not switched on, says so before anything is written.
async fn retention_is_refused(store: &dyn BlobStore) {
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let retention = Some(Retention { mode: RetentionMode::Governance, until });
    let bodies = || {
        let stream = futures::stream::iter([Ok(Bytes::from_static(b"new"))]).boxed();
        [Body::Bytes(Bytes::from_static(b"new")), Body::Stream(stream)]
    };
    put(store, "k/old", b"old").await;
    for if_absent in [false, true] {
        for body in bodies() {
            let options = PutOptions { if_absent, retention, ..PutOptions::default() };
            assert_eq!(
                kind(store.put("k/new", body, options).await),
                Some(ErrorKind::Invalid),
                "retention was ignored"
            );
            assert_eq!(kind(store.head("k/new").await), Some(ErrorKind::NotFound));
        }
    }
    for body in bodies() {
        let options = PutOptions { retention, ..PutOptions::default() };
        assert_eq!(kind(store.put("k/old", body, options).await), Some(ErrorKind::Invalid), "retention was ignored");
        assert_eq!(read(store, "k/old").await.expect("it was put"), Bytes::from_static(b"old"));
    }
    let refused = store.retain("k/old", Retention { mode: RetentionMode::Governance, until }).await;
    assert!(matches!(kind(refused), Some(ErrorKind::Unsupported | ErrorKind::Invalid)), "retention was ignored");
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
    assert!(!store.exists("w/none").await.expect("an answer"));
    put(store, "w/a", b"one").await;
    assert!(store.exists("w/a").await.expect("an answer"));
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

async fn if_absent_fails_where_an_object_is(store: &dyn BlobStore) {
    let options = PutOptions { if_absent: true, ..PutOptions::default() };
    let bodies = |text: &'static [u8]| {
        let stream = futures::stream::iter([Ok(Bytes::from_static(text))]).boxed();
        [("c/bytes", Body::Bytes(Bytes::from_static(text))), ("c/stream", Body::Stream(stream))]
    };
    for (key, body) in bodies(b"first") {
        assert_eq!(store.put(key, body, options).await.expect(key), 5);
    }
    for (key, body) in bodies(b"second") {
        assert_eq!(kind(store.put(key, body, options).await), Some(ErrorKind::Exists), "{key}");
        assert_eq!(read(store, key).await.expect(key), Bytes::from_static(b"first"));
    }
}

async fn if_absent_lets_one_win(store: &Arc<dyn BlobStore>) {
    let winners = race(store).await;
    assert_eq!(winners.len(), 1, "exactly one conditional put may win");
    assert_eq!(read(&**store, "c/claim").await.expect("the winner's"), Bytes::from(winners));
}

async fn if_absent_lets_none_lose(store: &Arc<dyn BlobStore>) {
    let winners = race(store).await;
    assert!(!winners.is_empty(), "one conditional put wins at least");
    let left = read(&**store, "c/claim").await.expect("a winner's");
    assert!(left.len() == 1 && winners.contains(&left[0]), "{left:?} is not of {winners:?}");
}

/// Puts one key eight times at once, if absent; gives who has won.
async fn race(store: &Arc<dyn BlobStore>) -> Vec<u8> {
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
    winners
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
    let delimiter = delimiter.map(str::to_owned);
    listed(store, ListOptions { prefix: prefix.to_owned(), delimiter, page_size, ..ListOptions::default() }).await
}

async fn prefixes(store: &dyn BlobStore, prefix: &str, page_size: usize) -> Vec<String> {
    let delimiter = Some("/".to_owned());
    let options = ListOptions { prefix: prefix.to_owned(), delimiter, page_size, ..ListOptions::default() };
    listed(store, ListOptions { prefixes_only: true, ..options }).await
}

async fn listed(store: &dyn BlobStore, mut options: ListOptions) -> Vec<String> {
    let mut out = Vec::new();
    loop {
        let page = store.list(options.clone()).await.expect("a page");
        assert!(options.page_size == 0 || page.entries.len() <= options.page_size);
        for entry in page.entries {
            match entry {
                Entry::Object(object) => {
                    if let Some(size) = object.size {
                        assert_eq!(size, store.head(&object.key).await.expect("it is listed").size, "{}", object.key);
                    }
                    out.push(object.key);
                }
                Entry::Prefix(prefix) => out.push(prefix),
            }
        }
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
        assert_eq!(prefixes(store, "l/", page_size).await, ["l/b/", "l/c/"], "no objects");
        assert_eq!(prefixes(store, "l/b/", page_size).await, [""; 0]);
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
