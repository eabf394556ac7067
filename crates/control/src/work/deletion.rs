//! Deletes a backup with all that belongs to it (api-and-controllers.md 3.7).

use super::backup::NAME_TAKEN;
use super::{Context, Effect, Finished, Unfinished};
use crate::client::Object;
use crate::world::{Kind, World};
use lifeboat_api::{
    Backup, BackupPhase, BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase,
    DeleteBackupRequest, DeleteBackupRequestPhase, Restore, label_value, well_known,
};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long restores of the backup may take to go.
const PATIENCE: Duration = Duration::from_secs(60);

/// What of the world a deletion needs.
pub(crate) struct Target {
    backup: Option<Backup>,
    location: Option<BackupStorageLocation>,
    restores: Vec<String>,
    /// Other requests for the same backup.
    others: Vec<String>,
}

impl Target {
    pub(crate) fn of(request: &DeleteBackupRequest, world: &World) -> Self {
        let name = &request.spec.backup_name;
        let backup = world.backups.get(name).cloned();
        let location = backup.as_ref().and_then(|b| world.locations.get(&b.spec.storage_location)).cloned();
        let restores = world.restores.iter().filter(|r| r.spec.backup_name == *name);
        let others = world
            .delete_requests
            .iter()
            .filter(|other| other.metadata.name != request.metadata.name && other.spec.backup_name == *name);
        Self {
            backup,
            location,
            restores: restores.map(|r| r.metadata.name.clone()).collect(),
            others: others.map(|other| other.metadata.name.clone()).collect(),
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

/// From its phase, so that it is known after a restart too.
fn is_running(backup: &Backup) -> bool {
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
    let labels = &mut begun.metadata.labels;
    labels.insert(well_known::LABEL_BACKUP_NAME.to_owned(), label_value(&backup.metadata.name));
    labels.insert(well_known::LABEL_BACKUP_UID.to_owned(), backup.metadata.uid.clone());
    let request = context.client.change(&request, &begun).await?;
    let mut deleting = backup.clone();
    deleting.status.phase = Some(BackupPhase::Deleting);
    context.client.change(backup, &deleting).await?;

    let name = &backup.metadata.name;
    tracing::info!(backup = name, "deletion begins");
    context.metrics.deletion_begins(backup);
    context.leadership.check().map_err(|lost| Unfinished::Because(lost.to_string()))?;
    let store = match context.store(location).await {
        Ok(store) => store,
        Err(why) => return processed(context, &request, vec![format!("error getting the backup store: {why}")]).await,
    };
    let files = if wrote_nothing(backup) { Ok(()) } else { store.delete_backup(name).await };
    if let Err(e) = files {
        context.metrics.deletion_ends(backup, false);
        return processed(context, &request, vec![format!("error deleting backup from backup storage: {e}")]).await;
    }
    let mut errors = Vec::new();
    for restore in &target.restores {
        if let Err(e) = store.delete_restore(restore).await {
            errors.push(format!("error deleting files of restore {restore}: {e}"));
        } else if let Err(e) = gone::<Restore>(context, restore).await {
            errors.push(e);
        }
    }
    context.metrics.deletion_ends(backup, errors.is_empty());
    if !errors.is_empty() {
        return processed(context, &request, errors).await;
    }
    context.client.delete::<Backup>(name).await?;
    tracing::info!(backup = name, "deletion ends");
    let mut effects = vec![Effect::Gone(Kind::Backup, name.clone())];
    effects.extend(forget(context, &request, &target.others).await?);
    Ok(effects)
}

/// Whether the files of this name in the bucket, if there are any, are those of another backup: this one was refused
/// before it wrote any. (Velero deletes them.) Its phase is no answer: a deletion that goes on finds `Deleting`.
fn wrote_nothing(backup: &Backup) -> bool {
    !backup.status.validation_errors.is_empty() || backup.status.failure_reason == NAME_TAKEN
}

/// Deletes a restore and waits until it is gone: its finalizer is ours to remove, in another task.
async fn gone<T: Object>(context: &Context, name: &str) -> Result<(), String> {
    let failed = |e: lifeboat_cluster::ClusterError| format!("error deleting restore {name}: {e}");
    context.client.delete::<T>(name).await.map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(50);
    while context.client.get::<T>(name).await.map_err(failed)?.is_some() {
        if Instant::now() > deadline {
            return Err(format!("restore {name} is still there {} s after its deletion", PATIENCE.as_secs()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    Ok(())
}

/// Deletes the request, and those for the same.
async fn forget(context: &Context, request: &DeleteBackupRequest, others: &[String]) -> Finished {
    let mut effects = Vec::new();
    for name in others.iter().chain([&request.metadata.name]) {
        context.client.delete::<DeleteBackupRequest>(name).await?;
        effects.push(Effect::Gone(Kind::DeleteBackupRequest, name.clone()));
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

    #[test]
    fn files_of_another_backup_stay() {
        let mut backup = Backup::default();
        backup.status.phase = Some(BackupPhase::Deleting);
        for (reason, expected) in [("", false), ("the bucket did not answer", false), (NAME_TAKEN, true)] {
            backup.status.failure_reason = reason.into();
            assert_eq!(wrote_nothing(&backup), expected, "{reason}");
        }
        backup.status.failure_reason.clear();
        backup.status.validation_errors.push("no such location".into());
        assert!(wrote_nothing(&backup));
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
