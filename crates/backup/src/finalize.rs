//! The second door: ends a backup whose operations have ended (backup.md 1.15).

use crate::again::save_again;
use crate::entry::Entry;
use crate::env::Env;
use crate::error::FinalizeError;
use crate::look_after::{open_options, read};
use crate::seal::log_content;
use crate::snapshots::release_snapshots;
use lifeboat_api::{Backup, BackupPhase, OperationPhase, Time};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_archive::sidecar::{self, ResourceList};
use lifeboat_archive::volume_info::{BackupVolumeInfo, FAILED, SUCCEEDED};
use lifeboat_object::{ObjectKey, Place, Results, Severity};
use lifeboat_store::{Content, NewObject, Rewrite, StoreError};
use lifeboat_volume::csi::Content as SnapshotContent;
use serde_json::Value;
use std::collections::BTreeMap;

/// Ends a backup none of whose operations goes on: saves again what they name for that, brings what they have come to into the
/// results and the log, and stores the record in its last state, which is returned. `record` is what
/// [`lifeboat_store::Store::backup`] gives; one that is not to be finalized is given back as it is. Of a backup that the user
/// has cancelled nothing is saved again, which is an error in its results.
///
/// It may be cut off anywhere and done again. The backup can be proved ([`lifeboat_store::Store::verify`]) and restored at
/// every moment. What is saved again is in memory until it is stored.
///
/// # Errors
/// [`FinalizeError`]. Objects that cannot be saved again are errors in the results, and the backup is `PartiallyFailed`.
pub async fn finalize(mut record: Backup, is_cancelled: bool, env: &Env) -> Result<Backup, FinalizeError> {
    let has_failed = match record.status.phase {
        Some(BackupPhase::Finalizing) => false,
        Some(BackupPhase::FinalizingPartiallyFailed) => true,
        _ => return Ok(record),
    };
    let name = record.metadata.name.clone();
    let operations = read(&name, env).await?;
    let mut change = Changes::default();
    if !operations.is_empty() {
        env.operation.journal.info("Finalizing the backup", &[("operations", &operations.len().to_string())]);
        operations.iter().for_each(|operation| tell_failed(operation, env));
        let wanted = to_be_saved_again(&operations);
        let named: Vec<ObjectKey> = wanted.keys().cloned().collect();
        let saved = if is_cancelled && !wanted.is_empty() {
            let objects =
                if wanted.len() == 1 { "1 object stands" } else { &format!("{} objects stand", wanted.len()) };
            let message = format!("cancelled on request: {objects} in the archive as before their operations");
            env.operation.journal.error(&Place::Velero, message);
            Vec::new()
        } else if wanted.is_empty() {
            Vec::new()
        } else {
            Box::pin(save_again(wanted, &record, env)).await?
        };
        Box::pin(release_snapshots(named.iter(), env)).await;
        change = changes(&name, saved, &operations, env).await?;
    }
    let count = |set: usize| i64::try_from(set).unwrap_or(i64::MAX);
    let status = &mut record.status;
    if let Some(results) = &change.results {
        // More than the results have room for was counted when it happened.
        status.errors = status.errors.max(count(results.errors.len()));
        status.warnings = status.warnings.max(count(results.warnings.len()));
    }
    status.phase = Some(match has_failed || status.errors > 0 {
        true => BackupPhase::PartiallyFailed,
        false => BackupPhase::Completed,
    });
    if let Some(progress) = &mut status.progress {
        progress.items_backed_up += count(change.added);
        progress.total_items += count(change.added);
    }
    status.completion_timestamp = Some(Time::new((env.operation.clock)()));
    if change.files.is_empty() {
        env.store.replace_record(&record).await?;
        return Ok(record);
    }
    let mtime = u64::try_from((env.operation.clock)().as_second()).unwrap_or(0);
    let change = Rewrite { objects: change.objects, files: change.files, record: record.clone(), mtime };
    Box::pin(env.store.rewrite(&name, change, &open_options(env))).await?;
    Ok(record)
}

