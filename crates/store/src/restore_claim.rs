//! The claim of a restore on its name, by which its files belong to it: two clusters that share a bucket may have a
//! restore of one name.

use crate::if_absent::{PutIfAbsent, SETTLED};
use crate::store::AT_ONCE;
use crate::{Store, StoreError};
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::{SignedDuration, Timestamp};
use lifeboat_archive::gojson;
use lifeboat_archive::layout::{RESTORES, RestoreFile, replaced_prefix, restore_claim_key, restore_folder};
use lifeboat_archive::restore_claim::{RESTORE_CLAIM_FORMAT, RestoreClaim};
use lifeboat_bucket::{BlobStore, ErrorKind, PutOptions};
use tokio::time::sleep;

/// The age of claim and results at which the name of another cluster's restore may be taken. The name of a cluster that
/// lives for one night is free in the next one.
const ABANDONED: SignedDuration = SignedDuration::from_hours(20);

/// The age of a claim at which its restore is taken to have been cut off, where nothing says that it has ended. It may be running before.
pub(crate) const CUT_OFF_AGE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A restore, as the owner of files in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOwner {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// UID of the cluster; empty when unknown.
    pub cluster_uid: String,
    /// Namespace of the server that restores; empty when no server does.
    pub namespace: String,
    /// The time until which the originals of objects that it has recreated or removed stay.
    pub keep_replaced_until: Timestamp,
    /// The backup that it reads; `None` where that is not known, or it has ended.
    pub reads: Option<BackupReading>,
}

/// The backup that a restore reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReading {
    /// Its name.
    pub backup: String,
    /// Its UID, as its record has it.
    pub backup_uid: String,
    /// Until when, unless the restore gives another sign of life before.
    pub until: Timestamp,
}

/// The claim of a restore, as it was read.
#[derive(Debug)]
pub(crate) struct ReadRestoreClaim {
    /// The name of the restore.
    pub(crate) restore: String,
    /// Its claim; `None` when there is none.
    pub(crate) claim: Result<Option<RestoreClaim>, StoreError>,
}

/// The result of deleting the files of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreFiles {
    /// None is left.
    Gone,
    /// The originals of objects that it has recreated or removed stay until then; the others are gone.
    OriginalsStay(Timestamp),
    /// They are of another restore, or nobody can tell of which, and nothing was deleted.
    OfAnother,
}

impl Store {
    /// Claims the name of a restore before any of its files is written. Files that an earlier restore of the same name,
    /// cluster and namespace has left are deleted, except the originals of objects that it has recreated or removed.
    /// Files without a claim, of Velero or of an older version, are written over. A name that another cluster or
    /// namespace has claimed is taken over when nothing of that restore is needed any more: the time of its originals
    /// is over, or it has none and has ended long ago.
    ///
    /// # Errors
    /// [`StoreError::RestoreNameTaken`] when another cluster or namespace has the name; [`StoreError::Bucket`], of the kind
    /// [`ErrorKind::Denied`] where nothing may be put, so that nothing of another restore is written over either.
    pub async fn claim_restore(&self, owner: &RestoreOwner, now: Timestamp) -> Result<(), StoreError> {
        let name = &owner.name;
        let mut claim = owner.claim(now);
        let PutIfAbsent { is_proved, put } =
            self.try_put_if_absent(&restore_claim_key(name), encoded(&claim)?.into()).await;
        let found = match put {
            Err(StoreError::Bucket(e)) if e.kind == ErrorKind::Exists => match self.restore_claim(name).await? {
                Some(found) => found,
                None => return Err(e.into()),
            },
            Ok(()) => return Ok(()),
            Err(StoreError::Bucket(e)) if e.kind == ErrorKind::Denied => return Err(e.into()),
            // Where nothing can be put now, the files there may be another's all the same.
            Err(e) => match self.restore_claim(name).await {
                Ok(Some(found)) => found,
                _ => return Err(e),
            },
        };
        let is_same = found.is_of(&claim.cluster_uid, &claim.restore_uid);
        if is_same && !is_proved {
            // The own claim may have come too late, when another had counted its own already: that one is put again by then.
            self.confirm_restore(owner).await?;
        }
        // Clusters of which nobody knows the UID count as one, and may be two: a restore that reads keeps its name.
        let may_run_elsewhere = found.cluster_uid.is_empty() && found.reads_until.is_some_and(|until| now < until);
        let is_foreign = !is_same && (may_run_elsewhere || !found.is_of_server(&claim.cluster_uid, &claim.namespace));
        if is_foreign && !self.is_abandoned(name, &found, now).await? {
            return Err(self.restore_name_taken(name, found));
        }
        // Of those before, none goes sooner than was promised.
        claim.keep_replaced_until = claim.keep_replaced_until.max(found.keep_replaced_until);
        claim.swept &= found.swept || !found.namespace.is_empty();
        self.put_restore_claim(name, &claim).await?;
        if is_foreign {
            // A third cluster may have found the same claim: of those, the last one has the name.
            sleep(SETTLED).await;
            let found = self.restore_claim(name).await?;
            if let Some(found) = found.filter(|found| !found.is_of(&claim.cluster_uid, &claim.restore_uid)) {
                return Err(self.restore_name_taken(name, found));
            }
        }
        if !is_same {
            self.delete_folder_but(name, true).await?;
        }
        Ok(())
    }

