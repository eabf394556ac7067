//! Tests of the history of an object over the backups of a bucket, and that little is read for it.

use crate::counting::Counting;
use crate::ground::{add, options};
use lifeboat_api::{Backup, BackupPhase, Time};
use lifeboat_archive::sidecar::{self, ResourceList};
use lifeboat_browse::{History, HistoryEventKind, HistoryOptions, types_of_backups};
use lifeboat_bucket::{BlobStore, Directory, Memory, PutOptions};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_patch::Difference;
use lifeboat_store::{ArchiveCache, Store};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As many ConfigMaps as make several members, of which the one that is asked for says this.
fn objects(value: &str, revision: usize) -> Vec<Value> {
    let config_map = |name: &str, value: &str, revision: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": revision.to_string()},
            "data": {"x": value}})
    };
    let others = (0..10).map(|n| config_map(&format!("other-{n}"), "1", 1));
    others.chain([config_map("settings", value, revision)]).collect()
}

fn settings() -> ObjectKey {
    ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "settings")
}

/// Makes the record one of a backup that was begun then.
fn begun(second: i64) -> impl FnOnce(&mut Backup) {
    move |record| record.status.start_timestamp = Some(Time::new(jiff::Timestamp::from_second(second).unwrap()))
}

fn plain() -> HistoryOptions {
    HistoryOptions { open: options(), cache: None }
}

/// The first backup of each event, how many show it, and what.
async fn history_of(store: &Store, key: &ObjectKey, options: &HistoryOptions) -> History {
    History::of(store, &store.usable_backups().await.unwrap(), key, options).await
}

fn told(history: &History) -> Vec<(&str, usize, HistoryEventKind)> {
    history.events.iter().map(|event| (event.backup.as_str(), event.backups, event.happening.clone())).collect()
}

fn changed(from: &str, to: &str) -> HistoryEventKind {
    let [left, right] = [from, to].map(|value| Some(json!(value)));
    HistoryEventKind::Changed(vec![Difference { path: "/data/x".to_owned(), left, right }])
}

#[tokio::test]
async fn of_fifty_backups_only_indexes_and_changed_objects_are_read() {
    let bucket = Counting::new(Arc::new(Memory::default()));
    let store = Store::new(Arc::new(bucket.clone()));
    for n in 0..50_usize {
        // It comes with the tenth, and changes with the thirtieth; from the fortieth on only its revision does.
        let value = if n < 30 { "1" } else { "2" };
        let mut of_backup = objects(value, if n < 40 { n / 30 } else { n });
        if n < 10 {
            of_backup.pop();
        }
        add(&store, &format!("b-{n:02}"), &of_backup, begun(n as i64)).await;
    }
    for end in [".tar.gz", ".json.gz", ".json"] {
        bucket.read(end);
    }
    let history = history_of(&store, &settings(), &plain()).await;
    assert_eq!(
        told(&history),
        [
            ("b-00", 10, HistoryEventKind::Absent(None)),
            ("b-10", 1, HistoryEventKind::Appeared),
            ("b-11", 19, HistoryEventKind::Same),
            ("b-30", 1, changed("1", "2")),
            ("b-31", 19, HistoryEventKind::Same),
        ]
    );
    assert_eq!(bucket.read("-index.json.gz").len(), 50);
    let read = bucket.read(".tar.gz");
    // The two sides of the change, and the ten states after the fortieth, of which the first has its other side read already.
    assert_eq!(read.len(), 12, "{read:?}");
    assert!(read.iter().all(|(_, range)| range.is_some()), "{read:?}");
}

#[tokio::test]
async fn backups_that_leave_the_object_out_are_told_from_those_where_it_is_gone() {
    let store = Store::in_memory();
    let without = || objects("1", 1)[..10].to_vec();
    add(&store, "e", &objects("1", 1), begun(1)).await;
    add(&store, "d", &without(), |record| {
        record.spec.included_namespaces = vec!["other".to_owned()];
        begun(2)(record);
    })
    .await;
    add(&store, "c", &without(), |record| {
        record.spec.label_selector = Some(lifeboat_select::parse_selector("a=b").unwrap());
        begun(3)(record);
    })
    .await;
    add(&store, "b", &without(), |record| {
        record.status.phase = Some(BackupPhase::PartiallyFailed);
        begun(4)(record);
    })
    .await;
    add(&store, "a", &without(), begun(5)).await;
    for phase in [BackupPhase::Failed, BackupPhase::WaitingForPluginOperations] {
        let name = phase.as_str().to_lowercase();
        add(&store, &name, &objects("2", 2), |record| {
            record.status.phase = Some(phase);
            begun(6)(record);
        })
        .await;
    }
    let history = history_of(&store, &settings(), &plain()).await;
    assert_eq!(
        told(&history),
        [
            ("e", 1, HistoryEventKind::Present),
            ("d", 1, HistoryEventKind::NotInScope("its namespace is not included")),
            ("c", 1, HistoryEventKind::NotInScope("its labels do not match the selector of the backup")),
            ("b", 1, HistoryEventKind::Vanished(Some("the backup is PartiallyFailed".to_owned()))),
            ("a", 1, HistoryEventKind::Absent(None)),
        ]
    );
    assert_eq!((history.left_out, history.is_incomplete(), history.has_object()), (2, false, true));
}

