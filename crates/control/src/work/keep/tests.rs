//! Two clusters with one bucket, and servers that die between the two writes.

use super::*;
use crate::options::Providers;
use crate::stub::{context, sandbox};
use crate::work::expiry;
use async_trait::async_trait;
use bytes::Bytes;
use lifeboat_api::{BackupPhase, DeleteBackupRequest};
use lifeboat_archive::layout::BackupFile;
use lifeboat_bucket::{BlobStore, Memory, PutOptions, StorageAccess};
use std::sync::Arc;

/// A provider that gives the same bucket for all locations.
#[derive(Debug)]
struct Shared(Arc<Memory>);

#[async_trait]
impl Providers for Shared {
    async fn open(&self, _: &BackupStorageLocation, _: StorageAccess) -> Result<Arc<dyn BlobStore>, String> {
        Ok(Arc::clone(&self.0) as Arc<dyn BlobStore>)
    }

    fn may_keep(&self, _: &BackupStorageLocation) -> bool {
        false
    }
}

const HOLD: &str = well_known::ANNOTATION_HOLD;
const RECORDED: &str = well_known::ANNOTATION_HOLD_RECORDED;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn time(second: i64) -> Option<Time> {
    Some(Time::new(at(second)))
}

fn until_then(second: i64) -> KeepChange {
    KeepChange { until: Some(at(second)), note: None }
}

/// A cluster with its copy of backup `b`, which began at this second.
struct Cluster {
    _sandbox: lifeboat_sandbox::Sandbox,
    context: Context,
    location: BackupStorageLocation,
}

impl Cluster {
    async fn on(bucket: &Arc<Memory>) -> Self {
        let (sandbox, cluster) = sandbox().await;
        let context = context(cluster, Arc::new(Shared(Arc::clone(bucket))));
        let mut location = BackupStorageLocation::default();
        (location.metadata.name, location.metadata.namespace) = ("main".into(), "velero".into());
        location.spec.provider = "aws".into();
        let mut backup = ended(0);
        backup.metadata.namespace = "velero".into();
        context.client.create("b", &backup).await.unwrap().unwrap();
        Self { _sandbox: sandbox, context, location }
    }

    async fn backup(&self) -> Backup {
        self.context.client.get("b").await.unwrap().unwrap()
    }

    /// Expiration, hold, and the hold that is noted.
    async fn state(&self) -> (Option<Time>, Option<String>, Option<String>) {
        let backup = self.backup().await;
        let said = |name: &str| backup.metadata.annotations.get(name).cloned();
        (backup.status.expiration, said(HOLD), said(RECORDED))
    }

    async fn hold(&self, value: &str) {
        let before = self.backup().await;
        let mut after = before.clone();
        match value {
            "" => drop(after.metadata.annotations.remove(HOLD)),
            value => drop(after.metadata.annotations.insert(HOLD.into(), value.into())),
        }
        self.context.client.change(&before, &after).await.unwrap();
    }

    async fn prolong(&self, until: i64) {
        let by = [Keeper::WrongRules { schedule: "s".into(), why: "x".into() }];
        let backup = self.backup().await;
        prolong(&self.context, &backup, Some(&self.location), &by, until_then(until)).await.unwrap();
    }

    async fn record(&self) {
        record(&self.context, &self.backup().await, Some(&self.location), KeepChange::default()).await.unwrap();
    }

    /// Its time is over; how many requests to delete it there are then.
    async fn expires(&self) -> usize {
        expiry::delete(&self.context, &self.backup().await, Some(&self.location)).await.unwrap();
        self.context.client.list::<DeleteBackupRequest>("").await.unwrap().len()
    }
}

fn ended(expiration: i64) -> Backup {
    let mut backup = Backup::default();
    backup.metadata.name = "b".into();
    backup.status.phase = Some(BackupPhase::Completed);
    (backup.status.start_timestamp, backup.status.completion_timestamp) = (time(-90), time(-80));
    backup.status.expiration = time(expiration);
    backup
}

/// A bucket with the record of the backup, which has fields that are not known here.
async fn bucket() -> Arc<Memory> {
    let bucket = Arc::new(Memory::default());
    let mut record = serde_json::to_value(ended(0)).unwrap();
    record["spec"]["ofTheFuture"] = json!({"number": 1.50});
    record["metadata"]["annotations"] = json!({"own": "1"});
    put(&bucket, record.to_string()).await;
    bucket
}

async fn put(bucket: &Memory, record: String) {
    let record = Bytes::from(record);
    bucket.put(&BackupFile::Metadata.key("b"), record.into(), PutOptions::default()).await.unwrap();
}

async fn in_bucket(bucket: &Arc<Memory>) -> Value {
    Store::new(Arc::clone(bucket) as Arc<dyn BlobStore>).record("b").await.unwrap()
}

#[tokio::test]
async fn an_expiration_is_moved_in_the_bucket_and_in_the_cluster() {
    let bucket = bucket().await;
    let mut expected = in_bucket(&bucket).await;
    let here = Cluster::on(&bucket).await;
    let before = here.backup().await;
    here.prolong(500).await;
    expected["status"]["expiration"] = json!(at(500).to_string());
    assert_eq!(in_bucket(&bucket).await, expected);
    assert_eq!(here.state().await, (time(500), None, None));
    // The server died between both writes, or the next one does not know that they were made.
    let by = [Keeper::WrongRules { schedule: "s".into(), why: "x".into() }];
    let again = prolong(&here.context, &before, Some(&here.location), &by, until_then(400)).await.unwrap_err();
    assert!(matches!(&again, StepError::Cluster(e) if e.is_conflict()), "{again}");
    assert_eq!(in_bucket(&bucket).await, expected, "it is never moved back");
    // Another cluster, which sees the old end.
    let there = Cluster::on(&bucket).await;
    there.prolong(300).await;
    assert_eq!(there.state().await, (time(500), None, None));
    assert_eq!(in_bucket(&bucket).await, expected);
}

