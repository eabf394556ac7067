//! Everything after the archive: sidecars, manifest, and the record that makes the backup exist. A backup whose actions
//! have begun operations waits for these then (velero: pkg/controller/backup_operations_controller.go,
//! pkg/controller/backup_controller.go).

use crate::env::Env;
use crate::error::BackupError;
use crate::output::write::Written;
use lifeboat_api::{Backup, BackupPhase, BackupProgress, PodVolumeBackup, Time, well_known};
use lifeboat_archive::layout::BackupFile;
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_archive::operations::BackupOperation;
use lifeboat_archive::sidecar;
use lifeboat_archive::volume_info::BackupVolumeInfo;
use lifeboat_hook::HookTally;
use lifeboat_operation::{ClosedJournal, Log};
use lifeboat_store::{BackupWriter, Content, Sealed, StoreError};
use std::collections::BTreeMap;

/// The parts that end a backup.
pub(crate) struct Unsealed {
    pub(crate) backup: Backup,
    pub(crate) writer: BackupWriter,
    pub(crate) written: Written,
    pub(crate) volumes: Vec<BackupVolumeInfo>,
    pub(crate) native: Native,
    /// The PodVolumeBackups of the volumes that were saved by their files.
    pub(crate) pod_volumes: Vec<PodVolumeBackup>,
    /// Operations that actions have begun.
    pub(crate) operations: Vec<BackupOperation>,
    /// Commands that were due in pods.
    pub(crate) hooks: HookTally,
    pub(crate) tool: String,
    pub(crate) cluster_version: String,
}

/// Native snapshots.
#[derive(Debug, Default)]
pub(crate) struct Native {
    /// Native snapshots of the backup.
    pub(crate) snapshots: Vec<NativeSnapshot>,
    /// Others that are to be deleted with it.
    pub(crate) left: Vec<NativeSnapshot>,
}

impl Native {
    /// The file of them.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let all: Vec<&NativeSnapshot> = self.snapshots.iter().chain(&self.left).collect();
        match all.as_slice() {
            [] => Ok(sidecar::encode_nil()),
            all => StoreError::encoded("the native snapshots", sidecar::encode(all)),
        }
    }
}

/// A backup of which only the record is missing.
pub(crate) struct UnrecordedBackup {
    pub(crate) backup: Backup,
    pub(crate) closed: ClosedJournal,
    pub(crate) sealed: Sealed,
}

/// Puts every file but `velero-backup.json`, and makes the resource as that will have it.
pub(crate) async fn seal(unsealed: Unsealed, env: &Env) -> Result<UnrecordedBackup, BackupError> {
    let Unsealed {
        mut backup,
        mut writer,
        written,
        volumes,
        native,
        pod_volumes,
        operations,
        hooks,
        tool,
        cluster_version,
    } = unsealed;
    writer.record_tarball(&written.summary);
    writer.put(BackupFile::Index, written.index).await?;
    for (file, bytes) in [
        (BackupFile::PodVolumeBackups, encode_pod_volumes(&pod_volumes)?),
        (BackupFile::VolumeSnapshots, native.encode()?),
        (BackupFile::ItemOperations, StoreError::encoded("the item operations", sidecar::encode(&operations))?),
        (BackupFile::ResourceList, StoreError::encoded("the resource list", sidecar::encode(&written.resources))?),
        (BackupFile::VolumeInfo, StoreError::encoded("the volume information", sidecar::encode(&volumes))?),
    ] {
        writer.put(file, bytes).await?;
    }
    let (warnings, errors) = env.operation.journal.counts();
    let items = i64::try_from(written.summary.objects).unwrap_or(i64::MAX);
    let status = &mut backup.status;
    let is_pending = !operations.is_empty();
    status.phase = Some(match (is_pending, errors) {
        (false, 0) => BackupPhase::Completed,
        (false, _) => BackupPhase::PartiallyFailed,
        (true, 0) => BackupPhase::WaitingForPluginOperations,
        (true, _) => BackupPhase::WaitingForPluginOperationsPartiallyFailed,
    });
    status.backup_item_operations_attempted = i64::try_from(operations.len()).unwrap_or(i64::MAX);
    status.volume_snapshots_attempted = i64::try_from(native.snapshots.len()).unwrap_or(i64::MAX);
    let taken = native.snapshots.iter().filter(|snapshot| snapshot.is_taken()).count();
    status.volume_snapshots_completed = i64::try_from(taken).unwrap_or(i64::MAX);
    // compat: those count that were taken, since Velero counts the VolumeSnapshots that stand in the cluster by now. Of data that is moved
    // none do.
    let is_snapshot = |volume: &&BackupVolumeInfo| volume.csi_snapshot_info.is_some() && !volume.snapshot_data_moved;
    let taken = volumes.iter().filter(is_snapshot).count();
    status.csi_volume_snapshots_attempted = i64::try_from(taken).unwrap_or(i64::MAX);
    status.warnings = i64::try_from(warnings).unwrap_or(i64::MAX);
    status.errors = i64::try_from(errors).unwrap_or(i64::MAX);
    status.progress = Some(BackupProgress { total_items: items, items_backed_up: items, ..BackupProgress::default() });
    status.hook_status = Some(hooks.status().unwrap_or_default());
    status.completion_timestamp = (!is_pending).then(|| Time::new((env.operation.clock)()));
    env.operation.journal.info(&format!("Backed up a total of {items} items"), &[]);
    let closed = env.operation.journal.close();
    writer.put(BackupFile::Results, StoreError::encoded("the results", sidecar::encode(&closed.results))?).await?;
    writer.put(BackupFile::Logs, log_content(closed.log.clone())).await?;
    let namespaced = written.resources.0.values().flatten().filter(|name| name.contains('/')).count();
    let annotations = &mut backup.metadata.annotations;
    annotations.insert(well_known::ANNOTATION_NAMESPACED_ITEMS.to_owned(), namespaced.to_string());
    let counts: BTreeMap<String, u64> = written.counts;
    let sealed = writer.seal(&backup.metadata.uid, &tool, counts, &cluster_version).await?;
    Ok(UnrecordedBackup { backup, closed, sealed })
}

/// The file of the PodVolumeBackups; without any it is that of Velero.
fn encode_pod_volumes(pod_volumes: &[PodVolumeBackup]) -> Result<Vec<u8>, StoreError> {
    match pod_volumes {
        [] => Ok(sidecar::encode_nil()),
        all => StoreError::encoded("the pod volume backups", sidecar::encode(all)),
    }
}

/// A log, to be stored.
pub(crate) fn log_content(log: Log) -> Content {
    Content::read_by(log.length(), move |at, most| log.read_at(at, most))
}
