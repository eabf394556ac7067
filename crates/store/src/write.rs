//! Writes a backup: claim first, record last.

use crate::change::folder;
use crate::store::AT_ONCE;
use crate::stream::StreamReceiver;
use crate::{Content, Store, StoreError};
use futures::{FutureExt, StreamExt, TryStreamExt};
use jiff::Timestamp;
use lifeboat_api::Backup;
use lifeboat_archive::gojson;
use lifeboat_archive::layout::{BackupFile, attempt_key};
use lifeboat_archive::sidecar::{BackupClaim, CLAIM_FORMAT, FileDigest, MANIFEST_FORMAT, Manifest};
use lifeboat_archive::tarball::TarballSummary;
use lifeboat_bucket::{BlobStore, Body, BucketError, ErrorKind, PutOptions};
use std::collections::BTreeMap;

/// A writer's request for the name of the backup that it wants to write.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Name of the backup.
    pub name: String,
    /// UID of the Backup; the same in every attempt.
    pub backup_uid: String,
    /// UID of the cluster; empty when unknown.
    pub cluster_uid: String,
    /// Namespace of the server that writes; empty when no server does. A name is unique among the Backups of a
    /// namespace, so another claim of this cluster and namespace is of a Backup that is gone, and is taken over.
    pub namespace: String,
    /// Write over the claim of another writer, which the user knows to be dead.
    pub take_over: bool,
    /// The time.
    pub now: Timestamp,
}

/// The result of a claim.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// The name is ours: write.
    Writer(Box<BackupWriter>),
    /// A backup of this very UID is complete already: an earlier attempt was cut off after its last step.
    Complete(Box<Backup>),
}

/// A backup being written. Nothing of it counts before [`BackupWriter::commit`].
#[derive(Debug)]
pub struct BackupWriter {
    store: Store,
    name: String,
    claim: BackupClaim,
    files: BTreeMap<String, FileDigest>,
}

