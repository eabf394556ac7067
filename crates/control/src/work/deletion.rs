//! Deletes a backup with all that belongs to it (velero: pkg/controller/backup_deletion_controller.go).

use super::backup::{NAME_TAKEN, engine_env, is_record_of};
use super::keep::keep_as_record_says;
use super::reading_restores::{foreign_restore, say_restore};
use super::repository::deletion::LocationRepositories;
use super::restore::delete_own_files;
use super::running::capped;
use super::{Context, Effect, SnapshotLocations, StepError, StepResult};
use crate::location_notes::READING_VALID;
use crate::member::location_in;
use crate::world::{Meta, MirroredKind, Unreadable, World};
use jiff::Timestamp;
use lifeboat_api::NamespacedName;
use lifeboat_api::{
    Backup, BackupPhase, BackupStorageLocation, DeleteBackupRequest, DeleteBackupRequestPhase, Restore, label_value,
    well_known,
};
use lifeboat_backup::{CsiError, run_delete_actions, unbound_claims};
use lifeboat_client::ObjectIdentity;
use lifeboat_client::is_refused;
use lifeboat_cluster::ClusterError;
use lifeboat_lifecycle::phase::facts::deletion_has_begun;
use lifeboat_lifecycle::phase::hold::{Hold, set_elsewhere};
use lifeboat_lifecycle::phase::location::NoLocation;
use lifeboat_lifecycle::phase::request::{
    check_deletion, claims_may_need, claims_waited_for, forget_claims, is_meant, is_of_expiry, reads,
    refusal_for_claims, refusal_for_foreign_restore, refusal_for_restore, tell_of_claims, waits_for_claims_until,
    way_out_of_claims,
};
use lifeboat_lifecycle::phase::restore::has_files;
use lifeboat_object::first_names;
use lifeboat_operation::{Subject, Trace};
use lifeboat_store::{Store, StoreError};
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time limit for restores of the backup to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// The facts from the cluster that a deletion needs.
#[derive(Debug)]
pub(crate) struct DeletionTarget {
    /// The backup that is meant, and its location; `None` where there is no such backup.
    backup: Option<(Backup, Result<BackupStorageLocation, NoLocation>)>,
    /// The restores of the backup, and whether they may have files.
    restores: Vec<(ObjectIdentity, bool)>,
    /// Restores that read the backup.
    reading: Vec<NamespacedName>,
    /// Other requests for the same backup.
    others: Vec<ObjectIdentity>,
    /// The other requests that were for this very backup and have failed.
    failed: Vec<ObjectIdentity>,
    /// When this was seen.
    now: Timestamp,
}

impl DeletionTarget {
    /// `default` is the location that the server's flag names.
    pub(crate) fn of(request: &DeleteBackupRequest, world: &World, default: Option<&str>, now: Timestamp) -> Self {
        let name = request.beside(&request.spec.backup_name);
        // A request may outlive its backup, and must not take another one of the name for it.
        let backup = backup_named(&name, world).filter(|backup| is_meant(request, backup)).map(Cow::into_owned);
        let backup = backup.map(|backup| {
            let location = location_in(world, &backup, default).cloned();
            (backup, location)
        });
        let readable = world.restores.beside(request).filter(|r| r.spec.backup_name == name.name);
        let readable = readable.map(|r| (ObjectIdentity::of(&r.metadata), has_files(r)));
        let is_of_backup = |r: &&Unreadable| r.meta.namespace == name.namespace && r.names("backupName") == name.name;
        let unreadable = world.restores.unreadable().filter(is_of_backup);
        let restores = readable.chain(unreadable.map(|r| (r.identity(), r.has_begun()))).collect();
        let reads = |r: &&Restore| reads(r, &name.name);
        let has_begun = backup.as_ref().is_some_and(|(backup, _)| deletion_has_begun(backup));
        let reading = world.restores.beside(request).filter(|_| !has_begun).filter(reads);
        let is_other = |other: &&DeleteBackupRequest| {
            other.metadata.name != request.metadata.name && other.spec.backup_name == name.name
        };
        let others: Vec<&DeleteBackupRequest> = world.delete_requests.beside(request).filter(is_other).collect();
        let has_failed = |other: &&&DeleteBackupRequest| {
            let is_processed = other.status.phase == Some(DeleteBackupRequestPhase::Processed);
            is_processed && backup.as_ref().is_some_and(|(backup, _)| is_meant(other, backup))
        };
        let identity = |other: &&DeleteBackupRequest| ObjectIdentity::of(&other.metadata);
        Self {
            restores,
            reading: reading.map(Meta::key).collect(),
            failed: others.iter().filter(has_failed).map(identity).collect(),
            others: others.iter().map(identity).collect(),
            backup,
            now,
        }
    }

