//! Deletes a backup with all that belongs to it (api-and-controllers.md 3.7).

use super::backup::{NAME_TAKEN, engine_env, is_record_of};
use super::restore::has_files;
use super::running::capped;
use super::{Context, Effect, Finished, SnapshotLocations, Unfinished};
use crate::phase::facts::deletion_has_begun;
use crate::phase::hold::{Hold, set_elsewhere};
use crate::phase::location::location_in;
use crate::phase::request::{deletable_in, is_meant};
use crate::world::{Kind, Meta, Unreadable, World};
use jiff::Timestamp;
use lifeboat_api::{
    Backup, BackupPhase, BackupStorageLocation, DeleteBackupRequest, DeleteBackupRequestPhase, Restore, label_value,
    well_known,
};
use lifeboat_backup::run_delete_actions;
use lifeboat_client::is_refused;
use lifeboat_client::{Identity, NamespacedName};
use lifeboat_cluster::ClusterError;
use lifeboat_store::{Store, StoreError};
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long restores of the backup may take to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// What of the world a deletion needs.
#[derive(Debug)]
pub(crate) struct Target {
    backup: Option<Backup>,
    /// Its location, or the name of the one that there is not.
    location: Result<BackupStorageLocation, String>,
    /// The restores of the backup, and whether they may have files.
    restores: Vec<(Identity, bool)>,
    /// Other requests for the same backup.
    others: Vec<Identity>,
    /// Those of them that were for this very backup and have failed.
    failed: Vec<Identity>,
    /// When this was seen.
    now: Timestamp,
}

impl Target {
    /// `default_location` is what the server's flag says.
    pub(crate) fn of(request: &DeleteBackupRequest, world: &World, default_location: &str, now: Timestamp) -> Self {
        let name = request.beside(&request.spec.backup_name);
        // A request may outlive its backup, and must not take another one of the name for it.
        let backup = backup_named(&name, world).filter(|backup| is_meant(request, backup)).map(Cow::into_owned);
        let location = match &backup {
            Some(backup) => location_in(world, backup, default_location).cloned().map_err(str::to_owned),
            None => Err(String::new()),
        };
        let readable = world.restores.beside(request).filter(|r| r.spec.backup_name == name.name);
        let readable = readable.map(|r| (Identity::of(&r.metadata), has_files(r)));
        let is_of_backup = |r: &&Unreadable| r.meta.namespace == name.namespace && r.names("backupName") == name.name;
        let unreadable = world.restores.unreadable().filter(is_of_backup);
        let restores = readable.chain(unreadable.map(|r| (r.identity(), r.has_begun()))).collect();
        let is_other = |other: &&DeleteBackupRequest| {
            other.metadata.name != request.metadata.name && other.spec.backup_name == name.name
        };
        let others: Vec<&DeleteBackupRequest> = world.delete_requests.beside(request).filter(is_other).collect();
        let has_failed = |other: &&&DeleteBackupRequest| {
            let is_processed = other.status.phase == Some(DeleteBackupRequestPhase::Processed);
            is_processed && backup.as_ref().is_some_and(|backup| is_meant(other, backup))
        };
        let identity = |other: &&DeleteBackupRequest| Identity::of(&other.metadata);
        Self {
            location,
            restores,
            failed: others.iter().filter(has_failed).map(identity).collect(),
            others: others.iter().map(identity).collect(),
            backup,
            now,
        }
    }

    /// Why the deletion cannot begin; `None` when it can.
    pub(crate) fn refusal(&self, request: &DeleteBackupRequest) -> Option<String> {
        self.check(request).err()
    }

    /// Why the deletion cannot begin; otherwise what is deleted, and where it lies.
    fn check(&self, request: &DeleteBackupRequest) -> Result<(&Backup, &BackupStorageLocation), String> {
        if request.spec.backup_name.is_empty() {
            return Err("spec.backupName is required".to_owned());
        }
        let backup = self.backup.as_ref().ok_or_else(|| "backup not found".to_owned())?;
        let location = deletable_in(backup, self.location.as_ref().map_err(String::as_str), self.now)?;
        Ok((backup, location))
    }
}