impl Store {
    /// The backup of this very UID under a name, when it is complete already; `None` when the name is free.
    ///
    /// # Errors
    /// [`StoreError::InvalidName`], [`StoreError::NameTaken`] when there is another backup, [`StoreError::Bucket`].
    pub async fn written(&self, name: &str, uid: &str) -> Result<Option<Backup>, StoreError> {
        if !is_valid_name(name) {
            return Err(StoreError::InvalidName(name.to_owned()));
        }
        match self.backup(name).await {
            Ok(found) if found.metadata.uid == uid => Ok(Some(found)),
            Ok(found) => {
                Err(StoreError::NameTaken { name: name.to_owned(), place: self.describe(), uid: found.metadata.uid })
            }
            Err(StoreError::OtherRecord { uid, .. }) => {
                Err(StoreError::NameTaken { name: name.to_owned(), place: self.describe(), uid })
            }
            Err(StoreError::NoBackup { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Claims a name: puts `lifeboat-claim.json` if absent, before any other file is written.
    ///
    /// # Errors
    /// [`StoreError::NameTaken`] and [`StoreError::Claimed`] when another backup has the name; [`StoreError::Bucket`].
    pub async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome, StoreError> {
        let name = &request.name;
        if let Some(complete) = self.written(name, &request.backup_uid).await? {
            return Ok(ClaimOutcome::Complete(Box::new(complete)));
        }
        let key = BackupFile::Claim.key(name);
        let mut claim = BackupClaim {
            format: CLAIM_FORMAT.to_owned(),
            cluster_uid: request.cluster_uid.clone(),
            backup_uid: request.backup_uid.clone(),
            namespace: request.namespace.clone(),
            attempt: 1,
            claimed: request.now,
            refreshed: None,
        };
        match self.put_if_absent(&key, encode_claim(&claim)?.into()).await {
            Ok(()) => {}
            Err(StoreError::Bucket(e)) if e.kind == ErrorKind::Exists => {
                let Some(found) = self.claim_of(name).await? else { return Err(e.into()) };
                let again = found.backup_uid == claim.backup_uid && found.cluster_uid == claim.cluster_uid;
                let is_of_server = found.is_of_server(&claim.cluster_uid, &claim.namespace);
                if !again && !is_of_server && !request.take_over {
                    return Err(StoreError::Claimed {
                        name: name.clone(),
                        place: self.describe(),
                        uid: found.backup_uid,
                        since: found.claimed.to_string(),
                    });
                }
                if !again && is_of_server {
                    // What that backup has left in the cluster has its UID, and no other file knows it.
                    self.put_note(name, &left_note(&found.backup_uid), encode_claim(&found)?.into()).await?;
                }
                self.number(name, &mut claim, found.attempt).await?;
                let options = PutOptions { content_type: Some("application/json"), ..PutOptions::default() };
                self.put(&key, encode_claim(&claim)?.into(), options).await?;
                // What the attempt before left open: nothing else writes below this folder.
                self.abort_uploads(name).await?;
            }
            Err(e) => return Err(e),
        }
        Ok(ClaimOutcome::Writer(Box::new(BackupWriter {
            store: self.clone(),
            name: name.clone(),
            claim,
            files: BTreeMap::new(),
        })))
    }
}

/// The start of the names of notes that are claims of earlier backups.
const LEFT: &str = "left-";

fn left_note(uid: &str) -> String {
    format!("{LEFT}{uid}")
}

impl Store {
    /// The UIDs of earlier backups that had claimed the name and were never committed: it is not known that their
    /// objects in the cluster are gone.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn backups_before(&self, name: &str) -> Result<Vec<String>, StoreError> {
        let notes = self.note_names(name, LEFT).await?;
        Ok(notes.iter().filter_map(|note| note.strip_prefix(LEFT)).map(str::to_owned).collect())
    }

    /// Forgets a backup before this one: nothing of it is left.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn forget_backup_before(&self, name: &str, uid: &str) -> Result<(), StoreError> {
        self.remove_notes(name, &[left_note(uid)]).await
    }
}

/// The most numbers that are tried for one attempt: numbers of runs that died before they had claimed the name are
/// skipped.
const NUMBERS: u32 = 1000;

impl Store {
    /// Gives a claim the next free number: of writers that claim at the same time, only one puts the file of a number.
    async fn number(&self, name: &str, claim: &mut BackupClaim, last: u32) -> Result<(), StoreError> {
        let mut tried = 0;
        claim.attempt = last;
        loop {
            claim.attempt = claim.attempt.saturating_add(1);
            tried += 1;
            match self.put_if_absent(&attempt_key(name, claim.attempt), encode_claim(claim)?.into()).await {
                Err(StoreError::Bucket(e)) if e.kind == ErrorKind::Exists && tried < NUMBERS => {}
                put => return put,
            }
        }
    }
}

/// Objects below this size go up by one request (the S3 protocol allows no smaller parts).
const SMALLEST_UPLOAD: u64 = 5 << 20;

pub(crate) fn encode_claim(claim: &BackupClaim) -> Result<Vec<u8>, StoreError> {
    gojson::to_vec_pretty(claim).map_err(|e| StoreError::Encode("the claim", e))
}

impl BackupWriter {
    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.claim.attempt
    }

    /// Uploads the archive while it is being made, until the end of the stream is said. A stream that breaks ends the
    /// upload with nothing visible.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn put_tarball(&self, pieces: StreamReceiver<bytes::Bytes>) -> Result<u64, StoreError> {
        let file = BackupFile::Tarball;
        let place = (file.key(&self.name), self.store.describe());
        let stream = futures::stream::unfold((pieces, place), |(mut pieces, place)| async move {
            let piece = pieces.next().await.map_err(|_| abandoned(&place)).transpose()?;
            Some((piece, (pieces, place)))
        });
        let options = PutOptions { content_type: Some(file.content_type()), ..PutOptions::default() };
        let size = self.store.bucket.put(&file.key(&self.name), Body::Stream(stream.boxed()), options).await?;
        self.end_uploads(size).await;
        Ok(size)
    }

    /// Ends uploads beside the one that became a file of this size: there may be another, because the answer to its
    /// beginning was lost and the upload was begun again.
    async fn end_uploads(&self, size: u64) {
        if size >= SMALLEST_UPLOAD
            && let Err(e) = self.store.abort_uploads(&self.name).await
        {
            tracing::warn!(backup = self.name, error = %e, "uploads that were begun twice may stay open");
        }
    }

    /// Records the archive that [`BackupWriter::put_tarball`] has stored.
    pub fn record_tarball(&mut self, summary: &TarballSummary) {
        let digest = FileDigest { size: summary.size, sha256: summary.sha256.clone() };
        self.files.insert(BackupFile::Tarball.file_name(&self.name), digest);
    }

