//! Buckets and snapshotters.

use super::{go, gone};
use crate::bed::{journal, until};
use crate::bucket::{STORAGE, aws, put, read, store};
use bytes::Bytes;
use futures::StreamExt;
use lifeboat_action::{ActionErrorKind, VolumeFacts, VolumeRequest, VolumeSnapshotter};
use lifeboat_bucket::conformance::{self, IfAbsent};
use lifeboat_bucket::{Body, BucketError, ErrorKind};
use lifeboat_plugin::PluginHost;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_bucket_of_the_library_conforms_but_for_conditional_puts() {
    let bed = go(STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    conformance::run_where(Arc::clone(&store), IfAbsent::LooksFirst).await;
    // The library fails when there is no message at all.
    put(&*store, "empty", Vec::new()).await.unwrap();
    assert_eq!(read(&*store, "empty").await.unwrap(), Bytes::new());
}

#[tokio::test]
async fn an_upload_that_breaks_off_stores_nothing() {
    let bed = go(STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    for round in 0..10 {
        bed.forget();
        let (diary, end) = (bed.path("diary"), format!("the source broke {round}"));
        let message = end.clone();
        let late = async move {
            until("begun", || std::fs::read_to_string(&diary).is_ok_and(|diary| diary.contains("put has begun"))).await;
            let (key, store) = ("noted".to_owned(), "a test".to_owned());
            Err(BucketError { kind: ErrorKind::Other, operation: "make", key, store, message, source: None })
        };
        let piece = || Ok(Bytes::from(vec![7; 100_000]));
        let pieces = futures::stream::iter([piece(), piece()]).chain(futures::stream::once(late));
        let error = put(&*store, "noted", Body::Stream(pieces.boxed())).await.unwrap_err();
        assert_eq!(error.message, end);
        until("broken off", || bed.diary().contains(&"put noted was broken off".to_owned())).await;
        assert_eq!(store.head("noted").await.unwrap_err().kind, ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn an_upload_that_fails_early_tells_the_cause() {
    let bed = go(STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    let endless = || {
        let piece = Bytes::from(vec![7; 100_000]);
        Body::Stream(futures::stream::repeat_with(move || Ok(piece.clone())).boxed())
    };
    let error = put(&*store, "early-failure", endless()).await.unwrap_err();
    assert_eq!(error.message, "rpc error: code = Unknown desc = AccessDenied: no luck");
    let error = put(&*store, "early-success", endless()).await.unwrap_err();
    assert_eq!(error.message, "the plugin says that it has stored the object, but it has not taken all of it");
    let error = put(&*store, "crash", endless()).await.unwrap_err();
    assert!(error.message.ends_with("(the plugin's process has ended: exit status 3)"), "{error}");
    // The next call has another process, with the same configuration.
    put(&*store, "a", vec![7]).await.unwrap();
}

#[tokio::test]
async fn a_download_ends_as_the_plugin_says_or_when_it_is_dropped() {
    let mut bed = go(STORAGE, "");
    bed.options.call_timeout = Duration::from_secs(2);
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    let body: Bytes = (0..6u32 << 20).map(|n| (n % 251) as u8).collect::<Vec<u8>>().into();
    for key in ["a", "breaks", "hangs", "watched"] {
        put(&*store, key, body.clone()).await.unwrap();
    }
    assert!(read(&*store, "a").await.unwrap() == body);
    let error = read(&*store, "breaks").await.unwrap_err();
    assert_eq!(error.message, "rpc error: code = Unknown desc = the connection to the cloud broke");
    let error = read(&*store, "hangs").await.unwrap_err();
    assert!(error.kind == ErrorKind::Transient && error.message.contains("DeadlineExceeded"), "{error}");
    assert_eq!(read(&*store, "none").await.unwrap_err().kind, ErrorKind::NotFound);
    let mut stream = store.get("watched", None).await.unwrap();
    stream.next().await.unwrap().unwrap();
    assert!(!bed.diary().contains(&"get has ended".to_owned()));
    drop(stream);
    until("dropped", || bed.diary().contains(&"get has ended".to_owned())).await;
}

async fn snapshotter(host: &PluginHost, zone: &str) -> Arc<dyn VolumeSnapshotter> {
    let config = BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
    host.volume_snapshotter(&aws(), config, &journal("b")).await.unwrap()
}

#[tokio::test]
async fn a_process_that_ended_is_started_and_initialised_again() {
    let bed = go(STORAGE, "");
    let host = bed.discover().await.unwrap();
    bed.forget();
    let snapshotter = snapshotter(&host, "z1").await;
    let snapshot = |volume: &'static str| {
        let snapshotter = &snapshotter;
        async move { snapshotter.create_snapshot(volume, "z1", &BTreeMap::new()).await }
    };
    snapshot("exit-after").await.unwrap();
    gone(&bed).await;
    assert_eq!(snapshot("v1").await.unwrap(), "snap of v1 in z1 with null");
    // Whether it was made nobody knows.
    assert_eq!(snapshot("crash").await.unwrap_err().kind, ActionErrorKind::Gone);
    snapshot("v1").await.unwrap();
    let init = r#"Init VolumeSnapshotter velero.io/aws {"zone":"z1"}"#;
    assert_eq!((bed.diary(), bed.started().len()), (vec![init.to_owned(); 3], 3));
}

#[tokio::test]
async fn a_snapshotter_makes_snapshots_and_volumes() {
    let bed = go(STORAGE, "");
    let host = bed.discover().await.unwrap();
    let snapshotter = snapshotter(&host, "z1").await;
    let volume = |id: &str| json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"fixture": id}});
    assert_eq!(snapshotter.volume_id(&volume("v1")).await.unwrap().as_deref(), Some("v1"));
    assert_eq!(snapshotter.volume_id(&volume("")).await.unwrap(), None);
    let facts = |iops| VolumeFacts { volume_type: "gp3 in z1".to_owned(), iops };
    assert_eq!(snapshotter.volume_facts("fast", "z1").await.unwrap(), facts(Some(3000)));
    assert_eq!(snapshotter.volume_facts("slow", "z1").await.unwrap(), facts(None));
    let tags = [("velero.io/backup".to_owned(), "b".to_owned())].into();
    let made = snapshotter.create_snapshot("v1", "z1", &tags).await.unwrap();
    assert_eq!(made, "snap of v1 in z1 with {\"velero.io/backup\":\"b\"}");
    for (iops, rate) in [(None, "none"), (Some(3000), "3000")] {
        let request = VolumeRequest { snapshot_id: "s1".to_owned(), facts: facts(iops), zone: String::new() };
        let made = snapshotter.create_volume(&request).await.unwrap();
        assert_eq!(made, format!("of s1, gp3 in z1 in \"\" with {rate}"));
    }
    assert_eq!(snapshotter.set_volume_id(volume("old"), "new").await.unwrap(), volume("new"));
    bed.forget();
    snapshotter.delete_snapshot("s1").await.unwrap();
    assert_eq!(bed.diary(), ["delete s1"]);
    assert_eq!(
        snapshotter.create_snapshot("nameless", "", &BTreeMap::new()).await.unwrap_err().kind,
        ActionErrorKind::Gone
    );
}
