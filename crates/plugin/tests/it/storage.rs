//! Buckets and snapshotters of plugins.

use crate::bed::{Bed, exists, journal, log, until};
use crate::bucket::{STORAGE, aws, config, put, read, store};
use bytes::Bytes;
use futures::StreamExt;
use lifeboat_action::{ActionError, VolumeFacts, VolumeRequest, VolumeSnapshotter};
use lifeboat_bucket::conformance::{self, IfAbsent};
use lifeboat_bucket::{Body, BucketError, Entry, ErrorKind, ListOptions, collect};
use lifeboat_plugin::{PluginError, PluginHost, PluginName};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

fn stream(pieces: Vec<Result<Bytes, BucketError>>) -> Body {
    Body::Stream(futures::stream::iter(pieces).boxed())
}

#[tokio::test]
async fn a_bucket_by_plugin_conforms_but_for_conditional_puts() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    conformance::run_where(store(&host, &bed).await, IfAbsent::LooksFirst).await;
}

#[tokio::test]
async fn objects_go_in_pieces_that_a_plugin_in_go_takes_and_an_empty_one_in_one() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    bed.forget();
    put(&*store, "large", vec![7; 5 << 20]).await.unwrap();
    put(&*store, "empty", Vec::new()).await.unwrap();
    put(&*store, "small", stream((0..7).map(|_| Ok(Bytes::from_static(b"a"))).collect())).await.unwrap();
    assert_eq!(bed.diary(), ["put [1048576, 1048576, 1048576, 1048576, 1048576]", "put [0]", "put [7]"]);
    assert_eq!(read(&*store, "small").await.unwrap(), Bytes::from_static(b"aaaaaaa"));
}

#[tokio::test]
async fn a_source_that_breaks_stores_nothing_and_its_error_is_told() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    let broken = || BucketError {
        kind: ErrorKind::Other,
        operation: "make",
        key: "x".to_owned(),
        store: "a test".to_owned(),
        message: "the source broke".to_owned(),
        source: None,
    };
    let piece = || Ok(Bytes::from(vec![7; 100_000]));
    for round in 0..20 {
        // At once, and when the plugin has a part.
        let error = put(&*store, "x", stream(vec![piece(), piece(), Err(broken())])).await.unwrap_err();
        assert_eq!(error.message, "the source broke");
        bed.forget();
        let diary = bed.path("diary");
        let late = async move {
            until("begun", || std::fs::read_to_string(&diary).is_ok_and(|diary| diary.contains("put has begun"))).await;
            Err(broken())
        };
        let pieces = futures::stream::iter([piece(), piece()]).chain(futures::stream::once(late));
        let error = put(&*store, "noted", Body::Stream(pieces.boxed())).await.unwrap_err();
        assert_eq!(error.message, "the source broke");
        until("broken off", || bed.diary().contains(&"put noted was broken off".to_owned())).await;
        for key in ["x", "noted"] {
            assert_eq!(store.head(key).await.unwrap_err().kind, ErrorKind::NotFound, "round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_given_up_stores_nothing() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    for round in 0..20 {
        bed.forget();
        let piece = || Ok(Bytes::from(vec![7; 100_000]));
        let pieces = futures::stream::iter([piece(), piece()]).chain(futures::stream::pending());
        let putting = put(&*store, "noted", Body::Stream(pieces.boxed()));
        tokio::select! {
            put = putting => panic!("{put:?}"),
            () = until("begun", || bed.diary().contains(&"put has begun".to_owned())) => {}
        }
        until("broken off", || bed.diary().contains(&"put noted was broken off".to_owned())).await;
        assert_eq!(store.head("noted").await.unwrap_err().kind, ErrorKind::NotFound, "round {round}");
    }
}

#[tokio::test]
async fn an_upload_that_fails_early_tells_the_cause() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    let endless = || {
        let piece = Bytes::from(vec![7; 100_000]);
        Body::Stream(futures::stream::repeat_with(move || Ok(piece.clone())).boxed())
    };
    let error = put(&*store, "a/early-failure", endless()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Other);
    assert_eq!(
        error.to_string(),
        "cannot put \"a/early-failure\" in the bucket b of the plugin velero.io/aws: rpc error: code = Unknown desc = \
         AccessDenied: no luck"
    );
    let error = put(&*store, "a/early-success", endless()).await.unwrap_err();
    assert_eq!(error.message, "the plugin says that it has stored the object, but it has not taken all of it");
    let error = put(&*store, "a/crash", endless()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient);
    assert!(error.message.ends_with("(the plugin's process has ended: exit status 3)"), "{error}");
    put(&*store, "a", vec![7]).await.unwrap();
}

