//! The second door: ends a backup whose operations have ended (velero: pkg/controller/backup_finalizer_controller.go).

use crate::end::look_after::{open_options, read};
use crate::end::moved_volumes::{failed_moves, moved_snapshots, note_uploads, passed_over, uploads_among};
use crate::end::post_operation_items::save_again;
use crate::env::Env;
use crate::error::FinalizeError;
use crate::output::entry::ArchiveEntry;
use crate::output::seal::log_content;
use crate::run::subject;
use crate::volumes::snapshots::{release_snapshots, remove_moved_snapshots};
use lifeboat_api::{Backup, BackupPhase, BackupStatus, DataUpload, GROUP, OperationPhase, Resource, Time};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_archive::sidecar::{self, ResourceList};
use lifeboat_archive::volume_info::{BackupVolumeInfo, FAILED, SUCCEEDED};
use lifeboat_object::{ApiResource, ObjectKey, ResultScope, Results, Severity};
use lifeboat_store::{Content, NewObject, Rewrite, StoreError};
use lifeboat_volume::csi::{self, SnapshotContent};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Ends a backup whose operations have all ended: saves the objects again that they name for that, brings the results
/// of the operations into the results and the log, and stores the record in its last state, which is returned. `record`
/// is what [`lifeboat_store::Store::backup`] gives; one that is not to be finalized is given back as it is. Of a backup
/// that the user has cancelled nothing is saved again, which is an error in its results.
///
/// It may be cut off anywhere and done again. The backup can be proved ([`lifeboat_store::Store::verify`]) and restored
/// at every moment. Objects that are saved again are in memory until they are stored.
///
/// # Errors
/// [`FinalizeError`]. Objects that cannot be saved again are errors in the results, and the backup is `PartiallyFailed`.
pub async fn finalize(record: Backup, is_cancelled: bool, env: &Env) -> Result<Backup, FinalizeError> {
    let has_failed = match record.status.phase {
        Some(BackupPhase::Finalizing) => false,
        Some(BackupPhase::FinalizingPartiallyFailed) => true,
        _ => return Ok(record),
    };
    let trace = env.operation.trace();
    trace.begin(subject(&record));
    trace.stage("finalize", Box::pin(end(record, has_failed, is_cancelled, env))).await
}