#[tokio::test]
async fn a_backup_without_a_record_of_its_own_is_kept_in_the_cluster() {
    let mut other = ended(0);
    other.status.start_timestamp = time(-70);
    for record in
        [None, Some(serde_json::to_string(&other).unwrap()), Some("{".to_owned()), Some("{\"spec\":1}".into())]
    {
        let bucket = Arc::new(Memory::default());
        if let Some(record) = &record {
            put(&bucket, record.clone()).await;
        }
        let here = Cluster::on(&bucket).await;
        here.hold("forever").await;
        here.prolong(500).await;
        let expected = (time(500), Some("forever".to_owned()), Some("forever".to_owned()));
        assert_eq!(here.state().await, expected, "{record:?}");
        if let Some(record) = record {
            let stored = bucket.get(&BackupFile::Metadata.key("b"), None).await.unwrap();
            let stored: Vec<Bytes> = futures::TryStreamExt::try_collect(stored).await.unwrap();
            assert_eq!(stored.concat(), record.as_bytes(), "it is left alone");
        }
    }
}

#[tokio::test]
async fn another_cluster_keeps_what_is_held_here() {
    let bucket = bucket().await;
    let (here, there) = (Cluster::on(&bucket).await, Cluster::on(&bucket).await);
    here.hold("forever").await;
    here.record().await;
    let forever = || Some("forever".to_owned());
    assert_eq!(here.state().await, (time(0), forever(), forever()));
    assert_eq!(in_bucket(&bucket).await["metadata"]["annotations"], json!({"own": "1", HOLD: "forever"}));
    // The clock stands at zero, where its time is over.
    assert_eq!(there.expires().await, 0);
    assert_eq!(there.state().await, (time(0), forever(), forever()));
    here.hold("").await;
    here.record().await;
    assert_eq!(in_bucket(&bucket).await["metadata"]["annotations"], json!({"own": "1", HOLD: "released"}));
    there.prolong(50).await;
    assert_eq!(there.state().await, (time(50), None, None), "it was released there");
    // What the other cluster has moved is taken over, and then it goes.
    assert_eq!(here.expires().await, 0);
    assert_eq!(here.state().await, (time(50), None, None));
    let mut over = in_bucket(&bucket).await;
    over["status"]["expiration"] = json!(at(0).to_string());
    put(&bucket, over.to_string()).await;
    assert_eq!(here.expires().await, 1);
}

#[tokio::test]
async fn a_label_that_said_why_it_stayed_goes_when_it_is_kept() {
    let bucket = bucket().await;
    let here = Cluster::on(&bucket).await;
    let before = here.backup().await;
    let mut after = before.clone();
    after.metadata.labels.insert(well_known::LABEL_GC_FAILURE.into(), "BSLReadOnly".into());
    here.context.client.change(&before, &after).await.unwrap();
    here.prolong(500).await;
    assert_eq!(here.backup().await.metadata.labels.get(well_known::LABEL_GC_FAILURE), None);
}

const KEPT_BY: &str = well_known::ANNOTATION_KEPT_BY;

/// A schedule is deleted, and the server that did not see it any more would let its backup go.
#[tokio::test]
async fn rules_that_keep_a_backup_go_into_its_record_and_then_into_the_cluster() {
    let bucket = bucket().await;
    let here = Cluster::on(&bucket).await;
    let rules = KeptBy { schedule: "s".into(), ..KeptBy::default() };
    let change = KeepChange { until: None, note: Some(rules.clone()) };
    record(&here.context, &here.backup().await, Some(&here.location), change).await.unwrap();
    let own = here.context.client.cluster.uid().await.unwrap();
    let since = Some(Time::new(Timestamp::UNIX_EPOCH));
    let expected = KeptBy { cluster: own, since, ..rules };
    assert_eq!(here.backup().await.metadata.annotations[KEPT_BY], expected.value());
    assert_eq!(in_bucket(&bucket).await["metadata"]["annotations"][KEPT_BY], expected.value());
    // Another cluster has a copy of before that was written.
    let there = Cluster::on(&bucket).await;
    assert_eq!(there.expires().await, 0);
    assert_eq!(there.backup().await.metadata.annotations[KEPT_BY], expected.value());
}

#[tokio::test]
async fn a_backup_that_was_released_goes_in_every_cluster() {
    let bucket = bucket().await;
    let (here, there) = (Cluster::on(&bucket).await, Cluster::on(&bucket).await);
    let note = Some(KeptBy { schedule: "s".into(), ..KeptBy::default() });
    let change = KeepChange { until: None, note };
    record(&here.context, &here.backup().await, Some(&here.location), change).await.unwrap();
    let before = here.backup().await;
    let mut after = before.clone();
    let said = KeptBy { released: time(0), ..KeptBy::of(&before.metadata).unwrap().unwrap() };
    after.metadata.annotations.insert(KEPT_BY.into(), said.value());
    here.context.client.change(&before, &after).await.unwrap();
    here.record().await;
    let expected = KeptBy { recorded: true, ..said }.value();
    assert_eq!(here.backup().await.metadata.annotations[KEPT_BY], expected);
    assert_eq!(in_bucket(&bucket).await["metadata"]["annotations"][KEPT_BY], expected);
    assert_eq!(there.expires().await, 1);
}