#[tokio::test]
async fn a_backup_that_cannot_be_read_is_told_and_the_others_are_shown() {
    let memory: Arc<dyn BlobStore> = Arc::new(Memory::default());
    let store = Store::new(Arc::clone(&memory));
    for (n, value) in ["1", "1", "2"].iter().enumerate() {
        add(&store, &format!("b-{n}"), &objects(value, 1), begun(n as i64)).await;
    }
    let put = async |key: &str, bytes: &[u8]| {
        memory.put(key, bytes.to_vec().into(), PutOptions::default()).await.unwrap();
    };
    put("backups/b-1/b-1.tar.gz", b"torn").await;
    put("backups/odd/velero-backup.json", b"torn").await;
    let history = history_of(&store, &settings(), &plain()).await;
    let told: Vec<(&str, String)> = told(&history)
        .into_iter()
        .map(|(backup, _, event)| match event {
            HistoryEventKind::Unreadable(why) => (backup, why.split(':').next().unwrap().to_owned()),
            event => (backup, format!("{event:?}")),
        })
        .collect();
    assert_eq!(
        told,
        [
            ("b-0", "Present".to_owned()),
            ("b-1", "cannot read the archive backups/b-1/b-1.tar.gz".to_owned()),
            ("b-2", format!("{:?}", changed("1", "2"))),
            ("odd", "cannot read backups/odd/velero-backup.json".to_owned()),
        ]
    );
    assert!(history.is_incomplete());
}

/// Backups in which the object says these values, one after the other; the archives of some are damaged, and their indexes are in order.
async fn damaged(values: &[&str], damaged: &[&str]) -> Store {
    let memory: Arc<dyn BlobStore> = Arc::new(Memory::default());
    let store = Store::new(Arc::clone(&memory));
    for (n, value) in values.iter().enumerate() {
        add(&store, &format!("b-{n}"), &objects(value, 1), begun(n as i64)).await;
    }
    for name in damaged {
        let key = format!("backups/{name}/{name}.tar.gz");
        let size = usize::try_from(memory.head(&key).await.unwrap().size).unwrap();
        memory.put(&key, vec![0; size].into(), PutOptions::default()).await.unwrap();
    }
    store
}

#[tokio::test]
async fn an_archive_that_cannot_be_read_is_the_fault_of_no_other_backup() {
    let store = damaged(&["1", "2", "2", "3", "4", "5"], &["b-0", "b-4"]).await;
    let history = history_of(&store, &settings(), &plain()).await;
    let told: Vec<(&str, HistoryEventKind)> = told(&history)
        .into_iter()
        .map(|(backup, _, event)| {
            let begin = |why: String| why.split(" cannot be read").next().unwrap().to_owned();
            let event = match event {
                HistoryEventKind::Unreadable(why) => HistoryEventKind::Unreadable(begin(why)),
                HistoryEventKind::NotCompared(why) => HistoryEventKind::NotCompared(begin(why)),
                event => event,
            };
            (backup, event)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("b-0", HistoryEventKind::Present),
            ("b-1", HistoryEventKind::NotCompared("its state in b-0".to_owned())),
            ("b-2", HistoryEventKind::Same),
            ("b-3", changed("2", "3")),
            ("b-4", HistoryEventKind::Unreadable("the archive backups/b-4/b-4.tar.gz".to_owned())),
            ("b-5", changed("3", "5")),
        ]
    );
    assert!(history.is_incomplete());
}