    /// The restore for whose end the deletion waits, because that is asked for.
    pub(crate) fn waits_for(&self, request: &DeleteBackupRequest) -> Option<&NamespacedName> {
        self.reading.first().filter(|_| waits_for_restores(request))
    }

    /// Returns the reason for which the deletion cannot begin; `None` when it can.
    pub(crate) fn refusal(&self, request: &DeleteBackupRequest) -> Option<String> {
        self.check(request).err()
    }

    /// Returns the backup to delete and its location; otherwise the reason for which the deletion cannot begin.
    fn check(&self, request: &DeleteBackupRequest) -> Result<(&Backup, &BackupStorageLocation), String> {
        if request.spec.backup_name.is_empty() {
            return Err("spec.backupName is required".to_owned());
        }
        let (backup, location) = self.backup.as_ref().ok_or_else(|| "backup not found".to_owned())?;
        let location = check_deletion(backup, location.as_ref().map_err(NoLocation::clone), self.now)?;
        if let Some(restore) = self.reading.first() {
            return Err(refusal_for_restore(&backup.metadata.name, &restore.name));
        }
        Ok((backup, location))
    }
}

fn waits_for_restores(request: &DeleteBackupRequest) -> bool {
    request.metadata.says_true(well_known::ANNOTATION_WAIT_FOR_RESTORES)
}

/// The claims that still need the snapshots of a backup; `None` when none does. Where nobody may list claims nothing is known
/// of them, which is told.
///
/// # Errors
/// They could not be asked for just now.
async fn needed_by_claims(context: &Context, backup: &Backup) -> Result<Option<Vec<String>>, StepError> {
    if !claims_may_need(backup) {
        return Ok(None);
    }
    let name = &backup.metadata.name;
    match unbound_claims(&context.client.cluster, name).await {
        Ok(claims) => Ok(Some(claims).filter(|claims| !claims.is_empty())),
        Err(CsiError::Cluster(e)) if e.is_denied() => {
            tracing::warn!(backup = name, error = %e, "it is not known whether claims still need the snapshots of a backup");
            let told = format!("the backup is deleted, and whether claims still need its snapshots is not known: {e}");
            context.warn_of(backup, "ClaimsNotKnown", &told).await;
            Ok(None)
        }
        Err(e) => Err(StepError::Because(format!(
            "backup {name} is not deleted yet: whether claims still need its snapshots could not be asked: {e}"
        ))),
    }
}

/// Tells whether a request has waited long enough for claims, by the clock of the API server too.
async fn has_waited_for_claims(context: &Context, request: &DeleteBackupRequest) -> Result<bool, StepError> {
    let Some(until) = waits_for_claims_until(request) else { return Ok(false) };
    Ok(until <= context.env.now() && until <= context.earliest_now().await?)
}

/// Says in the request for which claims it waits, and with an event of the backup when that has changed.
async fn say_claims(
    context: &Context,
    backup: &Backup,
    request: &DeleteBackupRequest,
    claims: &str,
) -> Result<(), StepError> {
    if claims_waited_for(request) == Some(claims) && waits_for_claims_until(request).is_some() {
        return Ok(());
    }
    let mut after = request.clone();
    tell_of_claims(&mut after, claims, context.earliest_now().await?);
    let way_out = way_out_of_claims(&after);
    tracing::info!(
        backup = backup.metadata.name,
        claims,
        "a deletion waits for claims from the backup's snapshots that have no volume yet"
    );
    context.client.change(request, &after).await?;
    let told = format!(
        "the deletion waits for claims from the backup's snapshots that have no volume yet ({claims}): {way_out}"
    );
    context.warn_of(backup, "DeletionWaits", &told).await;
    Ok(())
}

/// After what time claims are looked at again that a deletion waits for.
const CLAIMS_LOOKED_AT: Duration = Duration::from_secs(60);

/// The backup of a name; of one that cannot be read, what a deletion needs.
pub(crate) fn backup_named<'a>(name: &NamespacedName, world: &'a World) -> Option<Cow<'a, Backup>> {
    let unreadable = || world.backups.get_unreadable(name).map(|backup| Cow::Owned(backup.backup()));
    world.backups.get(name).map(Cow::Borrowed).or_else(unreadable)
}