/// What is to be stored beside the record.
#[derive(Default)]
struct Changes {
    objects: Vec<NewObject>,
    files: Vec<(BackupFile, Content)>,
    results: Option<Results>,
    /// Objects that the archive did not have.
    added: usize,
}

/// Makes the files that say what finalizing has come to. An earlier run that was cut off may have stored them before.
async fn changes(
    name: &str,
    saved: Vec<Entry>,
    operations: &[BackupOperation],
    env: &Env,
) -> Result<Changes, StoreError> {
    let mut resources: ResourceList = env.store.backup_file(name, BackupFile::ResourceList).await?.unwrap_or_default();
    let before = resources.len();
    for Entry { resource, namespace, name, .. } in &saved {
        resources.add(&resource.api_version(), &resource.kind, namespace.as_deref(), name);
    }
    let added = resources.len() - before;
    if !saved.is_empty() {
        env.operation.journal.info("Saved objects again", &[("count", &saved.len().to_string())]);
    }
    let closed = env.operation.journal.close();
    let mut results: Results = env.store.backup_file(name, BackupFile::Results).await?.unwrap_or_default();
    results.merge(closed.results);
    // A log is one or more gzip members.
    let before = env.store.backup_file_content(name, BackupFile::Logs, &env.operation.scratch).await?;
    let log = before.unwrap_or_default().followed_by(log_content(closed.log));
    let mut files = Vec::new();
    if let Some(volumes) = volumes(name, &saved, operations, env).await? {
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
    files.push((BackupFile::Results, StoreError::encoded("the results", sidecar::encode(&results))?.into()));
    files.push((BackupFile::Logs, log));
    let objects = saved.into_iter().map(new_object).collect();
    Ok(Changes { objects, files, results: Some(results), added })
}

/// The volume information with what the operations have come to, where they change it (backup.md 4.8).
async fn volumes(
    name: &str,
    saved: &[Entry],
    operations: &[BackupOperation],
    env: &Env,
) -> Result<Option<Vec<BackupVolumeInfo>>, StoreError> {
    let volumes: Option<Vec<BackupVolumeInfo>> = env.store.backup_file(name, BackupFile::VolumeInfo).await?;
    let Some(mut volumes) = volumes else { return Ok(None) };
    let mut is_changed = false;
    for volume in &mut volumes {
        let Some(snapshot) = &mut volume.csi_snapshot_info else { continue };
        let is_it = |operation: &&BackupOperation| {
            !snapshot.operation_id.is_empty() && operation.spec.operation_id == snapshot.operation_id
        };
        let Some(operation) = operations.iter().find(is_it) else { continue };
        volume.completion_timestamp = operation.status.updated;
        let is_good = operation.status.phase == Some(OperationPhase::Completed);
        (if is_good { SUCCEEDED } else { FAILED }).clone_into(&mut volume.result);
        let is_content =
            |entry: &&Entry| entry.resource.resource == "volumesnapshotcontents" && entry.name == snapshot.vsc_name;
        if let Some(entry) = saved.iter().find(is_content) {
            let content: Value = serde_json::from_slice(&entry.body.to_bytes()).unwrap_or_default();
            snapshot.ready_to_use = SnapshotContent::of(&content).is_ready;
        }
        is_changed = true;
    }
    Ok(is_changed.then_some(volumes))
}

fn new_object(entry: Entry) -> NewObject {
    let Entry { resource, namespace, name, body } = entry;
    NewObject {
        key: ObjectKey::new(resource.group_resource(), namespace.as_deref(), name),
        version: resource.version.clone(),
        preferred: resource.preferred,
        body: body.to_bytes(),
    }
}

/// The objects that operations name to be saved again, each with the object of one of those. Velero does so whatever the
/// operation has come to.
fn to_be_saved_again(operations: &[BackupOperation]) -> BTreeMap<ObjectKey, ObjectKey> {
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
