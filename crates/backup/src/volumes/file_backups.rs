//! Movers of data: those that are there, and volumes that are saved by their files with the outcomes.

use crate::env::Env;
use crate::error::BackupError;
use crate::request::settings::Settings;
use lifeboat_api::well_known::LABEL_BACKUP_UID;
use lifeboat_api::{Backup, NamespacedName};
use lifeboat_archive::volume_info::PodVolumeBackupInfo;
use lifeboat_object::ResultScope;
use lifeboat_volume::facts::PodVolumeName;
use lifeboat_volume::fs_backup::{
    FileBackupEnd, FileBackupSettings, FileBackups, NodeAgents, READER_VOLUME, node_agents, reader_pod_name,
    remove_readers, unseen_node_agent,
};
use lifeboat_volume::{BackupMovers, DecidedVolume, FilePod, Method, Report, Reports, Verdicts};
use std::sync::Arc;

/// Finds out which movers are there: a node agent in the namespace of the backup. One that cannot be seen counts as missing, with a
/// warning.
pub(crate) async fn find_movers(backup: &Backup, settings: &Settings, env: &Env) -> Result<BackupMovers, BackupError> {
    let namespace = &backup.metadata.namespace;
    if !settings.movers.may_be_used || namespace.is_empty() {
        return Ok(BackupMovers::default());
    }
    let agents = match node_agents(&env.cluster, namespace).await {
        Err(e) if e.is_denied() => {
            let text = unseen_node_agent(namespace, &e);
            env.operation.journal.warn(&ResultScope::Velero, text);
            NodeAgents::default()
        }
        found => found?,
    };
    Ok(BackupMovers { are_asked: true, has_node_agent: agents.are_there, is_unready: agents.are_unready })
}

/// Creates what saves the files of the volumes of a backup.
pub(crate) fn file_backups(backup: &Backup, settings: &Settings, env: &Env) -> FileBackups {
    let settings = FileBackupSettings {
        backup: Arc::new(backup.clone()),
        whole: settings.movers.fs_backup_timeout.to_std(),
        resource_timeout: settings.resource_timeout.to_std(),
        image: settings.movers.image.clone(),
    };
    FileBackups::new(&env.cluster, &env.operation, settings)
}

/// Removes the reader pods that attempts at a backup may have left, unless another process has taken it over.
pub(crate) async fn remove_left_readers(backup: &Backup, settings: &Settings, env: &Env) {
    if !settings.movers.may_be_used || (env.operation.fence)().is_err() {
        return;
    }
    match remove_readers(backup, &env.cluster).await {
        Ok(()) => {}
        // Who may not see them has not made any.
        Err(e) if e.is_denied() => {}
        Err(e) => {
            let text = format!(
                "reader pods of an earlier attempt may be left ({e}): delete those with the label {LABEL_BACKUP_UID}={}",
                backup.metadata.uid
            );
            env.operation.journal.warn(&ResultScope::Velero, text);
        }
    }
}

/// The name of a volume that is saved by its files, in the pod through which it is.
fn name_of(decided: &DecidedVolume, backup: &Backup) -> Option<PodVolumeName> {
    let Method::FsBackup { through } = &decided.verdict.method else { return None };
    let (pod, volume) = match through {
        FilePod::Mounting { pod, volume } => (pod.clone(), volume.clone()),
        FilePod::Reader(_) => (reader_pod_name(backup, decided.claim.as_ref()?), READER_VOLUME.to_owned()),
    };
    Some(PodVolumeName { pod: NamespacedName::new(decided.namespace()?, pod), volume })
}

/// Adds the outcomes for the volumes that were saved by their files.
pub(crate) fn add_reports(files: &FileBackups, verdicts: &Verdicts, reports: &mut Reports) {
    let ends = files.ends();
    for decided in verdicts.iter() {
        let Some(name) = name_of(decided, files.backup()) else { continue };
        let report = match ends.get(&name) {
            Some(FileBackupEnd::Saved(resource)) => Report::PodVolume {
                begun: resource.status.start_timestamp,
                ended: resource.status.completion_timestamp,
                info: PodVolumeBackupInfo {
                    snapshot_handle: resource.status.snapshot_id.clone(),
                    size: resource.status.progress.total_bytes,
                    incremental_size: resource.status.incremental_bytes,
                    node_name: resource.spec.node.clone(),
                    uploader_type: "kopia".to_owned(),
                    volume_name: name.volume.clone(),
                    pod_name: name.pod.name.clone(),
                    pod_namespace: name.pod.namespace.clone(),
                    phase: resource.status.phase.map(|phase| phase.as_str().to_owned()).unwrap_or_default(),
                },
            },
            Some(FileBackupEnd::Failed(why)) => Report::Failed { why: why.clone() },
            None => Report::Failed { why: "no PodVolumeBackup was made: the backup was broken off before".to_owned() },
        };
        match decided.claim.clone() {
            Some(claim) => drop(reports.of_claims.insert(claim, report)),
            None => drop(reports.of_pods.insert(name, report)),
        }
    }
}
