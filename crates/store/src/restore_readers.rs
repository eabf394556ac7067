//! The restores that read a backup, as their claims say it: also those of other clusters and namespaces, and of commands, of which no
//! server has a Restore.

use crate::store::AT_ONCE;
use crate::{Store, StoreError};
use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use lifeboat_archive::layout::RESTORES;
use lifeboat_archive::restore_claim::RestoreClaim;

/// The longest time after its beginning for which a restore counts.
const LONGEST: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A restore that has claimed its name in a location, and reads a backup there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReader {
    /// The name of the restore.
    pub restore: String,
    /// Its claim.
    pub claim: RestoreClaim,
    /// Until when it reads, unless it gives another sign of life before.
    pub until: Timestamp,
}

impl Store {
    /// The restores that read a backup of this location. One listing, and a look at each claim. A claim that cannot be read says nothing,
    /// which is logged.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] when the restores cannot be listed, or a claim is there and does not come.
    pub async fn restore_readers(&self, now: Timestamp) -> Result<Vec<RestoreReader>, StoreError> {
        let names = self.folders_below(RESTORES).await?;
        let claims = names.into_iter().map(|name| async {
            let claim = self.restore_claim(&name).await;
            (name, claim)
        });
        let mut claims = futures::stream::iter(claims).buffer_unordered(AT_ONCE);
        let mut readers = Vec::new();
        while let Some((restore, claim)) = claims.next().await {
            let claim = match claim {
                Ok(Some(claim)) => claim,
                Ok(None) => continue,
                Err(e) if e.is_damage() => {
                    tracing::warn!(restore, error = %e, "it is not known which backup a restore reads");
                    continue;
                }
                Err(e) => return Err(e),
            };
            // Neither a restore that waits for ever nor a clock that is far ahead keeps a backup for ever.
            let latest = claim.claimed.min(now).checked_add(LONGEST).unwrap_or(Timestamp::MAX);
            let until = claim.reads_until.map(|until| until.min(latest));
            if let Some(until) = until.filter(|until| *until > now && !claim.backup.is_empty()) {
                readers.push(RestoreReader { restore, claim, until });
            }
        }
        readers.sort_by(|a, b| a.restore.cmp(&b.restore));
        Ok(readers)
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

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * 3600).unwrap()
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
            let readers = store.restore_readers(at(hour)).await.unwrap();
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