#[tokio::test]
async fn a_backup_with_a_label_selector_says_when_the_labels_cannot_be_read() {
    let store = damaged(&["1"], &["b-0"]).await;
    add(&store, "b-1", &objects("1", 1)[..10], |record| {
        record.spec.label_selector = Some(lifeboat_select::parse_selector("a=b").unwrap());
        begun(1)(record);
    })
    .await;
    let history = history_of(&store, &settings(), &plain()).await;
    let HistoryEventKind::Vanished(Some(doubt)) = &history.events[1].happening else { panic!("{history:?}") };
    let expected = "the backup has a label selector; the labels in b-0 cannot be read: ";
    assert_eq!(doubt.get(..expected.len()), Some(expected), "{doubt}");
}

/// A bucket with the backups of Velero that lie in the repository, and its folder.
fn of_velero() -> (tempfile::TempDir, Counting) {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testbed/fixtures/velero/backups");
    let folder = tempfile::tempdir().unwrap();
    copy(&fixtures, &folder.path().join("backups"));
    let bucket = Counting::new(Arc::new(Directory::open(folder.path()).unwrap()));
    (folder, bucket)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

#[tokio::test]
async fn archives_without_index_are_read_once_unless_they_are_rewritten() {
    let (folder, bucket) = of_velero();
    let store = Store::new(Arc::new(bucket.clone()));
    let kept = tempfile::tempdir().unwrap();
    let cache = kept.path().join("archives");
    let options = HistoryOptions { open: options(), cache: Some(ArchiveCache::new(cache.clone())) };
    let key = ObjectKey::new(GroupResource::new("", "configmaps"), Some("app1"), "settings");
    let expected = [("one-ns", 1, HistoryEventKind::Present), ("selector", 3, HistoryEventKind::Same)];
    let history = history_of(&store, &key, &options).await;
    assert_eq!(told(&history), expected);
    assert_eq!(bucket.read(".tar.gz").len(), 4);
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 4);
    let history = history_of(&store, &key, &options).await;
    assert_eq!(told(&history), expected);
    assert_eq!(bucket.read(".tar.gz"), []);

    // The same bytes, written later.
    let archive = folder.path().join("backups/selector/selector.tar.gz");
    let bytes = std::fs::read(&archive).unwrap();
    std::fs::remove_file(&archive).unwrap();
    std::fs::write(&archive, bytes).unwrap();
    let history = history_of(&store, &key, &options).await;
    assert_eq!(told(&history), expected);
    assert_eq!(bucket.read(".tar.gz").len(), 1);

    // Whether a selector leaves it out is asked of its labels, which no index has.
    let plain = ObjectKey::new(GroupResource::new("", "configmaps"), Some("app1"), "with-finalizer");
    let history = history_of(&store, &plain, &options).await;
    let outside = HistoryEventKind::NotInScope("its labels do not match the selector of the backup");
    assert_eq!(
        told(&history),
        [
            ("one-ns", 1, HistoryEventKind::Present),
            ("selector", 1, outside),
            ("cluster-false", 2, HistoryEventKind::Same)
        ]
    );
    assert_eq!(bucket.read(".tar.gz").len(), 1);

    // Nothing depends on the cache.
    std::fs::remove_dir_all(&cache).unwrap();
    std::fs::write(&cache, b"no folder").unwrap();
    assert_eq!(told(&history_of(&store, &key, &options).await), expected);
}

/// A bucket in a folder, which says when its objects were written.
fn in_folder() -> (tempfile::TempDir, Counting, Store) {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Counting::new(Arc::new(Directory::open(folder.path()).unwrap()));
    let store = Store::new(Arc::new(bucket.clone()));
    (folder, bucket, store)
}

#[tokio::test]
async fn archives_without_index_are_read_again_for_secrets_that_have_changed() {
    let (_folder, bucket, store) = in_folder();
    for (n, value) in ["1", "1", "2", "2"].into_iter().enumerate() {
        let name = format!("b-{n}");
        let mut of_backup = objects(value, n);
        let mut secret = of_backup[10].clone();
        (secret["kind"], secret["data"]["x"]) = (json!("Secret"), json!(format!("secret-{value}")));
        of_backup.push(secret);
        add(&store, &name, &of_backup, begun(n as i64)).await;
        bucket.delete(&[format!("backups/{name}/{name}-index.json.gz")]).await.unwrap();
    }
    let kept = tempfile::tempdir().unwrap();
    let again = || HistoryOptions { open: options(), cache: Some(ArchiveCache::new(kept.path().to_owned())) };
    let secret = ObjectKey::new(GroupResource::new("", "secrets"), Some("shop"), "settings");
    let values = [(settings(), ["1", "2"], 0), (secret, ["secret-1", "secret-2"], 2)];
    for (key, [from, to], expected) in values {
        for reads in [4, expected, expected] {
            assert_eq!(
                told(&history_of(&store, &key, &again()).await),
                [
                    ("b-0", 1, HistoryEventKind::Present),
                    ("b-1", 1, HistoryEventKind::Same),
                    ("b-2", 1, changed(from, to)),
                    ("b-3", 1, HistoryEventKind::Same),
                ]
            );
            assert_eq!(bucket.read(".tar.gz").len(), reads, "{key}");
        }
    }
    for entry in std::fs::read_dir(kept.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("secret-"));
    }
}

