//! Deletes a backup with all that belongs to it (api-and-controllers.md 3.7).

use super::backup::{NAME_TAKEN, is_record_of};
use super::{Context, Effect, Finished, Unfinished};
use crate::world::{Identity, Kind, World};
use lifeboat_api::{
    Backup, BackupPhase, BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase,
    DeleteBackupRequest, DeleteBackupRequestPhase, Restore, label_value, well_known,
};
use lifeboat_store::{Store, StoreError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long restores of the backup may take to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// What of the world a deletion needs.
#[derive(Debug)]
pub(crate) struct Target {
    backup: Option<Backup>,
    location: Option<BackupStorageLocation>,
    restores: Vec<Identity>,
    /// Other requests for the same backup.
    others: Vec<Identity>,
}

impl Target {
    pub(crate) fn of(request: &DeleteBackupRequest, world: &World) -> Self {
        let name = &request.spec.backup_name;
        // A request may outlive its backup, and must not take another one of the name for it.
        let backup = world.backups.get(name).filter(|backup| is_meant(request, backup)).cloned();
        let location = backup.as_ref().and_then(|b| world.locations.get(&b.spec.storage_location)).cloned();
        let restores = world.restores.iter().filter(|r| r.spec.backup_name == *name);
        let others = world
            .delete_requests
            .iter()
            .filter(|other| other.metadata.name != request.metadata.name && other.spec.backup_name == *name);
        Self {
            backup,
            location,
            restores: restores.map(|r| Identity::of(&r.metadata)).collect(),
            others: others.map(|other| Identity::of(&other.metadata)).collect(),
        }
    }

    /// Why the deletion cannot begin; otherwise what is deleted, and where it lies.
    fn check(&self, request: &DeleteBackupRequest) -> Result<(&Backup, &BackupStorageLocation), String> {
        if request.spec.backup_name.is_empty() {
            return Err("spec.backupName is required".to_owned());
        }
        let backup = self.backup.as_ref().ok_or_else(|| "backup not found".to_owned())?;
        if is_running(backup) {
            return Err("backup is still in progress".to_owned());
        }
        let name = &backup.spec.storage_location;
        let location = self.location.as_ref().ok_or_else(|| format!("backup storage location {name} not found"))?;
        let cannot = |why: &str| {
            Err(format!("cannot delete backup because backup storage location {name} is currently in {why}"))
        };
        if location.spec.access_mode == Some(BackupStorageLocationAccessMode::ReadOnly) {
            return cannot("read-only mode");
        }
        if location.status.phase != Some(BackupStorageLocationPhase::Available) {
            return cannot("Unavailable state");
        }
        Ok((backup, location))
    }
}

/// Whether a backup is the one that a request is for: the client, or the server when it began, has noted its UID.
fn is_meant(request: &DeleteBackupRequest, backup: &Backup) -> bool {
    let uid = request.metadata.labels.get(well_known::LABEL_BACKUP_UID);
    uid.is_none_or(|uid| uid.is_empty() || *uid == backup.metadata.uid)
}

/// From its phase, so that it is known after a restart too.
pub(crate) fn is_running(backup: &Backup) -> bool {
    use BackupPhase as P;
    matches!(
        backup.status.phase,
        Some(
            P::InProgress
                | P::WaitingForPluginOperations
                | P::WaitingForPluginOperationsPartiallyFailed
                | P::Finalizing
                | P::FinalizingPartiallyFailed
        )
    )
}

/// Deletes what the request names. What was begun by a server that died is gone on with: each step finds done what is
/// done. The record goes first, so that a backup is never half there.
pub(crate) async fn delete(context: &Context, request: DeleteBackupRequest, target: Target) -> Finished {
    let (backup, location) = match target.check(&request) {
        Ok(found) => found,
        // Cut off after its last step but one: the backup is gone as wished.
        Err(_) if target.backup.is_none() && request.status.phase == Some(DeleteBackupRequestPhase::InProgress) => {
            return forget(context, &request, &target.others).await;
        }
        Err(why) => return processed(context, &request, vec![why]).await,
    };
    let mut begun = request.clone();
    begun.status.phase = Some(DeleteBackupRequestPhase::InProgress);
    let store = match context.store(location).await {
        Ok(store) => store,
        Err(why) => return processed(context, &request, vec![format!("error getting the backup store: {why}")]).await,
    };
    let with_files = match decided(backup) {
        Some(decided) => decided,
        None => match files_are_its_own(&store, backup).await {
            Ok(own) => own,
            Err(e) => return processed(context, &request, vec![format!("error looking at the files: {e}")]).await,
        },
    };
    let labels = &mut begun.metadata.labels;
    labels.insert(well_known::LABEL_BACKUP_NAME.to_owned(), label_value(&backup.metadata.name));
    labels.insert(well_known::LABEL_BACKUP_UID.to_owned(), backup.metadata.uid.clone());
    let request = context.client.change(&request, &begun).await?;
    let mut deleting = backup.clone();
    deleting.status.phase = Some(BackupPhase::Deleting);
    let whose = if with_files { OWN } else { "others" };
    deleting.metadata.annotations.insert(ANNOTATION_FILES.to_owned(), whose.to_owned());
    context.client.change(backup, &deleting).await?;

    let name = &backup.metadata.name;
    tracing::info!(backup = name, "deletion begins");
    context.metrics.deletion_begins(backup);
    context.leadership.check().map_err(|lost| Unfinished::Because(lost.to_string()))?;
    let files = if with_files { store.delete_backup(name).await } else { Ok(()) };
    if let Err(e) = files {
        context.metrics.deletion_ends(backup, false);
        return processed(context, &request, vec![format!("error deleting backup from backup storage: {e}")]).await;
    }
    let mut errors = Vec::new();
    for restore in &target.restores {
        if let Err(e) = store.delete_restore(&restore.name).await {
            errors.push(format!("error deleting files of restore {}: {e}", restore.name));
        } else if let Err(e) = gone(context, restore).await {
            errors.push(e);
        }
    }
    context.metrics.deletion_ends(backup, errors.is_empty());
    if !errors.is_empty() {
        return processed(context, &request, errors).await;
    }
    let gone = Identity::of(&backup.metadata);
    context.client.delete_exactly::<Backup>(&gone).await?;
    tracing::info!(backup = name, "deletion ends");
    let mut effects = vec![Effect::Gone(Kind::Backup, gone)];
    effects.extend(forget(context, &request, &target.others).await?);
    Ok(effects)
}

/// Put on a Backup when its deletion begins: whether the files go with it. What was deleted cannot be asked again, neither
/// after a crash nor by another request after a failure.
const ANNOTATION_FILES: &str = "lifeboat.io/files";
const OWN: &str = "own";

fn decided(backup: &Backup) -> Option<bool> {
    let deleting = backup.status.phase == Some(BackupPhase::Deleting);
    backup.metadata.annotations.get(ANNOTATION_FILES).filter(|_| deleting).map(|whose| whose == OWN)
}

/// Whether the files of this name in the bucket, if there are any, are those of this backup. One that was refused, or ended
/// before it began, has none; what lies there is of another cluster, and may be being written. (Velero deletes it.)
async fn files_are_its_own(store: &Store, backup: &Backup) -> Result<bool, StoreError> {
    let (name, uid, status) = (&backup.metadata.name, &backup.metadata.uid, &backup.status);
    if status.start_timestamp.is_none() || status.failure_reason == NAME_TAKEN {
        return Ok(false);
    }
    match store.backup(name).await {
        Ok(record) => Ok(is_record_of(&record, backup)),
        Err(StoreError::NoBackup { .. }) => {
            Ok(store.claim_of(name).await?.is_none_or(|claim| claim.backup_uid == *uid))
        }
        Err(StoreError::Sidecar { .. }) => Ok(true),
        Err(e) => Err(e),
    }
}

/// Deletes a restore and waits until it is gone: its finalizer is ours to remove, in another task.
async fn gone(context: &Context, restore: &Identity) -> Result<(), String> {
    let name = &restore.name;
    let failed = |e: lifeboat_cluster::ClusterError| format!("error deleting restore {name}: {e}");
    context.client.delete_exactly::<Restore>(restore).await.map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(50);
    while context.client.get::<Restore>(name).await.map_err(failed)?.is_some_and(|r| r.metadata.uid == restore.uid) {
        if Instant::now() > deadline {
            return Err(format!("restore {name} is still there {} s after its deletion", PATIENCE.as_secs()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    Ok(())
}

/// Deletes the request, and those for the same.
async fn forget(context: &Context, request: &DeleteBackupRequest, others: &[Identity]) -> Finished {
    let mut effects = Vec::new();
    for gone in others.iter().cloned().chain([Identity::of(&request.metadata)]) {
        context.client.delete_exactly::<DeleteBackupRequest>(&gone).await?;
        effects.push(Effect::Gone(Kind::DeleteBackupRequest, gone));
    }
    Ok(effects)
}

/// Deletes a request whose time is over.
pub(crate) async fn expire(context: &Context, request: DeleteBackupRequest) -> Finished {
    forget(context, &request, &[]).await
}

async fn processed(context: &Context, request: &DeleteBackupRequest, errors: Vec<String>) -> Finished {
    tracing::error!(backup = request.spec.backup_name, errors = errors.join("; "), "deletion failed");
    let mut after = request.clone();
    after.status.phase = Some(DeleteBackupRequestPhase::Processed);
    after.status.errors = errors;
    let stored = context.client.change(request, &after).await?;
    Ok(vec![Effect::DeleteRequest(stored)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use lifeboat_api::Time;
    use lifeboat_archive::layout::BackupFile;
    use lifeboat_archive::sidecar::{CLAIM_FORMAT, Claim};
    use lifeboat_bucket::{BlobStore, Memory, PutOptions};
    use std::sync::Arc;

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
            serde_json::to_vec(&Claim { format, cluster_uid, backup_uid: uid.into(), namespace, attempt: 1, claimed })
        };
        let record = |backup: &Backup| Some(serde_json::to_vec(backup).unwrap());
        for (what, backup, record, claimed, expected) in [
            ("nothing is there", &b, None, None, true),
            ("it never began", &not_begun, None, None, false),
            ("it never began, and another did", &not_begun, record(&other), Some("v"), false),
            ("its record", &b, record(&b), Some("u"), true),
            ("its record, from before it was taken over", &b, record(&begun("original", 5)), None, true),
            ("the record of another", &b, record(&other), None, false),
            ("the name was taken", &refused, record(&other), None, false),
            ("another began at the same second", &at_the_same_second, record(&other), None, false),
            ("its claim", &b, None, Some("u"), true),
            ("the claim of another", &b, None, Some("v"), false),
            ("a record that cannot be read", &b, Some(b"{".to_vec()), Some("u"), true),
        ] {
            let bucket: Arc<dyn BlobStore> = Arc::new(Memory::default());
            let files = [(BackupFile::Metadata, record), (BackupFile::Claim, claimed.map(|uid| claim(uid).unwrap()))];
            for (file, bytes) in files {
                let Some(bytes) = bytes else { continue };
                bucket.put(&file.key("b"), bytes.into(), PutOptions::default()).await.unwrap();
            }
            assert_eq!(files_are_its_own(&Store::new(bucket), backup).await.unwrap(), expected, "{what}");
        }
    }

    #[test]
    fn whose_files_they_are_is_decided_once() {
        let mut backup = begun("u", 5);
        for (phase, whose, expected) in [
            (BackupPhase::Deleting, None, None),
            (BackupPhase::Deleting, Some("own"), Some(true)),
            (BackupPhase::Deleting, Some("others"), Some(false)),
            (BackupPhase::Completed, Some("own"), None),
        ] {
            backup.status.phase = Some(phase);
            let annotation = whose.map(|whose: &str| (ANNOTATION_FILES.to_owned(), whose.to_owned()));
            backup.metadata.annotations = annotation.into_iter().collect();
            assert_eq!(decided(&backup), expected, "{phase:?} {whose:?}");
        }
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
            assert_eq!(Target::of(&request, &world).backup.is_some(), expected, "{label:?}");
        }
    }

    #[test]
    fn what_cannot_be_deleted_is_said_before_anything_is_changed() {
        let mut request = DeleteBackupRequest::default();
        let mut target = Target { backup: None, location: None, restores: vec![], others: vec![] };
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
        for phase in [None, Some(BackupPhase::Queued), Some(BackupPhase::Completed), Some(BackupPhase::Deleting)] {
            backup.status.phase = phase;
            target.backup = Some(backup.clone());
            let expected = "backup storage location here not found";
            assert_eq!(why(&request, &target).as_deref(), Some(expected), "{phase:?}");
        }
        let mut location = BackupStorageLocation::default();
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
            target.location = Some(location.clone());
            assert_eq!(why(&request, &target).as_deref(), expected);
        }
    }
}