#[tokio::test]
async fn an_upload_that_is_not_taken_is_given_up() {
    let mut bed = Bed::new().with("p", STORAGE, "");
    bed.options.call_timeout = Duration::from_secs(2);
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    for size in [1, 8 << 20] {
        let error = put(&*store, "never-taken", vec![7; size]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Transient);
        let late = "rpc error: code = DeadlineExceeded desc = velero.io/aws has not answered within 2 s (give it longer by \
                    --plugin-call-timeout, or look at its log)";
        assert_eq!(error.message, late);
    }
    // How slow the source is does not count: it brings the rest when another upload has waited as long as one may.
    let (waited, is_over) = tokio::sync::oneshot::channel();
    let half = || Ok(Bytes::from(vec![7; 50_000]));
    let rest = futures::stream::once(async move {
        is_over.await.unwrap();
        half()
    });
    let slow = Body::Stream(futures::stream::iter([half()]).chain(rest).boxed());
    let (stored, late) = tokio::join!(put(&*store, "slow", slow), async {
        let late = put(&*store, "never-taken", vec![7]).await;
        waited.send(()).unwrap();
        late
    });
    assert_eq!((stored.unwrap(), late.unwrap_err().kind), (100_000, ErrorKind::Transient));
}

#[tokio::test]
async fn objects_come_in_pieces_of_any_size_or_not_at_all() {
    let mut bed = Bed::new().with("p", STORAGE, "");
    bed.options.call_timeout = Duration::from_secs(2);
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    let body: Bytes = (0..6u32 << 20).map(|n| (n % 251) as u8).collect::<Vec<u8>>().into();
    for key in ["a", "large-pieces", "breaks", "hangs"] {
        put(&*store, key, body.clone()).await.unwrap();
    }
    assert!(read(&*store, "a").await.unwrap() == body);
    assert!(read(&*store, "large-pieces").await.unwrap() == body, "answers above 4 MiB are taken");
    for (from, to) in [(0, 1), (16_383, 16_385), (40_000, 100_000), (6 << 20, 6 << 20), ((6 << 20) - 1, 6 << 20)] {
        let part = collect(store.get("a", Some(from..to)).await.unwrap(), 100 << 20).await.unwrap();
        assert!(part == body.slice(usize::try_from(from).unwrap()..usize::try_from(to).unwrap()), "{from}..{to}");
    }
    let error = read(&*store, "breaks").await.unwrap_err();
    assert_eq!(error.message, "rpc error: code = Unknown desc = the connection to the cloud broke");
    let error = read(&*store, "hangs").await.unwrap_err();
    assert!(error.kind == ErrorKind::Transient && error.message.contains("DeadlineExceeded"), "{error}");
    for key in ["none", "nothing"] {
        let error = read(&*store, key).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }
}

#[tokio::test]
async fn a_download_that_is_dropped_ends_at_the_plugin() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    put(&*store, "watched", vec![7; 64 << 20]).await.unwrap();
    let mut stream = store.get("watched", None).await.unwrap();
    stream.next().await.unwrap().unwrap();
    assert!(!bed.diary().contains(&"get was dropped".to_owned()));
    drop(stream);
    until("dropped", || bed.diary().contains(&"get was dropped".to_owned())).await;
}

#[tokio::test]
async fn deleting_tells_what_stays_and_keeps_no_other() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    for key in ["a", "protected", "z"] {
        put(&*store, key, vec![7]).await.unwrap();
    }
    let keys = ["a", "none", "protected", "z"].map(str::to_owned);
    let error = store.delete(&keys).await.unwrap_err();
    assert_eq!((error.key.as_str(), error.kind), ("protected", ErrorKind::Other));
    let page = store.list(ListOptions::default()).await.unwrap();
    let names = page.entries.iter().map(|entry| match entry {
        Entry::Object(object) => (object.key.as_str(), object.size),
        Entry::Prefix(prefix) => (prefix.as_str(), None),
    });
    assert_eq!(names.collect::<Vec<_>>(), [("protected", None)]);
}