    /// Asks whether a claim still stands, where the store keeps no condition and a put may have been late.
    async fn confirm_restore(&self, owner: &RestoreOwner) -> Result<(), StoreError> {
        sleep(SETTLED).await;
        self.check_restore_claim(owner).await
    }

    /// Looks whether the files of a name are still those of a restore that has claimed it; a name that nobody has claimed is free.
    ///
    /// # Errors
    /// [`StoreError::RestoreNameTaken`] when another restore has claimed the name meanwhile; [`StoreError::Bucket`], [`StoreError::Sidecar`].
    pub async fn check_restore_claim(&self, owner: &RestoreOwner) -> Result<(), StoreError> {
        match self.restore_claim(&owner.name).await? {
            Some(found) if !found.is_of(&owner.cluster_uid, &owner.uid) => {
                Err(self.restore_name_taken(&owner.name, found))
            }
            _ => Ok(()),
        }
    }

    fn restore_name_taken(&self, name: &str, by: RestoreClaim) -> StoreError {
        StoreError::RestoreNameTaken {
            name: name.to_owned(),
            place: self.describe(),
            cluster: if by.cluster_uid.is_empty() { "unknown".to_owned() } else { by.cluster_uid },
            uid: by.restore_uid,
            since: by.claimed.to_string(),
        }
    }

    /// Returns true if nothing is needed any more of the restore of another cluster that has this claim. A restore
    /// without results may be running.
    async fn is_abandoned(&self, name: &str, found: &RestoreClaim, now: Timestamp) -> Result<bool, StoreError> {
        let is_needed =
            async || Ok::<_, StoreError>(now < found.keep_replaced_until && self.has_originals(name).await?);
        Ok(self.has_ended_long_ago(name, found, now).await? && !is_needed().await?)
    }

