//! Snapshots in a repository of kopia's whose backups are deleted.

use super::open::writer_options;
use super::tests::{Ground, secret};
use crate::options::RandomSource;
use crate::work::kept_snapshots::delete_kept_snapshots;
use lifeboat_api::BackupStorageLocationAccessMode;
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::repository_snapshot::RepositorySnapshot;
use lifeboat_bucket::{BlobStore, PutOptions};
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::snapshot::{SnapshotDocument, Source, Stats};
use lifeboat_kopia::format::time::UnixNanos;
use lifeboat_kopia::{Random, Repository, WriteOptions};
use lifeboat_repository::{blobs_of, open};
use lifeboat_store::Store;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const PASSWORD: &str = "p";

async fn opened(ground: &Ground) -> Repository {
    let blobs = blobs_of(ground.bucket.clone(), "shop");
    open(blobs, Password::new(PASSWORD.into()), writer_options(&ground.context).open).await.unwrap()
}

/// Bytes that differ from call to call: packs are named by them.
fn random() -> Random {
    let next = Mutex::new(0_u8);
    Arc::new(move |bytes: &mut [u8]| {
        let mut next = next.lock().unwrap();
        *next += 1;
        bytes.fill(*next);
    })
}

/// Saves a pinned snapshot of each of these backups, and gives their IDs.
async fn saved(ground: &Ground, backups: &[&str]) -> Vec<String> {
    let name = || "default".to_owned();
    let random = ground.context.env.random.0.clone();
    let write = WriteOptions { user: name(), host: name(), random, threads: 1, memory: 1, uploads: 1 };
    let writer = opened(ground).await.writer(write).await.unwrap();
    let mut ids = Vec::new();
    for backup in backups {
        let tags = [("backup", *backup), ("backup-uid", &format!("u-{backup}"))];
        let document = SnapshotDocument {
            source: Source { host: name(), user: name(), path: (*backup).to_owned() },
            description: String::new(),
            start: UnixNanos(0),
            end: UnixNanos(0),
            stats: Stats::default(),
            incomplete: None,
            root: None,
            tags: BTreeMap::from(tags.map(|(key, value)| (key.to_owned(), value.to_owned()))),
            pins: vec!["velero-pin".to_owned()],
        };
        ids.push(writer.save_snapshot(&document).unwrap());
    }
    writer.flush().await.unwrap();
    ids
}

async fn left(ground: &Ground) -> Vec<String> {
    let mut left: Vec<String> = opened(ground).await.snapshots().await.unwrap().into_iter().map(|one| one.id).collect();
    left.sort();
    left
}

async fn listed(store: &Store, backup: &str, id: &str) {
    let one = RepositorySnapshot {
        repository: "kopia/shop".to_owned(),
        snapshot_id: id.to_owned(),
        uploader: "kopia".to_owned(),
        volume_namespace: "shop".to_owned(),
        backup: backup.to_owned(),
        deleted_at: jiff::Timestamp::UNIX_EPOCH,
    };
    store.list_repository_snapshots(backup, &format!("u-{backup}"), &[one]).await.unwrap();
}

#[tokio::test]
async fn a_later_pass_deletes_what_the_deletion_of_a_backup_has_left() {
    let mut ground = Ground::start(vec![secret("wrong")]).await;
    ground.context.env.random = RandomSource(random());
    ground.with_repository("shop", PASSWORD).await;
    let ids = saved(&ground, &["gone", "there"]).await;
    let store = Store::new(ground.bucket.clone());
    listed(&store, "gone", &ids[0]).await;
    listed(&store, "there", &ids[1]).await;
    // The deletion of this one goes on.
    let claim = json!({"format": "lifeboat.io/claim/v1", "clusterUID": "c", "backupUID": "u-there", "namespace": "velero", "attempt": 1,
        "claimed": "2026-01-01T00:00:00Z"});
    let key = BackupFile::Claim.key("there");
    ground.bucket.put(&key, claim.to_string().into_bytes().into(), PutOptions::default()).await.unwrap();
    let kept = async |backup: &str| store.repository_snapshots(backup, &format!("u-{backup}")).await.unwrap().len();

    // With a password that does not open the repository the list stays.
    delete_kept_snapshots(&ground.context, &store, &ground.location).await;
    assert_eq!(kept("gone").await, 1);
    ground.sandbox.apply(vec![secret(PASSWORD)]).await.unwrap();
    // Not before a day is over, nor in a location that is only read.
    delete_kept_snapshots(&ground.context, &store, &ground.location).await;
    ground.context.notes = Arc::default();
    let mut read_only = ground.location.clone();
    read_only.spec.access_mode = Some(BackupStorageLocationAccessMode::ReadOnly);
    delete_kept_snapshots(&ground.context, &store, &read_only).await;
    assert_eq!((kept("gone").await, left(&ground).await.len()), (1, 2));

    delete_kept_snapshots(&ground.context, &store, &ground.location).await;
    assert_eq!((kept("gone").await, kept("there").await), (0, 1));
    assert_eq!(left(&ground).await, [ids[1].clone()]);
}