async fn end(mut record: Backup, has_failed: bool, is_cancelled: bool, env: &Env) -> Result<Backup, FinalizeError> {
    let name = record.metadata.name.clone();
    let operations = read(&name, env).await?;
    let mut change = Changes::default();
    let mut unprotected = 0;
    if !operations.is_empty() {
        env.operation.journal.info("Finalizing the backup", &[("operations", &operations.len().to_string())]);
        operations.iter().for_each(|operation| tell_failed(operation, env));
        let before = StoredFiles::read(&name, env).await?;
        let mut wanted = to_be_saved_again(operations.iter().filter(|operation| !before.knows_the_end_of(operation)));
        if is_cancelled {
            // The DataUploads name what lies in repositories, and is found and deleted by that.
            let (uploads, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
                wanted.into_iter().partition(|(key, _)| is_upload(key));
            tell_not_saved(others.len(), env);
            wanted = uploads;
        }
        let wanted_uploads: Vec<ObjectKey> = wanted.keys().filter(|key| is_upload(key)).cloned().collect();
        let saved = match wanted.is_empty() {
            true => Vec::new(),
            false => Box::pin(save_again(wanted, &record, env)).await?,
        };
        let uploads = all_uploads(&wanted_uploads, &saved, env).await?;
        for (claim, message) in uploads.values().filter_map(passed_over) {
            let text = "the data mover has passed over some of the volume";
            env.operation.journal.item(Severity::Warning, &claim, text, Some(message));
        }
        let ended = volumes(before.volumes.clone(), &saved, &uploads, &operations);
        let moved = moved_snapshots(ended.as_ref().or(before.volumes.as_ref()));
        unprotected = failed_moves(ended.as_ref().or(before.volumes.as_ref()));
        change = before.changes(saved, ended, env)?;
        if has_snapshots(&operations) || !moved.claims.is_empty() {
            // What the snapshots are must be stored before their objects go: whoever has to do this again cannot read them.
            let told = env.operation.journal.counts();
            apply_changes(&mut record.status, &change);
            store(std::mem::take(&mut change), &record, env).await?;
            let named = to_be_saved_again(operations.iter());
            Box::pin(release_snapshots(&record.metadata.uid, named.keys(), env)).await;
            Box::pin(remove_moved_snapshots(&record, &moved, env)).await;
            if env.operation.journal.counts() != told {
                change = before.told(env)?;
            }
        }
    }
    apply_changes(&mut record.status, &change);
    record.status.phase = Some(match has_failed || record.status.errors > 0 {
        true => BackupPhase::PartiallyFailed,
        false => BackupPhase::Completed,
    });
    record.status.completion_timestamp = Some(Time::new((env.operation.clock)()));
    // They counted as protected as long as their data mover was waited for. Only the last record has them: it is not made twice.
    record.status.unprotected_volumes += unprotected;
    store(change, &record, env).await?;
    Ok(record)
}

/// The DataUploads that were to be saved, by name. One that could not be saved is read once more: it alone says where the data of its volume
/// is. One that is left out is gone.
async fn all_uploads(
    wanted: &[ObjectKey],
    saved: &[ArchiveEntry],
    env: &Env,
) -> Result<HashMap<String, DataUpload>, FinalizeError> {
    let mut uploads = uploads_among(saved);
    let kind = ApiResource::new(GROUP, DataUpload::VERSION, DataUpload::PLURAL, DataUpload::KIND);
    for key in wanted {
        if uploads.contains_key(&key.name) {
            continue;
        }
        let found = env.cluster.get(&kind, key.namespace.as_deref(), &key.name).await?;
        if let Some(upload) = found.and_then(|body| serde_json::from_slice(&body).ok()) {
            uploads.insert(key.name.clone(), upload);
        }
    }
    Ok(uploads)
}

/// Returns true for a DataUpload.
fn is_upload(key: &ObjectKey) -> bool {
    key.resource.group == GROUP && key.resource.resource == DataUpload::PLURAL
}

/// Tells that objects of a cancelled backup are not saved again.
fn tell_not_saved(count: usize, env: &Env) {
    let objects = match count {
        0 => return,
        1 => "1 object stands".to_owned(),
        count => format!("{count} objects stand"),
    };
    let message = format!("cancelled on request: {objects} in the archive as before their operations");
    env.operation.journal.error(&ResultScope::Velero, message);
}

/// Returns true if some of the operations are of snapshots, whose objects are to leave the cluster.
fn has_snapshots(operations: &[BackupOperation]) -> bool {
    operations.iter().any(|operation| operation.spec.backup_item_action == SNAPSHOT_ACTION)
}

/// Brings the counts of errors, warnings and added objects into the status.
fn apply_changes(status: &mut BackupStatus, change: &Changes) {
    let count = |set: usize| i64::try_from(set).unwrap_or(i64::MAX);
    if let Some(results) = &change.results {
        // More than the results have room for was counted when it happened.
        status.errors = status.errors.max(count(results.errors.len()));
        status.warnings = status.warnings.max(count(results.warnings.len()));
    }
    if let Some(progress) = &mut status.progress {
        progress.items_backed_up += count(change.added);
        progress.total_items += count(change.added);
    }
}

async fn store(change: Changes, record: &Backup, env: &Env) -> Result<(), StoreError> {
    if change.files.is_empty() {
        return env.store.replace_record(record).await;
    }
    let mtime = u64::try_from((env.operation.clock)().as_second()).unwrap_or(0);
    let name = &record.metadata.name;
    let change = Rewrite { objects: change.objects, files: change.files, record: record.clone(), mtime };
    Box::pin(env.store.rewrite(name, change, &open_options(env))).await
}

/// Files and objects to be stored beside the record.
#[derive(Default)]
struct Changes {
    objects: Vec<NewObject>,
    files: Vec<(BackupFile, Content)>,
    results: Option<Results>,
    /// Objects that the archive did not have.
    added: usize,
}

/// The files as they are stored. An earlier run that was cut off may have stored them before.
struct StoredFiles {
    resources: ResourceList,
    volumes: Option<Vec<BackupVolumeInfo>>,
    results: Results,
    log: Content,
}

impl StoredFiles {
    async fn read(name: &str, env: &Env) -> Result<Self, StoreError> {
        let log = env.store.backup_file_content(name, BackupFile::Logs, &env.operation.scratch).await?;
        Ok(Self {
            resources: env.store.backup_file(name, BackupFile::ResourceList).await?.unwrap_or_default(),
            volumes: env.store.backup_file(name, BackupFile::VolumeInfo).await?,
            results: env.store.backup_file(name, BackupFile::Results).await?.unwrap_or_default(),
            log: log.unwrap_or_default(),
        })
    }

    /// Returns true if it is stored how the snapshot of this operation has ended. Its objects may have left the cluster
    /// then.
    fn knows_the_end_of(&self, operation: &BackupOperation) -> bool {
        let mut known = self.volumes.iter().flatten().filter(|volume| !volume.result.is_empty());
        operation.spec.backup_item_action == SNAPSHOT_ACTION && known.any(|volume| is_of(volume, operation))
    }

    /// The files that finalizing changes.
    fn changes(
        &self,
        saved: Vec<ArchiveEntry>,
        volumes: Option<Vec<BackupVolumeInfo>>,
        env: &Env,
    ) -> Result<Changes, StoreError> {
        let mut resources = self.resources.clone();
        for ArchiveEntry { resource, namespace, name, .. } in &saved {
            resources.add(&resource.api_version(), &resource.kind, namespace.as_deref(), name);
        }
        let added = resources.len() - self.resources.len();
        if !saved.is_empty() {
            env.operation.journal.info("Saved objects again", &[("count", &saved.len().to_string())]);
        }
        let mut files = Vec::new();
        if let Some(volumes) = volumes {
            files.push((
                BackupFile::VolumeInfo,
                StoreError::encoded("the volume information", sidecar::encode(&volumes))?.into(),
            ));
        }
        if added > 0 {
            files.push((
                BackupFile::ResourceList,
                StoreError::encoded("the resource list", sidecar::encode(&resources))?.into(),
            ));
        }
        let told = self.told(env)?;
        files.extend(told.files);
        let objects = saved.into_iter().map(new_object).collect();
        Ok(Changes { objects, files, results: told.results, added })
    }

    /// The results and the log, with everything that was reported up to now.
    fn told(&self, env: &Env) -> Result<Changes, StoreError> {
        let closed = env.operation.journal.close();
        let mut results = self.results.clone();
        results.merge(closed.results);
        // A log is one or more gzip members.
        let log = self.log.clone().followed_by(log_content(closed.log));
        let encoded = StoreError::encoded("the results", sidecar::encode(&results))?;
        let files = vec![(BackupFile::Results, encoded.into()), (BackupFile::Logs, log)];
        Ok(Changes { files, results: Some(results), ..Changes::default() })
    }
}

/// The action whose operations are snapshots.
const SNAPSHOT_ACTION: &str = csi::BACKUP_ACTIONS[1];

/// Returns true if the operation waits for the snapshot of this volume.
fn is_of(volume: &BackupVolumeInfo, operation: &BackupOperation) -> bool {
    let of_volume = volume.csi_snapshot_info.as_ref().map_or("", |snapshot| &snapshot.operation_id);
    !of_volume.is_empty() && of_volume == operation.spec.operation_id
}

/// The volume information with the results of the operations, where they change it
/// (velero: internal/volume/volumes_information.go).
fn volumes(
    volumes: Option<Vec<BackupVolumeInfo>>,
    saved: &[ArchiveEntry],
    uploads: &HashMap<String, DataUpload>,
    operations: &[BackupOperation],
) -> Option<Vec<BackupVolumeInfo>> {
    let mut volumes = volumes?;
    let ended: HashMap<&str, &BackupOperation> =
        operations.iter().map(|operation| (operation.spec.operation_id.as_str(), operation)).collect();
    let is_content = |entry: &&ArchiveEntry| entry.resource.resource == "volumesnapshotcontents";
    let contents: HashMap<&str, &ArchiveEntry> =
        saved.iter().filter(is_content).map(|entry| (entry.name.as_str(), entry)).collect();
    let mut is_changed = note_uploads(&mut volumes, uploads, operations);
    for volume in &mut volumes {
        let operation_id = volume.csi_snapshot_info.as_ref().map_or("", |snapshot| &snapshot.operation_id);
        let Some(operation) = ended.get(operation_id).filter(|operation| is_of(volume, operation)) else { continue };
        volume.completion_timestamp = operation.status.updated;
        let is_good = operation.status.phase == Some(OperationPhase::Completed);
        (if is_good { SUCCEEDED } else { FAILED }).clone_into(&mut volume.result);
        let Some(snapshot) = &mut volume.csi_snapshot_info else { continue };
        if let Some(entry) = contents.get(snapshot.vsc_name.as_str()) {
            let content: Value = serde_json::from_slice(&entry.body.to_bytes()).unwrap_or_default();
            snapshot.ready_to_use = SnapshotContent::of(&content).is_ready;
        }
        is_changed = true;
    }
    is_changed.then_some(volumes)
}

fn new_object(entry: ArchiveEntry) -> NewObject {
    let ArchiveEntry { resource, namespace, name, body } = entry;
    NewObject {
        key: ObjectKey::new(resource.group_resource(), namespace.as_deref(), name),
        version: resource.version.clone(),
        preferred: resource.preferred,
        body: body.to_bytes(),
    }
}

/// The objects that operations name to be saved again, each with the object of one of these operations. Velero does so
/// whatever the result of the operation.
fn to_be_saved_again<'a>(operations: impl Iterator<Item = &'a BackupOperation>) -> BTreeMap<ObjectKey, ObjectKey> {
    let mut wanted = BTreeMap::new();
    for operation in operations {
        for item in operation.spec.post_operation_items.iter().flatten() {
            wanted.entry(item.into()).or_insert_with(|| (&operation.spec.resource_identifier).into());
        }
    }
    wanted
}

fn tell_failed(operation: &BackupOperation, env: &Env) {
    if operation.status.phase != Some(OperationPhase::Failed) {
        return;
    }
    let spec = &operation.spec;
    let message = format!("the operation {} of the action {} has failed", spec.operation_id, spec.backup_item_action);
    let error = Some(operation.status.error.as_str());
    env.operation.journal.item(Severity::Error, &(&spec.resource_identifier).into(), &message, error);
}
