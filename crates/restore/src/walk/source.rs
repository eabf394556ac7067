//! The backup that a restore reads, also one that never came to its end because its cluster was lost.

use crate::end::outcome::RestoreError;
use crate::request::settings::{ValidationErrors, check_record, is_waiting};
use crate::state::env::Env;
use lifeboat_api::{Backup, BackupPhase, GROUP, OperationStatus, Resource};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_archive::volume_info::{BackupVolumeInfo, CSI_SNAPSHOT, SUCCEEDED};
use lifeboat_object::{ApiResource, ResultScope, Severity, counted, first_names};
use lifeboat_store::StoreError;
use lifeboat_volume::settle_unfinished;

/// Reads the record of the backup that a restore names, and warns of one that never came to its end.
///
/// # Errors
/// It has nothing to read, or a server of this cluster is still making it.
pub(crate) async fn read_source(name: &str, env: &Env) -> Result<Backup, RestoreError> {
    let backup = env.store.backup(name).await?;
    check_record(&backup)?;
    if never_ended(&backup) {
        if is_being_made(&backup, env).await? {
            let phase = backup.status.phase.map_or("", BackupPhase::as_str);
            return Err(ValidationErrors(vec![format!(
                "backup \"{name}\" is still being made in this cluster (phase {phase}), and cannot be used as a restore source until it has \
                 ended"
            )])
            .into());
        }
        let operations = operations(name, env).await?;
        env.operation.journal.warn(&ResultScope::Velero, unended(&backup, &operations));
    }
    Ok(backup)
}

/// Settles the volume information of a backup that never came to its end, and says of each volume what is not known. That of any other
/// backup is as it stands.
///
/// # Errors
/// [`StoreError`]: the record or the operations cannot be read.
pub(crate) async fn settle_volumes(name: &str, infos: &mut [BackupVolumeInfo], env: &Env) -> Result<(), StoreError> {
    let is_open = |info: &BackupVolumeInfo| info.backup_method == CSI_SNAPSHOT && info.result != SUCCEEDED;
    if !infos.iter().any(is_open) || !never_ended(&env.store.backup(name).await?) {
        return Ok(());
    }
    for volume in settle_unfinished(infos, &operations(name, env).await?) {
        let text = match volume.is_tried {
            true => {
                "its snapshot was not known to be ready when the backup was written last; the volume is made from it, and the claim is bound \
                 only if the storage has it"
            }
            false => "the backup does not have its data",
        };
        env.operation.journal.item(Severity::Warning, &volume.claim, text, Some(&volume.why));
    }
    Ok(())
}

/// Returns true if the phase of a backup says that its operations, or its end, are waited for.
fn never_ended(backup: &Backup) -> bool {
    backup.status.phase.is_some_and(is_waiting)
}

/// Returns true if this cluster has the Backup itself of a record, and that has not ended. A Backup that was taken over has a UID of its own.
async fn is_being_made(record: &Backup, env: &Env) -> Result<bool, RestoreError> {
    let kind = ApiResource::new(GROUP, Backup::VERSION, Backup::PLURAL, Backup::KIND);
    let metadata = &record.metadata;
    // One that this machine makes has no Backup in a cluster.
    if metadata.namespace.is_empty() {
        return Ok(false);
    }
    let found = env.cluster.get(&kind, Some(&metadata.namespace), &metadata.name).await?;
    let found: Option<Backup> = found.and_then(|body| serde_json::from_slice(&body).ok());
    Ok(found.is_some_and(|found| found.metadata.uid == metadata.uid && never_ended(&found)))
}

async fn operations(name: &str, env: &Env) -> Result<Vec<BackupOperation>, StoreError> {
    Ok(env.store.backup_file(name, BackupFile::ItemOperations).await?.unwrap_or_default())
}

/// The warning about a backup whose operations have not ended, with their names.
fn unended(backup: &Backup, operations: &[BackupOperation]) -> String {
    let name = &backup.metadata.name;
    let phase = backup.status.phase.map_or("", BackupPhase::as_str);
    let open: Vec<String> = operations
        .iter()
        .filter(|operation| !OperationStatus::has_ended(&operation.status))
        .map(|BackupOperation { spec, .. }| {
            let item = &spec.resource_identifier;
            let of = if item.namespace.is_empty() { String::new() } else { format!("{}/", item.namespace) };
            format!("{} of {} {of}{} ({})", spec.backup_item_action, item.resource, item.name, spec.operation_id)
        })
        .collect();
    let what = if open.is_empty() {
        "its operations have ended, and what they were to save again is in it as before them".to_owned()
    } else {
        let verb = if open.len() == 1 { "has" } else { "have" };
        format!(
            "{} of it {verb} not ended, and what they were to save is not in it: {}",
            counted(open.len() as u64, "operation"),
            first_names(&open)
        )
    };
    format!("the backup {name} never came to its end (phase {phase}): {what}")
}