#[tokio::test]
async fn prefixes_alone_are_asked_for_without_all_keys() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    for key in ["p/backups/a/1", "p/backups/a/2", "p/backups/b/1", "p/kopia/x"] {
        put(&*store, key, vec![7]).await.unwrap();
    }
    bed.forget();
    let options = ListOptions {
        prefix: "p/backups/".to_owned(),
        delimiter: Some("/".to_owned()),
        prefixes_only: true,
        ..ListOptions::default()
    };
    let page = store.list(options).await.unwrap();
    assert_eq!(page.entries, ["p/backups/a/", "p/backups/b/"].map(|prefix| Entry::Prefix(prefix.to_owned())));
    assert_eq!(bed.diary(), ["list prefixes \"p/backups/\""]);
}

#[tokio::test]
async fn a_url_is_signed_by_the_plugin() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    let url = store.presign("a/b", Duration::from_secs(600)).await.unwrap();
    assert_eq!(url.as_deref(), Some("https://b/a/b?ttl=600000000000"));
}

/// Credentials of some kinds cannot sign.
#[tokio::test]
async fn refusing_to_sign_means_a_bucket_without_urls_and_silence_an_error() {
    let mut bed = Bed::new().with("p", STORAGE, "");
    bed.options.call_timeout = Duration::from_millis(500);
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    let sign = |key: &'static str| store.presign(key, Duration::from_secs(600));
    assert_eq!(sign("unsigned").await.unwrap(), None);
    for (key, kind) in [("busy", ErrorKind::Transient), ("never-signed", ErrorKind::Transient)] {
        assert_eq!(sign(key).await.unwrap_err().kind, kind, "{key}");
    }
}

#[tokio::test]
async fn each_configuration_has_its_own_process_and_is_given_exactly_as_it_is() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    bed.forget();
    let one = host.object_store(&aws(), config(&bed, "one")).await.unwrap();
    let two = host.object_store(&aws(), config(&bed, "two")).await.unwrap();
    let path = |name: &str| bed.path(name).display().to_string();
    let init =
        |name: &str| format!(r#"Init ObjectStore velero.io/aws {{"bucket":"b","prefix":"p","root":"{}"}}"#, path(name));
    assert_eq!((bed.diary(), bed.started().len()), (vec![init("one"), init("two")], 2));
    put(&*one, "a", b"1".to_vec()).await.unwrap();
    assert_eq!(read(&*two, "a").await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(read(&*one, "a").await.unwrap(), Bytes::from_static(b"1"));

    // Again, because credentials may have changed; the process is the same.
    bed.forget();
    let again = host.object_store(&aws(), config(&bed, "one")).await.unwrap();
    assert_eq!((bed.diary(), bed.started().len()), (vec![init("one")], 0));
    assert_eq!(read(&*again, "a").await.unwrap(), Bytes::from_static(b"1"));
    // But not while it is used: plugins do not bear that.
    let reading = one.get("a", None).await.unwrap();
    bed.forget();
    host.object_store(&aws(), config(&bed, "one")).await.unwrap();
    assert_eq!(bed.diary(), [""; 0]);
    drop(reading);
}

#[tokio::test]
async fn a_configuration_that_is_refused_is_told() {
    let bed = Bed::new().with("p", STORAGE, "refuses-again");
    let host = bed.discover().await.unwrap();
    let mut wrong = config(&bed, "objects");
    wrong.insert("wrong".to_owned(), "x".to_owned());
    let error = host.object_store(&aws(), wrong).await.unwrap_err();
    let text = "the ObjectStore velero.io/aws does not take its configuration: rpc error: code = Unknown desc = config has invalid \
                keys [wrong]; valid keys are [root]";
    assert_eq!(error, PluginError::Call(text.to_owned()));
    let store = store(&host, &bed).await;
    let error = host.object_store(&aws(), config(&bed, "objects")).await.unwrap_err().to_string();
    assert!(error.ends_with("rpc error: code = Unknown desc = the credentials have expired"), "{error}");
    put(&*store, "a", vec![7]).await.unwrap();
}

#[tokio::test]
async fn names_that_no_program_has_are_told_as_by_velero() {
    let bed = Bed::new().with("p", "ObjectStore=velero.io/aws", "");
    let host = bed.discover().await.unwrap();
    let gcp = PluginName::of_provider("gcp").unwrap();
    let error = host.object_store(&gcp, BTreeMap::new()).await.unwrap_err();
    let text = "unable to locate ObjectStore plugin named velero.io/gcp";
    assert_eq!(error, PluginError::Unknown(text.to_owned()));
    let error = host.volume_snapshotter(&aws(), BTreeMap::new(), &journal("b")).await.err().unwrap();
    let text = "unable to get valid VolumeSnapshotter for \"velero.io/aws\"";
    assert_eq!(error, PluginError::Unknown(text.to_owned()));
}

#[tokio::test]
async fn a_bucket_whose_process_has_ended_is_initialised_again() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let store = store(&host, &bed).await;
    assert!(put(&*store, "crash", vec![7]).await.is_err());
    put(&*store, "a", vec![7]).await.unwrap();
    let inits = bed.diary().iter().filter(|line| line.starts_with("Init ")).count();
    assert_eq!((inits, bed.started().len()), (2, 3), "the first start was to ask for its plugins");
    until("gone", || !exists(bed.started()[1])).await;
}