/// The backup of a name; of one that cannot be read, what a deletion needs.
pub(crate) fn backup_named<'a>(name: &NamespacedName, world: &'a World) -> Option<Cow<'a, Backup>> {
    let unreadable = || world.backups.get_unreadable(name).map(|backup| Cow::Owned(backup.backup()));
    world.backups.get(name).map(Cow::Borrowed).or_else(unreadable)
}

/// Deletes what the request names. What was begun by a server that died is gone on with: each step finds done what is
/// done. The record goes first, so that a backup is never half there.
pub(crate) async fn delete(context: &Context, request: DeleteBackupRequest, target: Target) -> Finished {
    let (backup, location) = match target.check(&request) {
        Ok(found) => found,
        // Cut off after its last step but one: the backup is gone as wished.
        Err(_) if target.backup.is_none() && request.status.phase == Some(DeleteBackupRequestPhase::InProgress) => {
            return delete_requests(context, &request, &target.others).await;
        }
        Err(why) => return refuse(context, &request, &target.failed, vec![why]).await,
    };
    let store = match context.store(location).await {
        Ok(store) => store,
        Err(why) => {
            let why = format!("error getting the backup store: {why}");
            return refuse(context, &request, &target.failed, vec![why]).await;
        }
    };
    let (request, owner) = match begin(context, &request, backup, &store).await? {
        Begun::Begins(request, owner) => (request, owner),
        Begun::Refused(request, why) => return refuse(context, &request, &target.failed, vec![why]).await,
    };
    let name = &backup.metadata.name;
    tracing::info!(backup = name, "deletion begins");
    context.metrics.deletion_begins(backup);
    let errors = match remove_files(context, backup, &store, &owner).await? {
        errors if errors.is_empty() => remove_objects(context, backup, &store, &target.restores).await?,
        errors => errors,
    };
    context.metrics.deletion_ends(backup, errors.is_empty());
    if !errors.is_empty() {
        tracing::error!(backup = name, errors = errors.join("; "), "deletion failed");
        return note_processed(context, &request, &target.failed, errors).await;
    }
    tracing::info!(backup = name, "deletion ends");
    let mut effects = vec![Effect::Gone(Kind::Backup, Identity::of(&backup.metadata))];
    effects.extend(delete_requests(context, &request, &target.others).await?);
    Ok(effects)
}

/// What came of the beginning of a deletion.
enum Begun {
    /// It is noted on the request, which is this now, and on the backup; the files belong to this one.
    Begins(DeleteBackupRequest, Owner),
    /// Nothing is deleted, for this reason; the request as it is now.
    Refused(DeleteBackupRequest, String),
}

/// Notes on the request and then on the backup that the deletion begins, when the files are not held by another cluster.
async fn begin(
    context: &Context,
    request: &DeleteBackupRequest,
    backup: &Backup,
    store: &Store,
) -> Result<Begun, Unfinished> {
    let mut begun = request.clone();
    begun.status.phase = Some(DeleteBackupRequestPhase::InProgress);
    let labels = &mut begun.metadata.labels;
    labels.insert(well_known::LABEL_BACKUP_NAME.to_owned(), label_value(&backup.metadata.name));
    labels.insert(well_known::LABEL_BACKUP_UID.to_owned(), backup.metadata.uid.clone());
    let request = match context.client.change(request, &begun).await {
        Err(e) if is_refused(&e) => return Ok(Begun::Refused(request.clone(), not_noted(&e))),
        noted => noted?,
    };
    let owner = match owner_of_files(store, backup, context.env.now()).await {
        Ok(Owner::Held(hold)) => {
            let why = hold.refusal(&backup.metadata.name);
            return Ok(Begun::Refused(request, format!("{why} (it was held in another cluster)")));
        }
        Ok(owner) => owner,
        Err(e) => return Ok(Begun::Refused(request, unknown(backup, &e))),
    };
    let mut deleting = backup.clone();
    deleting.status.phase = Some(BackupPhase::Deleting);
    if let Owner::This(uid) = &owner {
        deleting.metadata.annotations.insert(ANNOTATION_FILES.to_owned(), uid.clone());
    }
    match context.client.change_unread(backup, &deleting).await {
        Err(e) if is_refused(&e) => return Ok(Begun::Refused(request, not_noted(&e))),
        noted => drop(noted?),
    }
    Ok(Begun::Begins(request, owner))
}