    /// Returns true if the restore of this name and claim is not at work any more: its results are old, or it was cut off so long ago that
    /// it has none.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn has_ended_long_ago(
        &self,
        name: &str,
        claim: &RestoreClaim,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let age = now.duration_since(claim.claimed);
        if age < ABANDONED {
            return Ok(false);
        }
        match self.bucket.head(&RestoreFile::Results.key(name)).await {
            Ok(results) => {
                // Where the store does not know, the time of the claim has to do.
                let written = results.modified.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or(claim.claimed);
                Ok(now.duration_since(written) >= ABANDONED)
            }
            Err(e) if e.is_not_found() => Ok(age >= CUT_OFF_AGE),
            Err(e) => Err(e.into()),
        }
    }

    /// The claim of the name of a restore; `None` when there is none.
    ///
    /// # Errors
    /// [`StoreError::Sidecar`], [`StoreError::Bucket`].
    pub async fn restore_claim(&self, name: &str) -> Result<Option<RestoreClaim>, StoreError> {
        let key = restore_claim_key(name);
        let Some(bytes) = self.read(&key).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| StoreError::Sidecar { key, source: e.into() })
    }

    /// Reads the claims of all restores of this location, in no order.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] when the restores cannot be listed.
    pub(crate) async fn read_restore_claims(&self) -> Result<BoxStream<'_, ReadRestoreClaim>, StoreError> {
        let claims = self.folders_below(RESTORES).await?.into_iter().map(move |restore| async move {
            let claim = self.restore_claim(&restore).await;
            ReadRestoreClaim { restore, claim }
        });
        Ok(futures::stream::iter(claims).buffer_unordered(AT_ONCE).boxed())
    }

    /// Deletes the files of a restore as far as they are its own. Files that nobody has claimed are, because files of
    /// Velero and of older versions have no claim. Files whose claim cannot be read may be anybody's, and stay.
    /// Originals of objects stay until the promised time, with the claim, by which [`Store::sweep_restores`] finds
    /// them.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn delete_restore(&self, owner: &RestoreOwner, now: Timestamp) -> Result<RestoreFiles, StoreError> {
        let name = &owner.name;
        let found = match self.restore_claim(name).await {
            Err(e) if e.is_damage() => {
                let place = self.describe();
                tracing::warn!(restore = name, place, error = %e, "nobody can tell whose the files of a restore are, and they stay");
                return Ok(RestoreFiles::OfAnother);
            }
            found => found?,
        };
        if found.as_ref().is_some_and(|found| !found.is_of(&owner.cluster_uid, &owner.uid)) {
            return Ok(RestoreFiles::OfAnother);
        }
        let until = found.as_ref().map_or(owner.keep_replaced_until, |found| found.keep_replaced_until);
        if until <= now || !self.has_originals(name).await? {
            match found {
                Some(_) => self.delete_folder_but(name, false).await?,
                None => self.delete_unclaimed(name).await?,
            }
            return Ok(RestoreFiles::Gone);
        }
        if found.is_none() {
            self.put_restore_claim(name, &owner.claim(now)).await?;
        }
        self.delete_folder_but(name, true).await?;
        Ok(RestoreFiles::OriginalsStay(until))
    }

    /// Gives the name of a restore back that was refused before it had written anything else.
    ///
    /// # Errors
    /// [`StoreError::Bucket`], [`StoreError::Sidecar`].
    pub async fn release_restore(&self, owner: &RestoreOwner) -> Result<(), StoreError> {
        let key = restore_claim_key(&owner.name);
        let found = self.restore_claim(&owner.name).await?;
        let is_own = found.is_some_and(|found| found.is_of(&owner.cluster_uid, &owner.uid));
        if is_own && !self.holds_other(&restore_folder(&owner.name), &key).await? {
            self.bucket.delete(std::slice::from_ref(&key)).await?;
        }
        Ok(())
    }

    /// Deletes the files that are left of restores whose time is over. `is_left` tells of a claim if it is of a restore
    /// of the caller's that is gone; it is asked only about restores whose time is over. A restore of the name may be made again
    /// while it is asked: the files of a name stay whose claim is another one then. Gives the names.
    ///
    /// # Errors
    /// [`StoreError::Bucket`] when the restores cannot be listed. A folder that cannot be read or deleted is passed over.
    pub async fn sweep_restores<F>(
        &self,
        now: Timestamp,
        is_left: impl Fn(String, RestoreClaim) -> F,
    ) -> Result<Vec<String>, StoreError>
    where
        F: Future<Output = bool>,
    {
        let mut claims = self.read_restore_claims().await?;
        let mut swept = Vec::new();
        while let Some(ReadRestoreClaim { restore, claim }) = claims.next().await {
            let claim = match claim {
                Ok(Some(claim)) if claim.keep_replaced_until <= now => claim,
                Ok(_) => continue,
                Err(e) => {
                    tracing::warn!(restore, error = %e, "it is not known whose files these are");
                    continue;
                }
            };
            if !is_left(restore.clone(), claim.clone()).await {
                continue;
            }
            match self.delete_if_claimed(&restore, &claim).await {
                Ok(true) => swept.push(restore),
                Ok(false) => tracing::info!(restore, "files of a restore stay: its claim has changed"),
                Err(e) => tracing::warn!(restore, error = %e, "files of a restore that is gone stay"),
            }
        }
        Ok(swept)
    }

    /// Deletes the files of a restore if its claim is still this one. Returns true if it was.
    async fn delete_if_claimed(&self, name: &str, claim: &RestoreClaim) -> Result<bool, StoreError> {
        if self.restore_claim(name).await?.as_ref() != Some(claim) {
            return Ok(false);
        }
        self.delete_folder_but(name, false).await?;
        Ok(true)
    }

    pub(crate) async fn put_restore_claim(&self, name: &str, claim: &RestoreClaim) -> Result<(), StoreError> {
        let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
        self.put(&restore_claim_key(name), encoded(claim)?.into(), options).await
    }

    async fn has_originals(&self, name: &str) -> Result<bool, StoreError> {
        self.holds_other(&replaced_prefix(name), "").await
    }

    /// Deletes the files of a restore that nobody has claimed. Where there are none, no deletion is sent to the store:
    /// credentials that may only read are refused even the deletion of absent objects.
    async fn delete_unclaimed(&self, name: &str) -> Result<(), StoreError> {
        let claim = restore_claim_key(name);
        self.delete_those(&restore_folder(name), |key| key == claim, &[]).await
    }

    /// Deletes the files of a restore, and the claim last; with `originals_stay` neither those nor the claim.
    async fn delete_folder_but(&self, name: &str, originals_stay: bool) -> Result<(), StoreError> {
        let (claim, originals) = (restore_claim_key(name), replaced_prefix(name));
        let stays = |key: &str| key == claim || originals_stay && key.starts_with(&originals);
        let last = if originals_stay { Vec::new() } else { vec![claim.clone()] };
        self.delete_those(&restore_folder(name), stays, &last).await
    }
}