/// Deletes the backup that the request names. A deletion that a server left unfinished is resumed: each step skips what
/// is done already. The record goes first, so that a backup is never half there. One that waits for a restore says no longer that
/// it waits for claims, which are not looked at meanwhile.
pub(crate) async fn delete(context: &Context, request: DeleteBackupRequest, target: DeletionTarget) -> StepResult {
    if target.waits_for(&request).is_some() {
        let mut after = request.clone();
        forget_claims(&mut after);
        return Ok(vec![Effect::stored(context.client.change(&request, &after).await?)]);
    }
    let (backup, location) = match target.check(&request) {
        Ok(found) => found,
        // Cut off after its last step but one: the backup is gone as wished.
        Err(_) if target.backup.is_none() && request.status.phase == Some(DeleteBackupRequestPhase::InProgress) => {
            return delete_requests(context, &request, &target.others).await;
        }
        Err(why) => return refuse(context, &request, &target.failed, vec![why]).await,
    };
    if let Some(claims) = needed_by_claims(context, backup).await? {
        if !waits_for_restores(&request) {
            let why = refusal_for_claims(&backup.metadata.name, &claims);
            return refuse(context, &request, &target.failed, vec![why]).await;
        }
        let claims = first_names(&claims);
        if !has_waited_for_claims(context, &request).await? {
            say_claims(context, backup, &request, &claims).await?;
            return Err(StepError::NotYet(CLAIMS_LOOKED_AT));
        }
        let told = format!(
            "the backup is deleted although claims from its snapshots have no volume yet ({claims}): it has waited for 30 days"
        );
        tracing::warn!(
            backup = backup.metadata.name,
            claims,
            "a deletion goes on although claims from its snapshots have no volume yet"
        );
        context.warn_of(backup, "DeletionGoesOn", &told).await;
    }
    let store = match context.store(location).await {
        Ok(store) => store,
        Err(why) => {
            let why = format!("error getting the backup store: {why}");
            return refuse(context, &request, &target.failed, vec![why]).await;
        }
    };
    if let Some(restore) = foreign_restore(context, backup, location, &store).await? {
        if !waits_for_restores(&request) {
            let why = refusal_for_foreign_restore(&backup.metadata.name, &restore);
            return refuse(context, &request, &target.failed, vec![why]).await;
        }
        say_restore(context, backup, &request, &restore).await?;
        return Err(StepError::NotYet(READING_VALID));
    }
    // The request may have waited for weeks, and another cluster may have come to keep the backup.
    if is_of_expiry(&request)
        && let Some(mut kept) = Box::pin(keep_as_record_says(context, backup, location)).await?
    {
        kept.extend(delete_request(context, request).await?);
        return Ok(kept);
    }
    let (request, own_files) = match begin(context, &request, backup, &store).await? {
        DeletionStart::Noted { request, own_files } => (request, own_files),
        DeletionStart::Refused { request, why } => return refuse(context, &request, &target.failed, vec![why]).await,
    };
    let name = &backup.metadata.name;
    tracing::info!(backup = name, "deletion begins");
    context.metrics.deletion_begins(backup);
    leads(context)?;
    let trace = Trace::default();
    let (namespace, uid) = (&backup.metadata.namespace, &backup.metadata.uid);
    trace.begin(Subject { kind: "deletion", namespace, name, uid });
    let removing = async {
        match &own_files {
            Some(uid) => {
                let files = FilesToRemove { store: &store, uid, location };
                Box::pin(remove_files(context, backup, files, &trace)).await
            }
            None => Ok(Vec::new()),
        }
    };
    let errors = match trace.within("files", removing).await? {
        errors if errors.is_empty() => {
            let removing = Box::pin(remove_objects(context, backup, &store, &target.restores));
            trace.within("objects", removing).await?
        }
        errors => errors,
    };
    if !errors.is_empty() {
        trace.failed(&errors.join("; "));
    }
    drop(trace);
    context.metrics.deletion_ends(backup, errors.is_empty());
    if !errors.is_empty() {
        tracing::error!(backup = name, errors = errors.join("; "), "deletion failed");
        return note_processed(context, &request, &target.failed, errors).await;
    }
    tracing::info!(backup = name, "deletion ends");
    let mut effects = vec![Effect::Gone(MirroredKind::Backup, ObjectIdentity::of(&backup.metadata))];
    effects.extend(delete_requests(context, &request, &target.others).await?);
    Ok(effects)
}

