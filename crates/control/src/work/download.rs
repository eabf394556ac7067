//! Answers download requests (velero: pkg/controller/download_request_controller.go).

use super::{Context, Effect, StepError, StepResult};
use crate::world::{Meta, MirroredKind, World};
use jiff::SignedDuration;
use lifeboat_api::NamespacedName;
use lifeboat_api::well_known::ANNOTATION_THROUGH_SERVER;
use lifeboat_api::{
    Backup, BackupPhase, BackupStorageLocation, DownloadRequest, DownloadRequestPhase, DownloadTargetKind, Restore,
    RestorePhase, Time,
};
use lifeboat_archive::layout::{BackupFile, RestoreFile};
use lifeboat_client::ObjectIdentity;
use std::time::Duration;

/// Time for which a URL is valid, and a request is kept.
const VALID: Duration = Duration::from_secs(600);

/// The file that a request asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum RequestedFile {
    /// This key, in this location.
    File(Box<BackupStorageLocation>, String),
    /// No file: it is not there and will not be, for this reason.
    Nothing(String),
}

impl RequestedFile {
    pub(crate) fn of(request: &DownloadRequest, world: &World) -> Self {
        let target = &request.spec.target;
        let found = match place(target.kind) {
            BucketFile::Backup(file) => {
                backup(&request.beside(&target.name), world).map(|backup| (backup, file.key(&target.name)))
            }
            BucketFile::Restore(file) => restore(&request.beside(&target.name), world).and_then(|restore| {
                Ok((backup(&request.beside(&restore.spec.backup_name), world)?, file.key(&target.name)))
            }),
        };
        let located = found.and_then(|(backup, key)| {
            let name = &backup.spec.storage_location;
            let location = world.locations.get(&request.beside(name)).cloned();
            location.map(|l| (l, key)).ok_or_else(|| format!("backup storage location {name} not found"))
        });
        match located {
            Ok((location, key)) => Self::File(Box::new(location), key),
            Err(why) => Self::Nothing(why),
        }
    }
}

fn backup<'a>(key: &NamespacedName, world: &'a World) -> Result<&'a Backup, String> {
    let name = &key.name;
    let found = world.backups.get(key).ok_or_else(|| format!("backup \"{name}\" not found"))?;
    use BackupPhase as P;
    match found.status.phase {
        None => Err(format!("backup \"{name}\" is in phase \"New\" and has not written any artifacts")),
        Some(phase @ (P::New | P::Queued | P::ReadyToStart | P::FailedValidation)) => {
            Err(format!("backup \"{name}\" is in phase \"{phase:?}\" and has not written any artifacts"))
        }
        Some(_) => Ok(found),
    }
}

fn restore<'a>(key: &NamespacedName, world: &'a World) -> Result<&'a Restore, String> {
    let name = &key.name;
    let found = world.restores.get(key).ok_or_else(|| format!("restore \"{name}\" not found"))?;
    match found.status.phase {
        None => Err(format!("restore \"{name}\" is in phase \"New\" and has not written any artifacts")),
        Some(phase @ (RestorePhase::New | RestorePhase::FailedValidation)) => {
            Err(format!("restore \"{name}\" is in phase \"{phase:?}\" and has not written any artifacts"))
        }
        Some(_) => Ok(found),
    }
}

enum BucketFile {
    Backup(BackupFile),
    Restore(RestoreFile),
}

fn place(kind: DownloadTargetKind) -> BucketFile {
    use DownloadTargetKind as K;
    match kind {
        K::BackupLog => BucketFile::Backup(BackupFile::Logs),
        K::BackupContents => BucketFile::Backup(BackupFile::Tarball),
        K::BackupVolumeSnapshots => BucketFile::Backup(BackupFile::VolumeSnapshots),
        K::BackupItemOperations => BucketFile::Backup(BackupFile::ItemOperations),
        K::BackupResourceList => BucketFile::Backup(BackupFile::ResourceList),
        K::BackupResults => BucketFile::Backup(BackupFile::Results),
        K::BackupVolumeInfos => BucketFile::Backup(BackupFile::VolumeInfo),
        K::RestoreLog => BucketFile::Restore(RestoreFile::Logs),
        K::RestoreResults => BucketFile::Restore(RestoreFile::Results),
        K::RestoreResourceList => BucketFile::Restore(RestoreFile::ResourceList),
        K::RestoreItemOperations => BucketFile::Restore(RestoreFile::ItemOperations),
        K::RestoreVolumeInfo => BucketFile::Restore(RestoreFile::VolumeInfo),
        K::CsiBackupVolumeSnapshots => BucketFile::Backup(BackupFile::CsiVolumeSnapshots),
        K::CsiBackupVolumeSnapshotContents => BucketFile::Backup(BackupFile::CsiVolumeSnapshotContents),
    }
}

/// A URL of our own port.
fn sign(context: &Context, location: &BackupStorageLocation, key: &str) -> Option<String> {
    let until = context.env.now().checked_add(SignedDuration::try_from(VALID).ok()?).ok()?;
    Some(context.signer.as_ref()?.sign(&location.metadata.name, key, until))
}

/// Signs a URL for what is asked for, or says why there is none.
pub(crate) async fn answer(context: &Context, request: DownloadRequest, target: RequestedFile) -> StepResult {
    let url = match target {
        RequestedFile::Nothing(why) => Err(why),
        RequestedFile::File(location, key) => {
            let own = request.metadata.annotations.contains_key(ANNOTATION_THROUGH_SERVER);
            let name = &location.metadata.name;
            let own_url = || {
                sign(context, &location, &key).ok_or_else(|| {
                    format!(
                        "the storage location {name} cannot sign URLs, and this server serves no files: read {key} there"
                    )
                })
            };
            match context.bucket(&location).await {
                // Not tried again: it is the location that says what to mend.
                Err(why) => Err(format!("the storage location {name} cannot be used: {why}")),
                Ok(_) if own => own_url(),
                Ok(bucket) => match bucket.presign(&key, VALID).await {
                    Ok(Some(url)) => Ok(url),
                    Ok(None) => own_url(),
                    Err(e) => return Err(StepError::Because(e.to_string())),
                },
            }
        }
    };
    let mut after = request.clone();
    let end = context.env.now().checked_add(SignedDuration::from_secs(600)).ok();
    after.status.expiration = end.map(Time::new);
    match url {
        Ok(url) => {
            after.status.phase = Some(DownloadRequestPhase::Processed);
            after.status.download_url = url;
        }
        Err(why) => {
            tracing::warn!(request = request.metadata.name, why, "nothing to download");
            let mut failed = after.clone();
            failed.status.phase = Some(DownloadRequestPhase::Failed);
            failed.status.message = why;
            match context.client.change(&request, &failed).await {
                // compat: the schema of Velero 1.18 has no such phase; its requests for nothing just expire.
                Err(e) if e.status().is_some_and(|status| status.code == 422) => {}
                failed => return Ok(vec![Effect::stored(failed?)]),
            }
        }
    }
    let stored = context.client.change(&request, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Deletes a request whose time is over.
pub(crate) async fn expire(context: &Context, request: DownloadRequest) -> StepResult {
    let gone = ObjectIdentity::of(&request.metadata);
    context.client.delete_exactly::<DownloadRequest>(&gone).await?;
    Ok(vec![Effect::Gone(MirroredKind::DownloadRequest, gone)])
}
