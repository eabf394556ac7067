//! Everything after the archive: sidecars, manifest, and the record that makes the backup exist.

use crate::env::Env;
use crate::error::BackupError;
use crate::write::Written;
use lifeboat_api::{Backup, BackupPhase, BackupProgress, HookStatus, Time};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::operations::{BackupOperation, BackupOperationSpec};
use lifeboat_archive::sidecar::{self, BackupVolumeInfo};
use lifeboat_object::Severity;
use lifeboat_operation::Closed;
use lifeboat_store::{BackupWriter, Sealed, StoreError};
use std::collections::BTreeMap;

/// The parts that end a backup.
pub(crate) struct Finale {
    pub(crate) backup: Backup,
    pub(crate) writer: BackupWriter,
    pub(crate) written: Written,
    pub(crate) volumes: Vec<BackupVolumeInfo>,
    /// Operations that actions have begun.
    pub(crate) operations: Vec<BackupOperation>,
    pub(crate) tool: String,
    pub(crate) cluster_version: String,
}

/// A backup of which only the record is missing.
pub(crate) struct Finished {
    pub(crate) backup: Backup,
    pub(crate) closed: Closed,
    pub(crate) sealed: Sealed,
}

/// An operation that nobody waits for leaves the backup without what it was to bring.
fn tell_unawaited(operation: &BackupOperation, env: &Env) {
    let BackupOperationSpec { backup_item_action, operation_id, resource_identifier, .. } = &operation.spec;
    let message = format!(
        "the action {backup_item_action} has begun the operation {operation_id}, for which this version of Lifeboat does not \
         wait: whether it ends well is not known"
    );
    env.operation.journal.item(Severity::Error, &resource_identifier.into(), &message, None);
}

/// Puts every file but `velero-backup.json`, and makes the final resource.
pub(crate) async fn finalize(finale: Finale, env: &Env) -> Result<Finished, BackupError> {
    let Finale { mut backup, mut writer, written, volumes, operations, tool, cluster_version } = finale;
    writer.record_tarball(&written.summary);
    writer.put(BackupFile::Index, written.index).await?;
    let encode = |what, bytes: Result<Vec<u8>, serde_json::Error>| bytes.map_err(|e| StoreError::Encode(what, e));
    operations.iter().for_each(|operation| tell_unawaited(operation, env));
    for (file, bytes) in [
        (BackupFile::PodVolumeBackups, sidecar::encode_nil()),
        (BackupFile::VolumeSnapshots, sidecar::encode_nil()),
        (BackupFile::ItemOperations, encode("the item operations", sidecar::encode(&operations))?),
        (BackupFile::ResourceList, encode("the resource list", sidecar::encode(&written.resources))?),
        (BackupFile::VolumeInfo, encode("the volume information", sidecar::encode(&volumes))?),
    ] {
        writer.put(file, bytes).await?;
    }
    let (warnings, errors) = env.operation.journal.counts();
    let items = i64::try_from(written.summary.objects).unwrap_or(i64::MAX);
    let status = &mut backup.status;
    status.phase = Some(if errors == 0 { BackupPhase::Completed } else { BackupPhase::PartiallyFailed });
    status.warnings = i64::try_from(warnings).unwrap_or(i64::MAX);
    status.errors = i64::try_from(errors).unwrap_or(i64::MAX);
    status.progress = Some(BackupProgress { total_items: items, items_backed_up: items });
    status.hook_status = Some(HookStatus::default());
    status.completion_timestamp = Some(Time::new((env.operation.clock)()));
    env.operation.journal.info(&format!("Backed up a total of {items} items"), &[]);
    let closed = env.operation.journal.close();
    writer.put(BackupFile::Results, encode("the results", sidecar::encode(&closed.results))?).await?;
    writer.put(BackupFile::Logs, closed.log.clone()).await?;
    let counts: BTreeMap<String, u64> = written.counts;
    let sealed = writer.seal(&backup.metadata.uid, &tool, counts, &cluster_version).await?;
    Ok(Finished { backup, closed, sealed })
}