/// The result of beginning a deletion; each with the request as it is now.
enum DeletionStart {
    /// It is noted on the request and on the backup.
    Noted {
        request: DeleteBackupRequest,
        /// The UID that the files of the backup have; `None` where those of its name are another's, or it has none.
        own_files: Option<String>,
    },
    /// Nothing is deleted.
    Refused { request: DeleteBackupRequest, why: String },
}

/// Notes on the request and then on the backup that the deletion begins, when the files are not held by another cluster.
async fn begin(
    context: &Context,
    request: &DeleteBackupRequest,
    backup: &Backup,
    store: &Store,
) -> Result<DeletionStart, StepError> {
    let mut begun = request.clone();
    begun.status.phase = Some(DeleteBackupRequestPhase::InProgress);
    let labels = &mut begun.metadata.labels;
    labels.insert(well_known::LABEL_BACKUP_NAME.to_owned(), label_value(&backup.metadata.name));
    labels.insert(well_known::LABEL_BACKUP_UID.to_owned(), backup.metadata.uid.clone());
    let request = match context.client.change(request, &begun).await {
        Err(e) if is_refused(&e) => {
            return Ok(DeletionStart::Refused { request: request.clone(), why: not_noted(&e) });
        }
        noted => noted?,
    };
    let own_files = match owner_of_files(store, backup, context.env.now()).await {
        Ok(FilesOwner::Held(hold)) => {
            let why = format!("{} (it was held in another cluster)", hold.refusal(&backup.metadata.name));
            return Ok(DeletionStart::Refused { request, why });
        }
        Ok(FilesOwner::This(uid)) => Some(uid),
        Ok(FilesOwner::Another) => None,
        Err(e) => return Ok(DeletionStart::Refused { request, why: unknown(backup, &e) }),
    };
    let mut deleting = backup.clone();
    deleting.status.phase = Some(BackupPhase::Deleting);
    if let Some(uid) = &own_files {
        deleting.metadata.annotations.insert(ANNOTATION_FILES.to_owned(), uid.clone());
    }
    match context.client.change_unread(backup, &deleting).await {
        Err(e) if is_refused(&e) => return Ok(DeletionStart::Refused { request, why: not_noted(&e) }),
        noted => drop(noted?),
    }
    Ok(DeletionStart::Noted { request, own_files })
}

/// Nothing is deleted by a server that does not lead any more.
fn leads(context: &Context) -> Result<(), StepError> {
    context.leadership.check().map_err(|lost| StepError::Because(lost.to_string()))
}

/// The files of a backup that are removed.
#[derive(Clone, Copy)]
struct FilesToRemove<'a> {
    store: &'a Store,
    /// The UID that they have.
    uid: &'a str,
    location: &'a BackupStorageLocation,
}

/// Runs the delete actions, which read the files of a backup, and then deletes the files. Returns what went wrong, for the
/// request.
async fn remove_files(
    context: &Context,
    backup: &Backup,
    files: FilesToRemove<'_>,
    trace: &Trace,
) -> Result<Vec<String>, StepError> {
    let FilesToRemove { store, uid, location } = files;
    let bucket = match context.bucket(location).await {
        Ok(bucket) => bucket,
        Err(why) => return Ok(vec![format!("error getting the backup store: {why}")]),
    };
    let cancel = context.env.cancel.child_token();
    let removed = match engine_env(context, backup, store.clone(), SnapshotLocations::All, cancel).await {
        Ok(mut env) => {
            env.actions.repositories = Some(LocationRepositories::in_bucket(context, bucket));
            // What the actions log belongs to the deletion.
            env.operation.trace().join(trace);
            Box::pin(run_delete_actions(backup, uid, &env)).await
        }
        Err(why) => Err(vec![why]),
    };
    if let Err(errors) = removed {
        return Ok(errors);
    }
    leads(context)?;
    let deleted = store.delete_backup(&backup.metadata.name).await;
    Ok(deleted.err().map(|e| format!("error deleting backup from backup storage: {e}")).into_iter().collect())
}

