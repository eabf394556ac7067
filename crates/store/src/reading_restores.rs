//! The restores that read a backup, as their claims say it: also those of other clusters and namespaces, and of commands, of which no
//! server has a Restore.

use crate::restore_claim::{CUT_OFF_AGE, ReadRestoreClaim};
use crate::{Store, StoreError};
use futures::StreamExt;
use jiff::Timestamp;
use lifeboat_archive::layout::restore_claim_key;
use lifeboat_archive::restore_claim::RestoreClaim;
use lifeboat_bucket::{BlobStore, Entry, ListOptions};

/// A restore that has claimed its name in a location, and reads a backup there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingRestore {
    /// The name of the restore.
    pub restore: String,
    /// Its claim.
    pub claim: RestoreClaim,
    /// Until when it reads, unless it gives another sign of life before.
    pub until: Timestamp,
}

impl Store {
    /// The restores that read a backup of this location. One listing, and a look at each claim. A claim that cannot be read says nothing,
    /// which is logged; neither does one that does not come and was written a month ago.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] when the restores cannot be listed, or a claim of the last month is there and does not come.
    pub async fn reading_restores(&self, now: Timestamp) -> Result<Vec<ReadingRestore>, StoreError> {
        let mut claims = self.read_restore_claims().await?;
        let mut readers = Vec::new();
        while let Some(ReadRestoreClaim { restore, claim }) = claims.next().await {
            let claim = match claim {
                Ok(Some(claim)) => claim,
                Ok(None) => continue,
                Err(e) if e.is_damage() => {
                    tracing::warn!(restore, error = %e, "it is not known which backup a restore reads");
                    continue;
                }
                // Such as one that was archived or is locked: it must not keep all backups for ever.
                Err(e) if self.is_too_old(&restore, now).await? => {
                    tracing::warn!(restore, error = %e, "the claim of a restore cannot be read, and is too old to count");
                    continue;
                }
                Err(e) => return Err(e),
            };
            // Neither a restore that waits for ever nor a clock that is far ahead keeps a backup for ever.
            let latest = claim.claimed.min(now).checked_add(CUT_OFF_AGE).unwrap_or(Timestamp::MAX);
            let until = claim.reads_until.map(|until| until.min(latest));
            if let Some(until) = until.filter(|until| *until > now && !claim.backup.is_empty()) {
                readers.push(ReadingRestore { restore, claim, until });
            }
        }
        readers.sort_by(|a, b| a.restore.cmp(&b.restore));
        Ok(readers)
    }

    /// Returns true if the claim of a restore was written so long ago that it does not count whatever it says.
    async fn is_too_old(&self, restore: &str, now: Timestamp) -> Result<bool, StoreError> {
        let key = restore_claim_key(restore);
        // The list says it also of an object that may not be looked at.
        let page = self.bucket.list(ListOptions { prefix: key.clone(), ..ListOptions::default() }).await?;
        let written = page.entries.iter().find_map(|entry| match entry {
            Entry::Object(found) if found.key == key => found.modified.and_then(|at| Timestamp::try_from(at).ok()),
            _ => None,
        });
        Ok(written.is_some_and(|written| now.duration_since(written) > CUT_OFF_AGE))
    }

    /// Notes in the claim of this very restore until when it reads its backup, unless it gives another sign of life before; `None` when it
    /// reads it no more. Nothing is changed when the claim is another's, or there is none.
    ///
    /// # Errors
    /// [`StoreError::Bucket`], [`StoreError::Sidecar`].
    pub async fn note_restore_reads(
        &self,
        name: &str,
        cluster_uid: &str,
        restore_uid: &str,
        until: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let found = self.restore_claim(name).await?.filter(|claim| claim.is_of(cluster_uid, restore_uid));
        let Some(found) = found.filter(|claim| claim.reads_until != until) else { return Ok(()) };
        self.put_restore_claim(name, &RestoreClaim { reads_until: until, ..found }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore_claim::{BackupReading, RestoreOwner};
    use async_trait::async_trait;
    use jiff::SignedDuration;
    use lifeboat_bucket::faults::StoreDecorator;
    use lifeboat_bucket::{BucketError, ByteStream, ErrorKind, Memory, PutOptions};
    use std::ops::Range;
    use std::sync::Arc;
    use std::time::SystemTime;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * 3600).unwrap()
    }

    /// A bucket whose objects can be listed, and not be read.
    #[derive(Debug)]
    struct Locked(Arc<Memory>);

    #[async_trait]
    impl StoreDecorator for Locked {
        fn inner(&self) -> &dyn BlobStore {
            &*self.0
        }
        async fn get(&self, key: &str, _: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
            let (key, store, message) = (key.to_owned(), self.inner().describe(), "it is archived".to_owned());
            Err(BucketError { kind: ErrorKind::Denied, operation: "get", key, store, message, source: None })
        }
    }

    #[tokio::test]
    async fn a_claim_that_cannot_be_read_keeps_backups_for_a_month_and_no_longer() {
        let bucket = Arc::new(Memory::default());
        bucket.put(&restore_claim_key("r"), b"{}".to_vec().into(), PutOptions::default()).await.unwrap();
        bucket.set_modified(&restore_claim_key("r"), SystemTime::UNIX_EPOCH);
        let written = Timestamp::UNIX_EPOCH;
        let store = Store::new(Arc::new(Locked(bucket)));
        let error = store.reading_restores(written + CUT_OFF_AGE).await.unwrap_err().to_string();
        assert!(error.contains(&restore_claim_key("r")) && error.ends_with("it is archived"), "{error}");
        let later = written + CUT_OFF_AGE + SignedDuration::from_secs(1);
        assert_eq!(store.reading_restores(later).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_restore_that_gives_signs_of_life_is_known_to_read_its_backup() {
        let store = Store::in_memory();
        let owner = |name: &str, backup: &str| RestoreOwner {
            name: name.into(),
            uid: name.into(),
            cluster_uid: "c".into(),
            namespace: String::new(),
            keep_replaced_until: at(0),
            reads: (!backup.is_empty()).then(|| BackupReading {
                backup: backup.into(),
                backup_uid: "u".into(),
                until: at(3),
            }),
        };
        for (name, backup) in [("a", "b1"), ("b", "b2"), ("without", "")] {
            store.claim_restore(&owner(name, backup), at(0)).await.unwrap();
        }
        let reads = async |hour: i64| {
            let readers = store.reading_restores(at(hour)).await.unwrap();
            readers.into_iter().map(|one| (one.restore, one.claim.backup, one.until)).collect::<Vec<_>>()
        };
        let [a, b] = [("a".to_owned(), "b1".to_owned(), at(3)), ("b".to_owned(), "b2".to_owned(), at(3))];
        assert_eq!(reads(2).await, [a.clone(), b]);
        store.note_restore_reads("b", "c", "b", None).await.unwrap();
        assert_eq!(reads(2).await, std::slice::from_ref(&a), "it has ended");
        assert_eq!(reads(3).await, [], "it was cut off");
        store.note_restore_reads("a", "other", "a", Some(at(9))).await.unwrap();
        store.note_restore_reads("a", "c", "other", None).await.unwrap();
        assert_eq!(reads(2).await, std::slice::from_ref(&a), "nobody else gives its signs");
        store.note_restore_reads("a", "c", "a", Some(at(6))).await.unwrap();
        assert_eq!(reads(5).await, [("a".to_owned(), "b1".to_owned(), at(6))]);
        store.note_restore_reads("nobody", "c", "a", Some(at(6))).await.unwrap();
        assert_eq!(store.restore_claim("nobody").await.unwrap(), None);
    }
}