/// Removes the files of a backup that are its own, and before them what they alone know: gives what went wrong.
async fn remove_files(
    context: &Context,
    backup: &Backup,
    store: &Store,
    owner: &Owner,
) -> Result<Vec<String>, Unfinished> {
    let leads = || context.leadership.check().map_err(|lost| Unfinished::Because(lost.to_string()));
    leads()?;
    let Owner::This(uid) = owner else { return Ok(Vec::new()) };
    let (files, cancel) = (store.clone(), context.env.cancel.child_token());
    let removed = match engine_env(context, backup, files, SnapshotLocations::All, cancel).await {
        Ok(env) => Box::pin(run_delete_actions(backup, uid, &env)).await,
        Err(why) => Err(vec![why]),
    };
    if let Err(errors) = removed {
        return Ok(errors);
    }
    leads()?;
    let deleted = store.delete_backup(&backup.metadata.name).await;
    Ok(deleted.err().map(|e| format!("error deleting backup from backup storage: {e}")).into_iter().collect())
}

/// Removes the restores of a backup, each with its files where it has some, and then the Backup: gives what went wrong.
async fn remove_objects(
    context: &Context,
    backup: &Backup,
    store: &Store,
    restores: &[(Identity, bool)],
) -> Result<Vec<String>, Unfinished> {
    let mut errors = Vec::new();
    let mut patience = PATIENCE;
    for (restore, has_files) in restores {
        let deleted = if *has_files { store.delete_restore(&restore.key.name).await } else { Ok(()) };
        if let Err(e) = deleted {
            errors.push(format!("error deleting files of restore {}: {e}", restore.key.name));
        } else if let Err(e) = delete_restore(context, restore, patience).await {
            // The others are told to go, and not waited for.
            patience = Duration::ZERO;
            errors.push(e);
        }
    }
    if errors.is_empty() {
        match context.client.delete_exactly::<Backup>(&Identity::of(&backup.metadata)).await {
            Err(e) if is_refused(&e) => errors.push(e.to_string()),
            deleted => drop(deleted?),
        }
    }
    Ok(errors)
}

/// Put on a Backup when its deletion begins: the UID in the record or claim that was found to be its own. A backup that was
/// taken over from a bucket has another UID than its files, and when the record is gone nothing but the claim says whose
/// the rest is.
const ANNOTATION_FILES: &str = "lifeboat.io/files";

/// The backup to which the files belong that lie in the bucket under the name of a Backup.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    /// This one: their record or claim has this UID, or there are no files.
    This(String),
    /// Another one, such as that of another cluster, which may be writing them.
    Another,
    /// This one, which another cluster holds.
    Held(Hold),
}