#[tokio::test]
async fn an_index_that_does_not_fit_is_as_none() {
    let (_folder, bucket, store) = in_folder();
    for n in 0..2 {
        add(&store, &format!("b-{n}"), &objects("1", n), begun(n as i64)).await;
    }
    bucket.put("backups/b-0/b-0-index.json.gz", b"torn".to_vec().into(), PutOptions::default()).await.unwrap();
    let kept = tempfile::tempdir().unwrap();
    let options = HistoryOptions { open: options(), cache: Some(ArchiveCache::new(kept.path().to_owned())) };
    let whole = || bucket.read(".tar.gz").into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    for reads in [&["backups/b-0/b-0.tar.gz", "backups/b-1/b-1.tar.gz"][..], &["backups/b-1/b-1.tar.gz"]] {
        let history = history_of(&store, &settings(), &options).await;
        assert_eq!(told(&history), [("b-0", 1, HistoryEventKind::Present), ("b-1", 1, HistoryEventKind::Same)]);
        assert_eq!(whole(), reads);
    }
}

#[tokio::test]
async fn a_word_that_names_no_type_is_not_looked_for_in_all_backups() {
    let bucket = Counting::new(Arc::new(Memory::default()));
    let store = Store::new(Arc::new(bucket.clone()));
    let gizmo = json!({"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "one", "uid": "g"}});
    for n in 0..30 {
        let (name, mut of_backup) = (format!("b-{n:02}"), objects("1", 1));
        let mut list = ResourceList::default();
        list.add("v1", "ConfigMap", Some("shop"), "settings");
        if n == 2 {
            of_backup.push(gizmo.clone());
            list.add("example.com/v1", "Gizmo", None, "one");
        }
        add(&store, &name, &of_backup, begun(n)).await;
        let list = sidecar::encode(&list).unwrap();
        let key = format!("backups/{name}/{name}-resource-list.json.gz");
        bucket.put(&key, list.into(), PutOptions::default()).await.unwrap();
    }
    let backups = store.usable_backups().await.unwrap();
    for (word, found, reads) in [
        ("kettles", &[][..], 10),
        ("kettles.example.com", &[], 10),
        ("gizmos", &["gizmos.example.com"], 11),
        ("gizmos.example.com", &["gizmos.example.com"], 11),
        ("configmaps", &["configmaps"], 0),
    ] {
        let named = types_of_backups(&store, &backups, word, &plain()).await;
        assert_eq!(named.iter().map(|found| found.group_resource().to_string()).collect::<Vec<_>>(), found);
        assert_eq!(bucket.read("-index.json.gz").len(), reads, "{word}");
    }
}

#[tokio::test]
async fn a_word_names_types_of_the_backups() {
    let (_folder, bucket) = of_velero();
    let store = Store::new(Arc::new(bucket));
    let named = async |word: &str| {
        let found = types_of_backups(&store, &store.usable_backups().await.unwrap(), word, &plain()).await;
        found.iter().map(|found| (found.group_resource().to_string(), found.namespaced)).collect::<Vec<_>>()
    };
    assert_eq!(named("deploy").await, [("deployments.apps".to_owned(), true)]);
    assert_eq!(named("pv").await, [("persistentvolumes".to_owned(), false)]);
    let events = [("events".to_owned(), true), ("events.events.k8s.io".to_owned(), true)];
    assert_eq!(named("events").await, events);
    assert_eq!(named("gadgets").await, [("gadgets.example.com".to_owned(), false)]);
    assert_eq!(named("gadgets.example.com").await, [("gadgets.example.com".to_owned(), false)]);
    assert_eq!(named("gadgets.example").await, [("gadgets.example.com".to_owned(), false)]);
    assert_eq!(named("gadgets.v1.example.com").await, [("gadgets.example.com".to_owned(), false)]);
    assert_eq!(named("gadgets.example.org").await, []);
    assert_eq!(named("kettles").await, []);
}