    /// Stores another file.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub async fn put(&mut self, file: BackupFile, content: impl Into<Content>) -> Result<(), StoreError> {
        let options = PutOptions { content_type: Some(file.content_type()), ..PutOptions::default() };
        let digest = self.store.put_content(&file.key(&self.name), &content.into(), options).await?;
        self.end_uploads(digest.size).await;
        self.files.insert(file.file_name(&self.name), digest);
        Ok(())
    }

    /// [`BackupWriter::seal`] and [`Sealed::publish`].
    ///
    /// # Errors
    /// Theirs.
    pub async fn commit(
        self,
        backup: &Backup,
        tool: &str,
        counts: BTreeMap<String, u64>,
        cluster_version: &str,
    ) -> Result<(), StoreError> {
        self.seal(&backup.metadata.uid, tool, counts, cluster_version).await?.publish(backup).await
    }

    /// Puts the manifest, and asks whether everything is there and the name still ours.
    ///
    /// # Errors
    /// [`StoreError::Altered`], [`StoreError::TakenOver`], [`StoreError::Bucket`].
    pub async fn seal(
        mut self,
        backup_uid: &str,
        tool: &str,
        counts: BTreeMap<String, u64>,
        cluster_version: &str,
    ) -> Result<Sealed, StoreError> {
        self.files.remove(&BackupFile::Claim.file_name(&self.name));
        let manifest = Manifest {
            format: MANIFEST_FORMAT.to_owned(),
            tool: tool.to_owned(),
            backup_uid: backup_uid.to_owned(),
            cluster_uid: self.claim.cluster_uid.clone(),
            cluster_version: cluster_version.to_owned(),
            counts,
            files: self.files.clone(),
            next: None,
        };
        let bytes = gojson::to_vec_pretty(&manifest).map_err(|e| StoreError::Encode("the manifest", e))?;
        self.put(BackupFile::Manifest, bytes).await?;
        self.confirm().await?;
        Ok(Sealed(self))
    }
}

/// A backup of which only the record is missing.
#[derive(Debug)]
pub struct Sealed(BackupWriter);

impl Sealed {
    /// Puts the record: from then on the backup exists.
    ///
    /// # Errors
    /// [`StoreError::Bucket`]: the record may be there or not, and writing the backup again is safe.
    pub async fn publish(mut self, backup: &Backup) -> Result<(), StoreError> {
        let record = gojson::to_vec_pretty(backup).map_err(|e| StoreError::Encode("the backup's record", e))?;
        self.0.put(BackupFile::Metadata, record).await
    }
}

impl BackupWriter {
    async fn confirm(&self) -> Result<(), StoreError> {
        let claim = async {
            // Signs of life were added to it meanwhile.
            let found = self.store.claim_of(&self.name).await?.map(|found| BackupClaim { refreshed: None, ..found });
            if found.as_ref() == Some(&self.claim) {
                return Ok(());
            }
            Err(StoreError::TakenOver { name: self.name.clone(), place: self.store.describe() })
        };
        let files: Vec<_> =
            self.files.iter().map(|(file, stored)| self.confirm_file(file, stored.size).boxed()).collect();
        let files = futures::stream::iter(files).buffer_unordered(AT_ONCE).try_collect::<()>();
        tokio::try_join!(claim, files).map(drop)
    }

    async fn confirm_file(&self, file: &str, size: u64) -> Result<(), StoreError> {
        let key = format!("{}{file}", folder(&self.name));
        let problem = match self.store.bucket.head(&key).await {
            Ok(found) if found.size == size => return Ok(()),
            Ok(found) => format!("it has {} bytes, {size} were stored", found.size),
            Err(e) if e.is_not_found() => "it is missing".to_owned(),
            Err(e) => return Err(e.into()),
        };
        Err(StoreError::Altered { key, problem })
    }
}

fn abandoned((key, store): &(String, String)) -> BucketError {
    BucketError {
        kind: ErrorKind::Other,
        operation: "put",
        key: key.clone(),
        store: store.clone(),
        message: "the archive was given up before its end".to_owned(),
        source: None,
    }
}

