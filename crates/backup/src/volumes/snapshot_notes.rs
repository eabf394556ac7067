//! The notes of native snapshots, beside the claim of their backup too.
//!
//! The other notes of a backup are deleted with its Backup. Snapshots that a snapshotter has made cannot be listed, so
//! their notes have to outlive it: a process that removes the unfinished files of the backup later finds them there.

use crate::env::Env;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use lifeboat_operation::{Records, RecordsError, is_key};
use lifeboat_store::{Store, StoreError};
use lifeboat_volume::native::SnapshotNote;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The longest time for which a request to the bucket is waited for when the backup was cancelled.
const GRACE: Duration = Duration::from_secs(4);
/// The longest time for which it is waited for when the backup has its record.
const FORGETTING: Duration = Duration::from_secs(30);
/// Notes that are read, and written, at once.
const AT_ONCE: usize = 16;

/// The notes of a backup; notes of its native snapshots are kept in its folder in the bucket too. `cancel` ends the
/// waiting for the bucket.
#[must_use]
pub fn noted_beside_claim(
    records: Arc<dyn Records>,
    store: &Store,
    backup: &str,
    cancel: &CancellationToken,
) -> Arc<dyn Records> {
    Arc::new(BesideClaim { records, store: store.clone(), backup: backup.to_owned(), cancel: cancel.clone() })
}

/// Removes the notes beside the claim of a backup that has its record now, which lists its snapshots. Notes that stay
/// do no harm: they are deleted with the backup.
pub(crate) async fn forget_beside_claim(backup: &str, env: &Env) {
    let why = match timeout(FORGETTING, forget(&env.store, backup)).await {
        Ok(Ok(())) => return,
        Ok(Err(e)) => e.to_string(),
        Err(_) => format!("no answer within {} s", FORGETTING.as_secs()),
    };
    let text = "Notes of snapshots stay beside the claim of the backup, which needs them no more";
    env.operation.journal.info(text, &[("why", &why)]);
}

async fn forget(store: &Store, backup: &str) -> Result<(), StoreError> {
    let notes = store.note_names(backup, SnapshotNote::KEYS).await?;
    store.remove_notes(backup, &notes).await
}

/// The ones are written first, so they are never older than the others: where both have a note, the ones count.
#[derive(Debug)]
struct BesideClaim {
    records: Arc<dyn Records>,
    store: Store,
    backup: String,
    cancel: CancellationToken,
}

impl BesideClaim {
    /// Waits for the bucket's answer, but no longer than [`GRACE`] after a cancellation.
    async fn asked<T>(&self, request: impl Future<Output = Result<T, StoreError>>) -> Result<T, RecordsError> {
        let overdue = async {
            self.cancel.cancelled().await;
            sleep(GRACE).await;
        };
        tokio::select! {
            done = request => done.map_err(|e| RecordsError::Unavailable(e.to_string())),
            () = overdue => {
                let why = "the backup was cancelled, and its bucket did not answer in time";
                Err(RecordsError::Unavailable(why.to_owned()))
            }
        }
    }

    async fn names(&self) -> Result<Vec<String>, RecordsError> {
        self.asked(self.store.note_names(&self.backup, SnapshotNote::KEYS)).await
    }

    async fn write_beside(&self, notes: BTreeMap<String, Option<Bytes>>) -> Result<(), RecordsError> {
        let (mut kept, mut removed) = (Vec::new(), Vec::new());
        for (key, note) in notes.into_iter().filter(|(key, _)| is_of_snapshot(key)) {
            match note {
                Some(note) => kept.push((key, note)),
                None => removed.push(key),
            }
        }
        self.asked(async {
            let put = |(key, note): (String, Bytes)| async move { self.store.put_note(&self.backup, &key, note).await };
            futures::stream::iter(kept).map(put).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
            self.store.remove_notes(&self.backup, &removed).await
        })
        .await
    }
}

fn is_of_snapshot(key: &str) -> bool {
    key.starts_with(SnapshotNote::KEYS)
}

#[async_trait]
impl Records for BesideClaim {
    async fn read(&self, key: &str) -> Result<Option<Bytes>, RecordsError> {
        match self.records.read(key).await? {
            None if is_of_snapshot(key) => self.asked(self.store.note(&self.backup, key)).await,
            note => Ok(note),
        }
    }

    async fn keys(&self) -> Result<BTreeSet<String>, RecordsError> {
        let mut keys = self.records.keys().await?;
        keys.extend(self.names().await?);
        Ok(keys)
    }

    async fn read_all(&self, prefix: &str) -> Result<BTreeMap<String, Bytes>, RecordsError> {
        let mut all = self.records.read_all(prefix).await?;
        if !is_of_snapshot(prefix) && !SnapshotNote::KEYS.starts_with(prefix) {
            return Ok(all);
        }
        let missing =
            self.names().await?.into_iter().filter(|name| name.starts_with(prefix) && !all.contains_key(name));
        let missing: Vec<String> = missing.collect();
        let read = |key: String| async move {
            let note = self.asked(self.store.note(&self.backup, &key)).await?;
            Ok::<_, RecordsError>(note.map(|note| (key, note)))
        };
        let beside: Vec<_> = futures::stream::iter(missing).map(read).buffered(AT_ONCE).try_collect().await?;
        all.extend(beside.into_iter().flatten());
        Ok(all)
    }

    async fn write(&self, notes: BTreeMap<String, Option<Bytes>>) -> Result<(), RecordsError> {
        if let Some(key) = notes.keys().find(|key| !is_key(key)) {
            return Err(RecordsError::Key(key.clone()));
        }
        self.records.write(notes.clone()).await?;
        self.write_beside(notes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_operation::{InMemory, conformance};

    fn beside(store: &Store) -> Arc<dyn Records> {
        noted_beside_claim(Arc::new(InMemory::default()), store, "b", &CancellationToken::new())
    }

    #[tokio::test]
    async fn they_are_notes_like_any_others() {
        conformance::run(beside(&Store::in_memory())).await;
    }

    #[tokio::test]
    async fn those_of_snapshots_outlive_the_others() {
        let store = Store::in_memory();
        let (first, second) = (beside(&store), beside(&store));
        let note = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let notes = [("snapshot-1", note("1")), ("snapshot-2", note("2")), ("hook-1", note("3"))];
        first.write(notes.map(|(key, note)| (key.to_owned(), note)).into()).await.unwrap();
        let all = |records: Arc<dyn Records>| async move { records.read_all("").await.unwrap() };
        assert_eq!(all(Arc::clone(&first)).await.len(), 3);
        let found =
            [("snapshot-1".to_owned(), Bytes::from_static(b"1")), ("snapshot-2".to_owned(), Bytes::from_static(b"2"))];
        assert_eq!(all(Arc::clone(&second)).await, found.into());
        assert_eq!(second.read("snapshot-1").await, Ok(note("1")));
        assert_eq!(second.read("hook-1").await, Ok(None));
        second.write([("snapshot-1".to_owned(), None)].into()).await.unwrap();
        assert_eq!(second.keys().await.unwrap(), ["snapshot-2".to_owned()].into());
        forget(&store, "b").await.unwrap();
        assert_eq!(second.keys().await.unwrap(), BTreeSet::new());
    }
}