/// Removes the restores of a backup, each with its files where it has some, and then the Backup: gives what went wrong.
async fn remove_objects(
    context: &Context,
    backup: &Backup,
    store: &Store,
    restores: &[(ObjectIdentity, bool)],
) -> Result<Vec<String>, StepError> {
    let mut errors = Vec::new();
    let mut patience = PATIENCE;
    for (restore, has_files) in restores {
        let deleted = if *has_files { delete_own_files(context, restore, store).await } else { Ok(()) };
        if let Err(e) = deleted {
            errors.push(format!("error deleting files of restore {}: {e}", restore.key.name));
        } else if let Err(e) = delete_restore(context, restore, patience).await {
            // The others are told to go, and not waited for.
            patience = Duration::ZERO;
            errors.push(e);
        }
    }
    if errors.is_empty() {
        match context.client.delete_exactly::<Backup>(&ObjectIdentity::of(&backup.metadata)).await {
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
enum FilesOwner {
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
async fn owner_of_files(store: &Store, backup: &Backup, now: Timestamp) -> Result<FilesOwner, StoreError> {
    let (name, uid, status) = (&backup.metadata.name, &backup.metadata.uid, &backup.status);
    if status.start_timestamp.is_none() || status.failure_reason == NAME_TAKEN {
        return Ok(FilesOwner::Another);
    }
    let noted = backup.metadata.annotations.get(ANNOTATION_FILES).filter(|noted| !noted.is_empty());
    let (is_its, found) = match store.backup(name).await {
        Ok(record) => {
            let is_its = is_record_of(&record, backup);
            let hold = set_elsewhere(&backup.metadata, &record.metadata, now);
            if let Some(hold) = hold.filter(|_| is_its && !deletion_has_begun(backup)) {
                return Ok(FilesOwner::Held(hold));
            }
            (is_its, record.metadata.uid)
        }
        Err(StoreError::OtherRecord { uid, .. }) => (false, uid),
        Err(StoreError::NoBackup { .. }) => match store.claim_of(name).await? {
            Some(claim) => ([Some(uid), noted].contains(&Some(&claim.backup_uid)), claim.backup_uid),
            None => (true, noted.unwrap_or(uid).clone()),
        },
        Err(e) => return Err(e),
    };
    Ok(if is_its { FilesOwner::This(found) } else { FilesOwner::Another })
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
async fn delete_restore(context: &Context, restore: &ObjectIdentity, patience: Duration) -> Result<(), String> {
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
async fn delete_requests(context: &Context, request: &DeleteBackupRequest, others: &[ObjectIdentity]) -> StepResult {
    let mut effects = Vec::new();
    for gone in others.iter().cloned().chain([ObjectIdentity::of(&request.metadata)]) {
        context.client.delete_exactly::<DeleteBackupRequest>(&gone).await?;
        effects.push(Effect::Gone(MirroredKind::DeleteBackupRequest, gone));
    }
    Ok(effects)
}

/// Deletes a request whose time is over, or which expiry withdraws.
pub(crate) async fn delete_request(context: &Context, request: DeleteBackupRequest) -> StepResult {
    if is_of_expiry(&request) {
        // Another server may have begun the deletion.
        leads(context)?;
        tracing::info!(
            backup = request.spec.backup_name,
            "expiry withdraws the deletion that it asked for: something keeps the backup, or its time is not over"
        );
    }
    delete_requests(context, &request, &[]).await
}

/// Notes why a deletion does not begin.
async fn refuse(
    context: &Context,
    request: &DeleteBackupRequest,
    before: &[ObjectIdentity],
    errors: Vec<String>,
) -> StepResult {
    tracing::warn!(backup = request.spec.backup_name, errors = errors.join("; "), "a deletion does not begin");
    note_processed(context, request, before, errors).await
}

/// Notes on a request what went wrong. What requests before it have noted is not needed any more: of a backup whose deletion fails
/// again and again one stays.
async fn note_processed(
    context: &Context,
    request: &DeleteBackupRequest,
    before: &[ObjectIdentity],
    errors: Vec<String>,
) -> StepResult {
    let mut after = request.clone();
    after.status.phase = Some(DeleteBackupRequestPhase::Processed);
    after.status.errors = capped(errors);
    let mut effects = vec![Effect::stored(context.client.change(request, &after).await?)];
    for gone in before {
        match context.client.delete_exactly::<DeleteBackupRequest>(gone).await {
            Ok(_) => effects.push(Effect::Gone(MirroredKind::DeleteBackupRequest, gone.clone())),
            // Its own time comes to an end, too.
            Err(e) => tracing::warn!(request = gone.key.name, error = %e, "an old request could not be removed"),
        }
    }
    Ok(effects)
}

#[cfg(test)]
mod tests;