/// RFC 1123 subdomain, as the API server demands of names.
fn is_valid_name(name: &str) -> bool {
    let label = |l: &str| {
        !l.is_empty()
            && l.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_bucket::{ByteStream, ListOptions, Memory, ObjectInfo, Page};
    use std::ops::Range;
    use std::sync::Arc;
    use std::task::Poll;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    fn request(uid: &str, take_over: bool) -> ClaimRequest {
        ClaimRequest {
            name: "nightly".into(),
            backup_uid: uid.into(),
            cluster_uid: "c".into(),
            namespace: String::new(),
            take_over,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    async fn claim(store: &Store, uid: &str, take_over: bool) -> Result<u32, String> {
        match store.claim(&request(uid, take_over)).await {
            Ok(ClaimOutcome::Writer(writer)) => Ok(writer.attempt()),
            Ok(ClaimOutcome::Complete(_)) => Ok(0),
            Err(e) => Err(e.to_string()),
        }
    }

    #[tokio::test]
    async fn a_name_belongs_to_who_claims_it_first() {
        let store = Store::new(Arc::new(Memory::default()));
        assert_eq!(claim(&store, "a", false).await, Ok(1));
        assert_eq!(claim(&store, "a", false).await, Ok(2), "our own claim is taken up again");
        let refused = claim(&store, "b", false).await.unwrap_err();
        assert!(refused.contains("claimed by another run (backup UID a, since 1970-01-01T00:00:00Z)"), "{refused}");
        assert_eq!(claim(&store, "b", true).await, Ok(3));

        let ClaimOutcome::Writer(writer) = store.claim(&request("b", false)).await.unwrap() else { panic!() };
        let mut backup = Backup::default();
        backup.metadata.name = "nightly".into();
        backup.metadata.uid = "b".into();
        writer.commit(&backup, "test", BTreeMap::new(), "v1").await.unwrap();
        assert_eq!(claim(&store, "b", false).await, Ok(0), "complete: nothing is left to do");
        for take_over in [false, true] {
            let refused = claim(&store, "c", take_over).await.unwrap_err();
            assert!(refused.contains("already exists in object storage"), "{refused}");
        }
    }

    /// A bucket each request to which waits for a permit.
    #[derive(Debug)]
    struct Stepped {
        inner: Arc<Memory>,
        steps: Semaphore,
    }

    impl Stepped {
        async fn step(&self) {
            self.steps.acquire().await.unwrap().forget();
        }
    }

    #[async_trait::async_trait]
    impl BlobStore for Stepped {
        fn describe(&self) -> String {
            self.inner.describe()
        }
        async fn put(&self, key: &str, body: Body, options: PutOptions) -> Result<u64, BucketError> {
            self.step().await;
            self.inner.put(key, body, options).await
        }
        async fn get(&self, key: &str, range: Option<Range<u64>>) -> Result<ByteStream, BucketError> {
            self.step().await;
            self.inner.get(key, range).await
        }
        async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
            self.step().await;
            self.inner.head(key).await
        }
        async fn list(&self, options: ListOptions) -> Result<Page, BucketError> {
            self.step().await;
            self.inner.list(options).await
        }
        async fn delete(&self, keys: &[String]) -> Result<(), BucketError> {
            self.step().await;
            self.inner.delete(keys).await
        }
        async fn abort_stale_uploads(&self, prefix: &str, age: Duration) -> Result<u64, BucketError> {
            self.step().await;
            self.inner.abort_stale_uploads(prefix, age).await
        }
        async fn presign(&self, key: &str, valid: Duration) -> Result<Option<String>, BucketError> {
            self.inner.presign(key, valid).await
        }
    }

    /// The order of their requests does not matter.
    #[tokio::test]
    async fn two_who_take_a_claim_at_once_are_two_attempts_of_which_one_counts() {
        // Each taker makes up to seven requests.
        for order in 0..1_u32 << 14 {
            if order.count_ones() != 7 {
                continue;
            }
            let inner = Arc::new(Memory::default());
            claim(&Store::new(inner.clone()), "u", false).await.unwrap();
            let bucket = || Arc::new(Stepped { inner: Arc::clone(&inner), steps: Semaphore::new(0) });
            let (buckets, request) = ([bucket(), bucket()], request("u", false));
            let stores = buckets.clone().map(|bucket| Store::new(bucket));
            let mut takers = stores.each_ref().map(|store| Some(Box::pin(store.claim(&request))));
            let mut writers = [None, None];
            for step in 0..16 {
                // The runtime lets a task do only so much at a time.
                tokio::task::yield_now().await;
                let turn = if step < 14 { (order >> step & 1) as usize } else { step - 14 };
                buckets[turn].steps.add_permits(if step < 14 { 1 } else { 100 });
                if let Some(taker) = &mut takers[turn]
                    && let Poll::Ready(taken) = futures::poll!(taker)
                {
                    let ClaimOutcome::Writer(writer) = taken.unwrap() else { panic!("it is not complete") };
                    (writers[turn], takers[turn]) = (Some(writer), None);
                }
            }
            let [Some(one), Some(other)] = writers else { panic!("{order:b}: they go on") };
            let mut attempts = [one.attempt(), other.attempt()];
            attempts.sort_unstable();
            assert_eq!(attempts, [2, 3], "{order:b}");
            let mut backup = Backup::default();
            backup.metadata.name = "nightly".into();
            backup.metadata.uid = "u".into();
            let mut counted = 0;
            for writer in [one, other] {
                counted += u32::from(writer.commit(&backup, "test", BTreeMap::new(), "v1").await.is_ok());
            }
            assert_eq!(counted, 1, "{order:b}");
        }
    }

    /// Files that the bucket no longer has as they were stored, and a name that another run has taken.
    #[tokio::test]
    async fn what_is_not_there_is_not_committed() {
        let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
        let store = Store::new(Arc::clone(&bucket));
        let (log, manifest) = (BackupFile::Logs.key("nightly"), BackupFile::Manifest.key("nightly"));
        for (what, expected) in [
            ("cut", format!("{log} is not what was stored: it has 1 bytes, 3 were stored; back up again")),
            ("gone", format!("{log} is not what was stored: it is missing; back up again")),
            (
                "taken",
                "backup \"nightly\" in memory was taken over by another run meanwhile: nothing of this one counts"
                    .into(),
            ),
        ] {
            let ClaimOutcome::Writer(mut writer) = store.claim(&request("a", true)).await.unwrap() else { panic!() };
            writer.put(BackupFile::Logs, b"log".to_vec()).await.unwrap();
            match what {
                "cut" => drop(bucket.put(&log, b"l".to_vec().into(), PutOptions::default()).await.unwrap()),
                "gone" => bucket.delete(std::slice::from_ref(&log)).await.unwrap(),
                _ => assert!(matches!(store.claim(&request("b", true)).await, Ok(ClaimOutcome::Writer(_)))),
            }
            let mut backup = Backup::default();
            backup.metadata.name = "nightly".into();
            backup.metadata.uid = "a".into();
            let error = writer.commit(&backup, "test", BTreeMap::new(), "v1").await.unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(bucket.head(&manifest).await.is_ok());
            assert!(matches!(store.backup("nightly").await, Err(StoreError::NoBackup { .. })), "{what}");
        }
    }

    #[tokio::test]
    async fn a_server_takes_over_what_a_backup_that_is_gone_left() {
        let store = Store::new(Arc::new(Memory::default()));
        let mut request = ClaimRequest { namespace: "velero".into(), ..request("a", false) };
        for (uid, cluster, namespace, expected) in [
            ("a", "c", "velero", Ok(1)),
            ("b", "c", "velero", Ok(2)),
            ("c", "c", "other", Err("b")),
            ("c", "d", "velero", Err("b")),
            ("c", "c", "", Err("b")),
            ("c", "c", "velero", Ok(3)),
        ] {
            (request.backup_uid, request.cluster_uid) = (uid.into(), cluster.into());
            request.namespace = namespace.into();
            let got = match store.claim(&request).await {
                Ok(ClaimOutcome::Writer(writer)) => Ok(writer.attempt()),
                Err(StoreError::Claimed { uid, .. }) => Err(uid),
                other => panic!("{other:?}"),
            };
            assert_eq!(got, expected.map_err(str::to_owned), "{uid} {cluster} {namespace}");
        }
        assert_eq!(
            store.backups_before(&request.name).await.unwrap(),
            ["a", "b"],
            "what they have left has their UIDs"
        );
        store.forget_backup_before(&request.name, "a").await.unwrap();
        assert_eq!(store.backups_before(&request.name).await.unwrap(), ["b"]);
        // A claim without the UID of its cluster belongs to no server.
        let unknown = ClaimRequest { name: "x".into(), cluster_uid: String::new(), ..request };
        store.claim(&unknown).await.unwrap();
        let other = ClaimRequest { backup_uid: "d".into(), ..unknown };
        assert!(matches!(store.claim(&other).await, Err(StoreError::Claimed { .. })));
    }

    #[test]
    fn names_are_subdomains() {
        for name in ["a", "a-b.c1", &"x".repeat(63)] {
            assert!(is_valid_name(name), "{name}");
        }
        for name in ["", "A", "a/b", "..", "-a", "a-", "a..b", "é", &"x".repeat(254)] {
            assert!(!is_valid_name(name), "{name}");
        }
    }
}