/// Asks the bucket which backup the files belong to, just before they are deleted: this deletion may have begun long
/// ago, and another cluster may have taken the name since. A backup that was refused, or ended before it began, has no
/// files. (Velero deletes whatever has the name.)
///
/// A record or claim that cannot be read is an error: it says nothing.
async fn owner_of_files(store: &Store, backup: &Backup, now: Timestamp) -> Result<Owner, StoreError> {
    let (name, uid, status) = (&backup.metadata.name, &backup.metadata.uid, &backup.status);
    if status.start_timestamp.is_none() || status.failure_reason == NAME_TAKEN {
        return Ok(Owner::Another);
    }
    let noted = backup.metadata.annotations.get(ANNOTATION_FILES).filter(|noted| !noted.is_empty());
    let (is_its, found) = match store.backup(name).await {
        Ok(record) => {
            let is_its = is_record_of(&record, backup);
            let hold = set_elsewhere(&backup.metadata, &record.metadata, now);
            if let Some(hold) = hold.filter(|_| is_its && !deletion_has_begun(backup)) {
                return Ok(Owner::Held(hold));
            }
            (is_its, record.metadata.uid)
        }
        Err(StoreError::NoBackup { .. }) => match store.claim_of(name).await? {
            Some(claim) => ([Some(uid), noted].contains(&Some(&claim.backup_uid)), claim.backup_uid),
            None => (true, noted.unwrap_or(uid).clone()),
        },
        Err(e) => return Err(e),
    };
    Ok(if is_its { Owner::This(found) } else { Owner::Another })
}

fn unknown(backup: &Backup, why: &StoreError) -> String {
    format!(
        "error looking at the files, of which none was deleted: {why}; when they are this backup's, remove backups/{}/ from the bucket by hand and delete the Backup again",
        backup.metadata.name
    )
}

fn not_noted(why: &ClusterError) -> String {
    format!("the API server refuses to note that the deletion begins: {why}")
}