impl RestoreOwner {
    fn claim(&self, now: Timestamp) -> RestoreClaim {
        RestoreClaim {
            format: RESTORE_CLAIM_FORMAT.to_owned(),
            cluster_uid: self.cluster_uid.clone(),
            restore_uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            claimed: now,
            keep_replaced_until: self.keep_replaced_until,
            swept: self.namespace.is_empty(),
            backup: self.reads.as_ref().map_or_else(String::new, |reads| reads.backup.clone()),
            backup_uid: self.reads.as_ref().map_or_else(String::new, |reads| reads.backup_uid.clone()),
            reads_until: self.reads.as_ref().map(|reads| reads.until),
        }
    }
}

fn encoded(claim: &RestoreClaim) -> Result<Vec<u8>, StoreError> {
    StoreError::encoded("the claim", gojson::to_vec_pretty(claim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use lifeboat_archive::layout::RestoreFile;
    use lifeboat_bucket::faults::{PutCondition, StoreDecorator};
    use lifeboat_bucket::{Body, BucketError, ByteStream, Entry, ListOptions, Memory};
    use lifeboat_object::{GroupResource, ObjectKey};
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(day * 86_400).unwrap()
    }

    fn owner(cluster: &str, namespace: &str, uid: &str) -> RestoreOwner {
        RestoreOwner {
            name: "r".into(),
            uid: uid.into(),
            cluster_uid: cluster.into(),
            namespace: namespace.into(),
            keep_replaced_until: at(31),
            reads: None,
        }
    }

    async fn with_files(store: &Store) {
        store.put_restore_file("r", RestoreFile::Results, b"x".to_vec()).await.unwrap();
        let object = ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "a");
        store.put_replaced("r", &object, "1", b"{}").await.unwrap();
    }

    fn store() -> (Arc<Memory>, Store) {
        let bucket = Arc::new(Memory::default());
        (Arc::clone(&bucket), Store::new(bucket))
    }

    async fn keys(bucket: &Memory) -> Vec<String> {
        let page = bucket.list(ListOptions::default()).await.unwrap();
        let key = |entry| match entry {
            Entry::Object(object) => Some(object.key),
            Entry::Prefix(_) => None,
        };
        page.entries.into_iter().filter_map(key).collect()
    }

    /// A bucket into which nothing can be put, and out of which nothing can be deleted.
    #[derive(Debug)]
    struct ReadOnly(Arc<Memory>);

    #[async_trait]
    impl StoreDecorator for ReadOnly {
        fn inner(&self) -> &dyn BlobStore {
            &*self.0
        }
        async fn put(&self, key: &str, _: Body, _: PutOptions) -> Result<u64, BucketError> {
            let (key, store, message) = (key.to_owned(), self.inner().describe(), "no".to_owned());
            Err(BucketError { kind: ErrorKind::Denied, operation: "put", key, store, message, source: None })
        }
        async fn delete(&self, _: &[String]) -> Result<(), BucketError> {
            let (key, store, message) = (String::new(), self.inner().describe(), "no".to_owned());
            Err(BucketError { kind: ErrorKind::Denied, operation: "delete", key, store, message, source: None })
        }
    }

    /// A bucket in which a restore is made again once its claim was read.
    #[derive(Debug)]
    struct MadeAgain {
        inner: Arc<Memory>,
        is_read: AtomicBool,
        later: Vec<u8>,
    }

    #[async_trait]
    impl StoreDecorator for MadeAgain {
        fn inner(&self) -> &dyn BlobStore {
            &*self.inner
        }
        async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
            if key == CLAIM && self.is_read.swap(true, Ordering::SeqCst) {
                self.inner.put(key, self.later.clone().into(), PutOptions::default()).await?;
            }
            self.inner.get(key, range).await
        }
    }

    const CLAIM: &str = "restores/r/lifeboat-claim.json";
    const ORIGINAL: &str = "restores/r/replaced/configmaps/namespaces/shop/a/1.json.gz";
    const RESULTS: &str = "restores/r/restore-r-results.gz";

    #[tokio::test]
    async fn a_restore_of_one_name_in_another_cluster_is_refused_and_harms_nothing() {
        for (cluster, namespace) in [("d", "velero"), ("c", "other"), ("c", ""), ("", "velero")] {
            let (bucket, store) = store();
            store.claim_restore(&owner("c", "velero", "1"), at(1)).await.unwrap();
            with_files(&store).await;
            let refused = store.claim_restore(&owner(cluster, namespace, "2"), at(2)).await.unwrap_err().to_string();
            assert!(refused.contains("another restore") && refused.contains("cluster c"), "{refused}");
            let deleted = store.delete_restore(&owner(cluster, namespace, "2"), at(2)).await.unwrap();
            assert_eq!(deleted, RestoreFiles::OfAnother);
            assert_eq!(keys(&bucket).await, [CLAIM, ORIGINAL, RESULTS], "{cluster} {namespace}");
        }
    }

    #[tokio::test]
    async fn a_restore_from_a_read_only_bucket_has_no_claim_and_can_be_deleted() {
        let bucket = Arc::new(Memory::default());
        let read_only: Arc<dyn BlobStore> = Arc::new(ReadOnly(Arc::clone(&bucket)));
        let (writable, store) = (Store::new(Arc::clone(&bucket) as Arc<dyn BlobStore>), Store::new(read_only));
        let own = owner("c", "velero", "1");
        for (is_claimed, expected) in [(false, RestoreFiles::Gone), (true, RestoreFiles::OfAnother)] {
            if is_claimed {
                writable.claim_restore(&owner("d", "velero", "2"), at(1)).await.unwrap();
            }
            let claimed = store.claim_restore(&own, at(1)).await;
            assert!(
                matches!(claimed, Err(StoreError::Bucket(e)) if e.kind == ErrorKind::Denied),
                "the caller may go on without: nothing is written over"
            );
            assert_eq!(store.delete_restore(&own, at(2)).await.unwrap(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_name_that_a_lost_cluster_has_claimed_becomes_free() {
        for (what, results, original, now, is_free) in [
            ("nothing says that it has ended", false, false, at(30), false),
            ("no restore runs for so long", false, false, at(31), true),
            ("it has ended, and has recreated nothing", true, false, at(2), true),
            ("it was begun just now", true, false, at(1), false),
            ("what it has recreated is promised to stay", true, true, at(30), false),
            ("what it has recreated was promised until then", true, true, at(31), true),
        ] {
            let (bucket, store) = store();
            store.claim_restore(&owner("lost", "velero", "1"), at(1)).await.unwrap();
            if results {
                store.put_restore_file("r", RestoreFile::Results, b"x".to_vec()).await.unwrap();
            }
            if original {
                let object = ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "a");
                store.put_replaced("r", &object, "1", b"{}").await.unwrap();
            }
            let later = RestoreOwner { keep_replaced_until: at(90), ..owner("new", "velero", "2") };
            let claimed = store.claim_restore(&later, now).await;
            assert_eq!(claimed.is_ok(), is_free, "{what}: {claimed:?}");
            let holder = store.restore_claim("r").await.unwrap().unwrap();
            assert_eq!(holder.restore_uid, if is_free { "2" } else { "1" }, "{what}");
            let has_results = keys(&bucket).await.iter().any(|key| key == RESULTS);
            assert_eq!(has_results, results && !is_free, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_two_restores_has_the_name_in_a_slow_store_without_conditions() {
        for condition in [PutCondition::Refused, PutCondition::Ignored] {
            let store = crate::if_absent::tests::slow(condition, Duration::from_secs(4));
            let claim = |cluster: &'static str, later: u64| {
                let store = store.clone();
                async move {
                    sleep(Duration::from_secs(later)).await;
                    store.claim_restore(&owner(cluster, "velero", "1"), at(1)).await
                }
            };
            let (first, second) = tokio::join!(claim("c", 0), claim("d", 1));
            assert!(matches!(first, Err(StoreError::RestoreNameTaken { .. })), "{first:?}");
            second.unwrap();
            // Before its files are put it is asked once more.
            store.check_restore_claim(&owner("d", "velero", "1")).await.unwrap();
            assert!(store.check_restore_claim(&owner("c", "velero", "1")).await.is_err());
        }
    }

    #[tokio::test]
    async fn a_restore_without_a_server_retakes_its_name_in_an_unknown_cluster() {
        let (_, store) = store();
        store.claim_restore(&owner("", "", "1"), at(1)).await.unwrap();
        store.claim_restore(&owner("", "", "2"), at(1)).await.unwrap();
        assert_eq!(store.restore_claim("r").await.unwrap().unwrap().restore_uid, "2");
        assert!(matches!(
            store.claim_restore(&owner("", "velero", "3"), at(1)).await,
            Err(StoreError::RestoreNameTaken { .. })
        ));
        // Two unknown clusters may be two.
        let reads = BackupReading { backup: "b".into(), backup_uid: "u".into(), until: at(5) };
        let reading = RestoreOwner { reads: Some(reads), ..owner("", "", "4") };
        store.claim_restore(&reading, at(1)).await.unwrap();
        assert!(matches!(
            store.claim_restore(&owner("", "", "5"), at(4)).await,
            Err(StoreError::RestoreNameTaken { .. })
        ));
        store.claim_restore(&reading, at(4)).await.unwrap();
        store.claim_restore(&owner("", "", "5"), at(5)).await.unwrap();
        assert_eq!(store.restore_claim("r").await.unwrap().unwrap().restore_uid, "5");
    }

    #[tokio::test]
    async fn a_restore_whose_claim_is_damaged_can_be_deleted_and_the_files_stay() {
        let (bucket, store) = store();
        with_files(&store).await;
        bucket.put(CLAIM, Vec::new().into(), PutOptions::default()).await.unwrap();
        let deleted = store.delete_restore(&owner("c", "velero", "1"), at(2)).await.unwrap();
        assert_eq!(deleted, RestoreFiles::OfAnother);
        assert_eq!(keys(&bucket).await, [CLAIM, ORIGINAL, RESULTS]);
    }

    #[tokio::test]
    async fn a_restore_run_again_keeps_its_files_and_a_later_namesake_has_none() {
        for namespace in ["velero", ""] {
            let (bucket, store) = store();
            let first = owner("c", namespace, "1");
            for _ in 0..2 {
                store.claim_restore(&first, at(1)).await.unwrap();
                with_files(&store).await;
                assert_eq!(keys(&bucket).await, [CLAIM, ORIGINAL, RESULTS]);
            }
            let later = RestoreOwner { keep_replaced_until: at(5), ..owner("c", namespace, "2") };
            store.claim_restore(&later, at(2)).await.unwrap();
            assert_eq!(keys(&bucket).await, [CLAIM, ORIGINAL]);
            let claim = store.restore_claim("r").await.unwrap().unwrap();
            assert_eq!((&*claim.restore_uid, claim.keep_replaced_until), ("2", at(31)), "no promise is shortened");
        }
    }

    #[tokio::test]
    async fn originals_of_recreated_objects_outlive_their_restore_as_promised() {
        let (bucket, store) = store();
        let restore = owner("c", "velero", "1");
        // Also of an older version, which has claimed nothing.
        for is_claimed in [true, false] {
            if is_claimed {
                store.claim_restore(&restore, at(1)).await.unwrap();
            }
            with_files(&store).await;
            let deleted = store.delete_restore(&restore, at(2)).await.unwrap();
            assert_eq!(deleted, RestoreFiles::OriginalsStay(at(31)));
            assert_eq!(keys(&bucket).await, [CLAIM, ORIGINAL]);
            assert_eq!(store.sweep_restores(at(30), |_, _| async { true }).await.unwrap(), Vec::<String>::new());
            assert_eq!(store.sweep_restores(at(31), |_, _| async { false }).await.unwrap(), Vec::<String>::new());
            assert_eq!(keys(&bucket).await, [CLAIM, ORIGINAL]);
            assert_eq!(store.sweep_restores(at(31), |_, _| async { true }).await.unwrap(), ["r"]);
            assert_eq!(keys(&bucket).await, Vec::<String>::new());
        }
        store.claim_restore(&restore, at(1)).await.unwrap();
        with_files(&store).await;
        assert_eq!(store.delete_restore(&restore, at(31)).await.unwrap(), RestoreFiles::Gone);
        assert_eq!(keys(&bucket).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn files_of_a_restore_that_is_made_again_during_the_sweep_stay() {
        let (inner, store) = store();
        let gone = owner("c", "velero", "1");
        store.claim_restore(&gone, at(1)).await.unwrap();
        with_files(&store).await;
        let later = encoded(&owner("c", "velero", "2").claim(at(31))).unwrap();
        let bucket = MadeAgain { inner: Arc::clone(&inner), is_read: AtomicBool::new(false), later };
        let changing = Store::new(Arc::new(bucket));
        let swept = changing.sweep_restores(at(31), |_, claim| async move { claim.restore_uid == "1" }).await.unwrap();
        assert_eq!(swept, Vec::<String>::new());
        assert_eq!(keys(&inner).await, [CLAIM, ORIGINAL, RESULTS]);
        assert_eq!(store.restore_claim("r").await.unwrap().unwrap().restore_uid, "2");
    }

    #[tokio::test]
    async fn a_restore_that_was_refused_gives_its_name_back_unless_there_is_more() {
        let (bucket, store) = store();
        let (one, other) = (owner("c", "velero", "1"), owner("d", "velero", "2"));
        store.claim_restore(&one, at(1)).await.unwrap();
        store.release_restore(&other).await.unwrap();
        assert_eq!(keys(&bucket).await, [CLAIM]);
        store.release_restore(&one).await.unwrap();
        assert_eq!(keys(&bucket).await, Vec::<String>::new());
        store.claim_restore(&other, at(1)).await.unwrap();
        with_files(&store).await;
        store.release_restore(&other).await.unwrap();
        assert_eq!(keys(&bucket).await, [CLAIM, ORIGINAL, RESULTS]);
    }

    #[tokio::test]
    async fn files_that_nobody_has_claimed_go_with_the_restore_of_their_name() {
        let (bucket, store) = store();
        store.put_restore_file("r", RestoreFile::Results, b"x".to_vec()).await.unwrap();
        store.put_restore_file("rr", RestoreFile::Results, b"x".to_vec()).await.unwrap();
        assert_eq!(store.delete_restore(&owner("c", "velero", "1"), at(1)).await.unwrap(), RestoreFiles::Gone);
        assert_eq!(keys(&bucket).await, ["restores/rr/restore-rr-results.gz"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_restore_keeps_its_name_when_its_originals_may_go() {
        let (_, store) = store();
        let running = RestoreOwner { keep_replaced_until: at(1), ..owner("c", "velero", "1") };
        store.claim_restore(&running, at(1)).await.unwrap();
        let other = owner("d", "velero", "2");
        let refused = store.claim_restore(&other, at(3)).await;
        assert!(matches!(refused, Err(StoreError::RestoreNameTaken { .. })), "{refused:?}");
        store.put_restore_file("r", RestoreFile::Results, b"x".to_vec()).await.unwrap();
        store.claim_restore(&other, at(3)).await.unwrap();
    }

    #[tokio::test]
    async fn files_promised_to_stay_do_so_under_a_later_claim() {
        for (promised, expected) in [(false, false), (true, true)] {
            let (_, store) = store();
            let command = owner("c", "", "1");
            store.put_restore_claim("r", &RestoreClaim { swept: promised, ..command.claim(at(1)) }).await.unwrap();
            for owner in [command, owner("c", "", "2")] {
                store.claim_restore(&owner, at(2)).await.unwrap();
                assert_eq!(store.restore_claim("r").await.unwrap().unwrap().swept, expected, "{owner:?}");
            }
        }
    }
}