async fn snapshotter(host: &PluginHost, bed: &Bed, name: &str) -> Arc<dyn VolumeSnapshotter> {
    host.volume_snapshotter(&aws(), config(bed, "volumes"), &journal(name)).await.unwrap()
}

#[tokio::test]
async fn a_snapshotter_makes_snapshots_and_volumes() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let snapshotter = snapshotter(&host, &bed, "b").await;
    assert_eq!(snapshotter.name(), "velero.io/aws");
    let volume = |id: &str| json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"fixture": id}});
    assert_eq!(snapshotter.volume_id(&volume("v1")).await.unwrap().as_deref(), Some("v1"));
    assert_eq!(snapshotter.volume_id(&volume("")).await.unwrap(), None);
    let facts = |iops| VolumeFacts { volume_type: "gp3 in z1".to_owned(), iops };
    assert_eq!(snapshotter.volume_facts("fast", "z1").await.unwrap(), facts(Some(3000)));
    assert_eq!(snapshotter.volume_facts("slow", "z1").await.unwrap(), facts(None));
    let tags = [("velero.io/backup".to_owned(), "b".to_owned())].into();
    let made = snapshotter.create_snapshot("v1", "z1", &tags).await.unwrap();
    assert_eq!(made, "snap of v1 in z1 with {\"velero.io/backup\": \"b\"}");
    let request = |snapshot_id: &str, iops| VolumeRequest {
        snapshot_id: snapshot_id.to_owned(),
        facts: facts(iops),
        zone: String::new(),
    };
    let made = snapshotter.create_volume(&request("s1", None)).await.unwrap();
    assert_eq!(made, "of s1, gp3 in z1 in \"\" with 0");
    let made = snapshotter.create_volume(&request("s1", Some(3000))).await.unwrap();
    assert_eq!(made, "of s1, gp3 in z1 in \"\" with 3000");
    assert_eq!(snapshotter.set_volume_id(volume("old"), "new").await.unwrap(), volume("new"));
    bed.forget();
    snapshotter.delete_snapshot("s1").await.unwrap();
    assert_eq!(bed.diary(), ["delete s1"]);
    // Something may be there: nobody may make it once more.
    let nameless =
        |what: &str| ActionError::gone(format!("the plugin velero.io/aws says that it has made {what}, but not which"));
    let error = snapshotter.create_snapshot("nameless", "", &BTreeMap::new()).await.unwrap_err();
    assert_eq!(error, nameless("a snapshot"));
    assert_eq!(snapshotter.create_volume(&request("nameless", None)).await.unwrap_err(), nameless("a volume"));
}

#[tokio::test]
async fn a_snapshotter_logs_to_its_operation_and_is_initialised_after_an_end() {
    let bed = Bed::new().with("p", STORAGE, "");
    let host = bed.discover().await.unwrap();
    let journal = journal("b");
    let snapshotter = host.volume_snapshotter(&aws(), config(&bed, "volumes"), &journal).await.unwrap();
    let snapshot = |volume: &'static str| {
        let snapshotter = &snapshotter;
        async move { snapshotter.create_snapshot(volume, "", &BTreeMap::new()).await }
    };
    snapshot("exit-after").await.unwrap();
    let process = *bed.started().last().unwrap();
    until("gone", || !exists(process)).await;
    snapshot("v1").await.unwrap();
    let root = bed.path("volumes").display().to_string();
    let line = |text: &str| format!("level=info msg=\"{text}\" backup=velero/b");
    let taken = format!("{} logSource=\"fixture.go:7\"", line(&format!("snapshot at {root}")));
    let restarted = [line("plugin process exited"), line("Plugin process exited - restarting.")];
    let [ended, again] = restarted;
    assert_eq!(log(&journal), [taken.clone(), ended, again, taken]);
}