/// Deletes a restore and waits until it is gone: its finalizer is ours to remove, in another task.
async fn delete_restore(context: &Context, restore: &Identity, patience: Duration) -> Result<(), String> {
    let name = &restore.key.name;
    let failed = |e: ClusterError| format!("error deleting restore {name}: {e}");
    context.client.delete_exactly::<Restore>(restore).await.map_err(failed)?;
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(50);
    while context.client.uid_of::<Restore>(name).await.map_err(failed)?.is_some_and(|uid| uid == restore.uid) {
        if Instant::now() > deadline {
            return Err(format!("restore {name} is still there {} s after its deletion", patience.as_secs()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    Ok(())
}

/// Deletes the request, and those for the same.
async fn delete_requests(context: &Context, request: &DeleteBackupRequest, others: &[Identity]) -> Finished {
    let mut effects = Vec::new();
    for gone in others.iter().cloned().chain([Identity::of(&request.metadata)]) {
        context.client.delete_exactly::<DeleteBackupRequest>(&gone).await?;
        effects.push(Effect::Gone(Kind::DeleteBackupRequest, gone));
    }
    Ok(effects)
}

/// Deletes a request whose time is over.
pub(crate) async fn delete_request(context: &Context, request: DeleteBackupRequest) -> Finished {
    delete_requests(context, &request, &[]).await
}

/// Notes why a deletion does not begin.
async fn refuse(
    context: &Context,
    request: &DeleteBackupRequest,
    before: &[Identity],
    errors: Vec<String>,
) -> Finished {
    tracing::warn!(backup = request.spec.backup_name, errors = errors.join("; "), "a deletion does not begin");
    note_processed(context, request, before, errors).await
}

/// Notes on a request what went wrong. What requests before it have noted is not needed any more: of a backup whose deletion fails
/// again and again one stays.
async fn note_processed(
    context: &Context,
    request: &DeleteBackupRequest,
    before: &[Identity],
    errors: Vec<String>,
) -> Finished {
    let mut after = request.clone();
    after.status.phase = Some(DeleteBackupRequestPhase::Processed);
    after.status.errors = capped(errors);
    let mut effects = vec![Effect::stored(context.client.change(request, &after).await?)];
    for gone in before {
        match context.client.delete_exactly::<DeleteBackupRequest>(gone).await {
            Ok(_) => effects.push(Effect::Gone(Kind::DeleteBackupRequest, gone.clone())),
            // Its own time comes to an end, too.
            Err(e) => tracing::warn!(request = gone.key.name, error = %e, "an old request could not be removed"),
        }
    }
    Ok(effects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{OneBucket, api_server, context, sandbox};
    use crate::world::Change;
    use lifeboat_api::Time;
    use lifeboat_api::{BackupStorageLocationAccessMode, BackupStorageLocationPhase};
    use lifeboat_archive::layout::BackupFile;
    use lifeboat_archive::sidecar::{CLAIM_FORMAT, Claim};
    use lifeboat_bucket::{BlobStore, Memory, PutOptions};
    use lifeboat_reconcile::Seen;
    use lifeboat_store::ClaimRequest;
    use std::sync::Arc;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    /// A backup of this UID that began at this second.
    fn begun(uid: &str, second: i64) -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = "b".into();
        backup.metadata.uid = uid.into();
        backup.status.start_timestamp = Some(Time::new(Timestamp::from_second(second).unwrap()));
        backup
    }

    #[tokio::test]
    async fn files_of_another_backup_stay() {
        let mut not_begun = begun("u", 0);
        not_begun.status.start_timestamp = None;
        let (b, other) = (begun("u", 5), begun("v", 7));
        let (mut refused, mut at_the_same_second) = (begun("u", 7), begun("u", 7));
        refused.status.failure_reason = NAME_TAKEN.into();
        at_the_same_second.status.completion_timestamp = at_the_same_second.status.start_timestamp;
        let claim = |uid: &str| {
            let (cluster_uid, namespace) = ("c".to_owned(), "velero".to_owned());
            let (format, claimed) = (CLAIM_FORMAT.to_owned(), Timestamp::UNIX_EPOCH);
            let backup_uid = uid.into();
            serde_json::to_vec(&Claim {
                format,
                cluster_uid,
                backup_uid,
                namespace,
                attempt: 1,
                claimed,
                refreshed: None,
            })
        };
        let record = |backup: &Backup| Some(serde_json::to_vec(backup).unwrap());
        for (what, backup, record, claimed, expected) in [
            ("nothing is there", &b, None, None, Some("u")),
            ("it never began", &not_begun, None, None, None),
            ("it never began, and another did", &not_begun, record(&other), Some("v"), None),
            ("its record", &b, record(&b), Some("u"), Some("u")),
            ("its record, from before it was taken over", &b, record(&begun("original", 5)), None, Some("original")),
            ("the record of another", &b, record(&other), None, None),
            ("the name was taken", &refused, record(&other), None, None),
            ("another began at the same second", &at_the_same_second, record(&other), None, None),
            ("its claim", &b, None, Some("u"), Some("u")),
            ("the claim of another", &b, None, Some("v"), None),
        ] {
            let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
            let all = [(BackupFile::Metadata, record), (BackupFile::Claim, claimed.map(|uid| claim(uid).unwrap()))];
            for (file, bytes) in all {
                let Some(bytes) = bytes else { continue };
                bucket.put(&file.key("b"), bytes.into(), PutOptions::default()).await.unwrap();
            }
            let expected = expected.map_or(Owner::Another, |uid: &str| Owner::This(uid.to_owned()));
            assert_eq!(owner_of_files(&Store::new(bucket), backup, NOW).await.unwrap(), expected, "{what}");
        }
    }

    /// Each time that it is tried.
    #[tokio::test]
    async fn a_deletion_takes_nothing_that_another_cluster_has_made_meanwhile() {
        let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
        let store = Store::new(Arc::clone(&bucket));
        let put = async |file: BackupFile, bytes: Vec<u8>| {
            bucket.put(&file.key("b"), bytes.into(), PutOptions::default()).await.unwrap();
        };
        let claim = |cluster: &str, uid: &str| {
            let request = ClaimRequest {
                name: "b".into(),
                backup_uid: uid.into(),
                cluster_uid: cluster.into(),
                namespace: "velero".into(),
                take_over: false,
                now: Timestamp::UNIX_EPOCH,
            };
            let store = store.clone();
            async move { store.claim(&request).await.map(drop) }
        };
        // Taken over from the bucket: another UID than the record's.
        let mut backup = begun("u", 5);
        claim("here", "original").await.unwrap();
        put(BackupFile::Metadata, serde_json::to_vec(&begun("original", 5)).unwrap()).await;
        assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), Owner::This("original".into()));
        backup.status.phase = Some(BackupPhase::Deleting);
        backup.metadata.annotations.insert(ANNOTATION_FILES.into(), "original".into());
        // Cut off after the record: the rest is still its own.
        bucket.delete(&[BackupFile::Metadata.key("b")]).await.unwrap();
        assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), Owner::This("original".into()));
        assert!(claim("there", "v").await.is_err(), "no other backup gets the name as long as a file is left");
        store.delete_backup("b").await.unwrap();
        assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), Owner::This("original".into()));
        // Another cluster begins, and ends.
        claim("there", "v").await.unwrap();
        assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), Owner::Another);
        put(BackupFile::Metadata, serde_json::to_vec(&begun("v", 9)).unwrap()).await;
        assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), Owner::Another);
        // As an earlier version noted it.
        backup.metadata.annotations.insert(ANNOTATION_FILES.into(), "own".into());
        assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), Owner::Another);
        for file in [BackupFile::Metadata, BackupFile::Claim] {
            put(file, b"{".to_vec()).await;
            let error = owner_of_files(&store, &backup, NOW).await.unwrap_err();
            assert!(matches!(error, StoreError::Sidecar { .. }), "{error}");
            bucket.delete(&[file.key("b")]).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_backup_that_another_cluster_holds_stays_unless_its_deletion_has_begun() {
        let store = Store::in_memory();
        let hold = |backup: &mut Backup, name: &str| {
            backup.metadata.annotations.insert(name.to_owned(), "forever".to_owned());
        };
        let mut record = begun("u", 5);
        hold(&mut record, well_known::ANNOTATION_HOLD);
        store.replace_record(&record).await.unwrap();
        let mut backup = begun("u", 5);
        assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), Owner::Held(Hold::Forever));
        backup.status.phase = Some(BackupPhase::Deleting);
        assert_eq!(owner_of_files(&store, &backup, NOW).await.unwrap(), Owner::This("u".into()));
        let mut released = begun("u", 5);
        hold(&mut released, well_known::ANNOTATION_HOLD_RECORDED);
        assert_eq!(
            owner_of_files(&store, &released, NOW).await.unwrap(),
            Owner::This("u".into()),
            "it was released here"
        );
        assert_eq!(owner_of_files(&store, &begun("v", 7), NOW).await.unwrap(), Owner::Another);
    }

    #[tokio::test]
    async fn a_deletion_is_counted_when_the_backup_is_gone() {
        for (code, counted) in [(200, ["success", "attempt"]), (403, ["failure", "attempt"])] {
            // It never began, so that no file is its own.
            let mut backup = begun("u", 0);
            (backup.status.start_timestamp, backup.metadata.resource_version) = (None, "1".into());
            let mut request = DeleteBackupRequest::default();
            (request.metadata.name, request.spec.backup_name) = ("d".into(), "b".into());
            let mut location = BackupStorageLocation::default();
            location.spec.provider = "aws".into();
            location.status.phase = Some(BackupStorageLocationPhase::Available);
            let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "code": code, "message": "no"});
            let begins = [(200, serde_json::json!(request)), (200, serde_json::json!(backup)), (code, status)];
            let ends = (200, serde_json::json!(request));
            let mut tasks = tokio::task::JoinSet::new();
            let cluster = api_server(&mut tasks, begins.into_iter().chain([ends]).collect()).await;
            let context = context(cluster, Arc::new(OneBucket(Arc::new(Memory::default()))));
            let target = Target {
                backup: Some(backup),
                location: Ok(location),
                restores: vec![],
                others: vec![],
                failed: vec![],
                now: NOW,
            };
            let effects = delete(&context, request, target).await.unwrap();
            let is_gone = effects.iter().any(|effect| matches!(effect, Effect::Gone(Kind::Backup, _)));
            assert_eq!(is_gone, code == 200);
            let text = String::from_utf8(context.metrics.text().unwrap()).unwrap();
            for what in ["attempt", "success", "failure"] {
                let line = format!("velero_backup_deletion_{what}_total{{schedule=\"\"}}");
                let expected = format!("{line} {}", i32::from(counted.contains(&what)));
                assert!(text.lines().any(|line| line == expected), "{code}: {expected} in {text}");
            }
        }
    }

    #[tokio::test]
    async fn of_the_requests_that_have_failed_the_last_one_stays() {
        let (_sandbox, cluster) = sandbox().await;
        let context = context(cluster, Arc::new(OneBucket(Arc::new(Memory::default()))));
        let mut made = Vec::new();
        for name in ["d1", "d2", "of-another"] {
            let mut request = DeleteBackupRequest::default();
            (request.metadata.name, request.metadata.namespace) = (name.into(), "velero".into());
            request.spec.backup_name = "b".into();
            made.push(context.client.create(name, &request).await.unwrap().unwrap());
        }
        let failed = [Identity::of(&made[0].metadata)];
        let effects = note_processed(&context, &made[1], &failed, vec!["no".to_owned()]).await.unwrap();
        assert_eq!(effects.len(), 2);
        let left: Vec<DeleteBackupRequest> = context.client.list("").await.unwrap();
        let left: Vec<(&str, &[String])> =
            left.iter().map(|one| (one.metadata.name.as_str(), &one.status.errors[..])).collect();
        assert_eq!(left, [("d2", &["no".to_owned()][..]), ("of-another", &[])]);
    }

    #[test]
    fn a_request_is_for_one_backup_of_the_name() {
        let mut world = World::default();
        world.backups.put(begun("u", 5));
        let mut request = DeleteBackupRequest::default();
        request.spec.backup_name = "b".into();
        for (label, expected) in [(None, true), (Some(""), true), (Some("u"), true), (Some("v"), false)] {
            let labels = label.map(|uid| (well_known::LABEL_BACKUP_UID.to_owned(), uid.to_owned()));
            request.metadata.labels = labels.into_iter().collect();
            assert_eq!(Target::of(&request, &world, "", NOW).backup.is_some(), expected, "{label:?}");
        }
    }

    #[test]
    fn a_deletion_takes_nothing_of_another_namespace() {
        let mut world = World::default();
        let request = |namespace: &str, name: &str| {
            let mut request = DeleteBackupRequest::default();
            (request.metadata.namespace, request.metadata.name) = (namespace.into(), name.into());
            request.spec.backup_name = "b".into();
            request
        };
        for namespace in ["here", "there"] {
            let mut backup = begun(namespace, 5);
            backup.metadata.namespace = namespace.into();
            world.backups.put(backup);
            let mut restore = Restore::default();
            (restore.metadata.namespace, restore.metadata.name) = (namespace.into(), "r".into());
            restore.metadata.uid = namespace.into();
            restore.spec.backup_name = "b".into();
            world.restores.put(restore);
            let spec = serde_json::json!({"backupName": "b", "itemOperationTimeout": []});
            let metadata = serde_json::json!({"namespace": namespace, "name": "u", "uid": namespace});
            let unreadable = serde_json::json!({"metadata": metadata, "spec": spec}).to_string();
            world.see(Change { kind: Kind::Restore, what: Seen::Applied(unreadable.into()) });
            world.delete_requests.put(request(namespace, "d1"));
            world.delete_requests.put(request(namespace, "d2"));
            for (name, uid) in [("d3", namespace), ("d4", "another backup of the name")] {
                let mut failed = request(namespace, name);
                failed.status.phase = Some(DeleteBackupRequestPhase::Processed);
                failed.metadata.labels.insert(well_known::LABEL_BACKUP_UID.into(), uid.into());
                world.delete_requests.put(failed);
            }
        }
        let key = |name: &str| NamespacedName { namespace: "here".into(), name: name.into() };
        let target = Target::of(&request("here", "d1"), &world, "", NOW);
        assert_eq!(target.backup.map(|backup| backup.metadata.uid).as_deref(), Some("here"));
        let restores: Vec<NamespacedName> = target.restores.into_iter().map(|(restore, _)| restore.key).collect();
        assert_eq!(restores, [key("r"), key("u")]);
        let keys = |all: Vec<Identity>| all.into_iter().map(|other| other.key).collect::<Vec<_>>();
        assert_eq!(keys(target.others), [key("d2"), key("d3"), key("d4")]);
        assert_eq!(keys(target.failed), [key("d3")]);
    }

    #[test]
    fn what_cannot_be_deleted_is_said_before_anything_is_changed() {
        let mut request = DeleteBackupRequest::default();
        let mut target = Target {
            backup: None,
            location: Err("here".into()),
            restores: vec![],
            others: vec![],
            failed: vec![],
            now: NOW,
        };
        let why = |request: &DeleteBackupRequest, target: &Target| target.check(request).err();
        assert_eq!(why(&request, &target).as_deref(), Some("spec.backupName is required"));
        request.spec.backup_name = "b".into();
        assert_eq!(why(&request, &target).as_deref(), Some("backup not found"));
        let mut backup = Backup::default();
        backup.spec.storage_location = "here".into();
        for phase in [BackupPhase::InProgress, BackupPhase::Finalizing, BackupPhase::WaitingForPluginOperations] {
            backup.status.phase = Some(phase);
            target.backup = Some(backup.clone());
            assert_eq!(why(&request, &target).as_deref(), Some("backup is still in progress"), "{phase:?}");
        }
        let held = |value: &str| [(well_known::ANNOTATION_HOLD.to_owned(), value.to_owned())].into();
        for (phase, value, expected) in [
            (BackupPhase::Completed, "forever", "backup b is held until it is released"),
            (BackupPhase::Completed, "1970-01-01T00:00:01Z", "backup b is held until 1970-01-01T00:00:01Z"),
            (BackupPhase::Completed, "1970-01-01T00:00:00Z", "backup storage location here not found"),
            (BackupPhase::Deleting, "forever", "backup storage location here not found"),
        ] {
            let mut backup = Backup { metadata: backup.metadata.clone(), ..backup.clone() };
            backup.metadata.name = "b".into();
            backup.metadata.annotations = held(value);
            backup.status.phase = Some(phase);
            target.backup = Some(backup);
            let why = why(&request, &target).unwrap();
            assert!(why.starts_with(expected), "{phase:?} {value}: {why}");
            let tells = why.ends_with("; `backup release b` releases it, then delete it again");
            assert_eq!(tells, expected.contains("held"), "{why}");
        }
        for phase in [None, Some(BackupPhase::Queued), Some(BackupPhase::Completed), Some(BackupPhase::Deleting)] {
            backup.status.phase = phase;
            target.backup = Some(backup.clone());
            let expected = "backup storage location here not found";
            assert_eq!(why(&request, &target).as_deref(), Some(expected), "{phase:?}");
        }
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "here".into();
        for (mode, phase, expected) in [
            (
                Some(BackupStorageLocationAccessMode::ReadOnly),
                Some(BackupStorageLocationPhase::Available),
                Some("cannot delete backup because backup storage location here is currently in read-only mode"),
            ),
            (
                None,
                None,
                Some("cannot delete backup because backup storage location here is currently in Unavailable state"),
            ),
            (None, Some(BackupStorageLocationPhase::Available), None),
        ] {
            location.spec.access_mode = mode;
            location.status.phase = phase;
            target.location = Ok(location.clone());
            assert_eq!(why(&request, &target).as_deref(), expected);
        }
    }
}
