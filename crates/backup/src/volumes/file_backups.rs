//! Volumes that are saved by their files: the node agent that does it, and the pods through which it is done.

use crate::action_lane::save::SaveContext;
use crate::env::Env;
use crate::error::BackupError;
use crate::request::settings::Settings;
use lifeboat_api::Backup;
use lifeboat_archive::volume_info::PodVolumeBackupInfo;
use lifeboat_object::{ApiResource, GroupResource, ObjectKey, ResultScope};
use lifeboat_volume::facts::ClaimKey;
use lifeboat_volume::fs_backup::{FileBackupEnd, FileBackupSettings, FileBackups, PodVolume};
use lifeboat_volume::{DecidedVolume, Method, Report, Reports, Verdicts};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The DaemonSets of the node agent.
const NODE_AGENTS: [&str; 2] = ["node-agent", "node-agent-windows"];

/// Finds out whether files of volumes can be saved: a node agent is in the namespace of the backup. One that cannot be seen counts as
/// missing, with a warning.
pub(crate) async fn are_there(backup: &Backup, settings: &Settings, env: &Env) -> Result<bool, BackupError> {
    let namespace = &backup.metadata.namespace;
    if !settings.movers.may_be_used || namespace.is_empty() {
        return Ok(false);
    }
    for name in NODE_AGENTS {
        let resource = ApiResource::new("apps", "v1", "daemonsets", "DaemonSet");
        match env.cluster.get(&resource, Some(namespace), name).await {
            Ok(Some(_)) => return Ok(true),
            Ok(None) => {}
            Err(e) if e.is_denied() => {
                let text = format!("the server may not see if there is a node agent, so none is used: {e}");
                env.operation.journal.warn(&ResultScope::Velero, text);
                return Ok(false);
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(false)
}

/// Creates what saves the files of the volumes of a backup.
pub(crate) fn file_backups(backup: &Backup, settings: &Settings, env: &Env) -> FileBackups {
    let settings = FileBackupSettings {
        backup: Arc::new(backup.clone()),
        whole: settings.movers.fs_backup_timeout.to_std(),
        resource_timeout: settings.resource_timeout.to_std(),
    };
    FileBackups::new(&env.cluster, &env.operation, settings)
}

/// Volumes of pods that are due to be saved by their files.
#[derive(Default)]
pub(crate) struct DueFiles {
    files: Option<FileBackups>,
    /// By the number of the pod in the index.
    pods: HashMap<u32, PodOfFiles>,
    /// Of pods that are not in the backup themselves.
    others: Vec<PodOfFiles>,
}

/// A pod, and its volumes that are saved.
struct PodOfFiles {
    namespace: String,
    name: String,
    volumes: Vec<PodVolume>,
}

impl DueFiles {
    pub(crate) fn new(context: &SaveContext) -> Self {
        let Some(files) = context.scope.files.clone() else { return Self::default() };
        let mut pods: BTreeMap<(String, String), Vec<PodVolume>> = BTreeMap::new();
        for decided in context.verdicts.iter() {
            let Method::FsBackup { pod, volume } = &decided.verdict.method else { continue };
            let claim = decided.claim.as_ref().and_then(|claim| context.verdicts.claim(claim));
            let Some(namespace) = namespace_of(decided) else { continue };
            pods.entry((namespace, pod.clone())).or_default().push(PodVolume::of(volume, claim));
        }
        let mut due = Self { files: Some(files), ..Self::default() };
        for ((namespace, name), volumes) in pods {
            let key = ObjectKey::new(GroupResource::new("", "pods"), Some(&namespace), &name);
            let pod = PodOfFiles { namespace, name, volumes };
            match context.index.number(&key.digest()) {
                Some(number) => drop(due.pods.insert(number, pod)),
                None => due.others.push(pod),
            }
        }
        due
    }

    /// Begins with the volumes of the pods that are not in the backup themselves.
    pub(crate) fn begin_others(&self) {
        self.others.iter().for_each(|pod| self.begin_pod(pod));
    }

    /// Begins with the volumes of the pods among these objects, unless that was done before.
    pub(crate) fn begin(&self, block: &[u32]) {
        block.iter().filter_map(|number| self.pods.get(number)).for_each(|pod| self.begin_pod(pod));
    }

    fn begin_pod(&self, pod: &PodOfFiles) {
        if let Some(files) = &self.files {
            files.begin(&pod.namespace, &pod.name, &pod.volumes);
        }
    }

    /// Waits until the volumes of the pods among these objects are saved, or will not be.
    pub(crate) async fn ended(&self, block: &[u32]) {
        let Some(files) = &self.files else { return };
        for pod in block.iter().filter_map(|number| self.pods.get(number)) {
            files.pod_ended(&pod.namespace, &pod.name).await;
        }
    }

    /// Waits until all that were begun are saved, or will not be.
    pub(crate) async fn all_ended(&self) {
        if let Some(files) = &self.files {
            files.all_ended().await;
        }
    }
}

fn namespace_of(decided: &DecidedVolume) -> Option<String> {
    let of_claim = decided.claim.as_ref().map(|claim| claim.namespace.clone());
    of_claim.or_else(|| Some(decided.of_pod.as_ref()?.0.clone()))
}

/// Adds the outcomes for the volumes that were saved by their files.
pub(crate) fn add_reports(files: &FileBackups, verdicts: &Verdicts, reports: &mut Reports) {
    let ends = files.ends();
    for decided in verdicts.iter() {
        let Method::FsBackup { pod, volume } = &decided.verdict.method else { continue };
        let Some(namespace) = namespace_of(decided) else { continue };
        let key = (namespace, pod.clone(), volume.clone());
        let report = match ends.get(&key) {
            Some(FileBackupEnd::Saved(resource)) => Report::PodVolume {
                begun: resource.status.start_timestamp,
                ended: resource.status.completion_timestamp,
                info: PodVolumeBackupInfo {
                    snapshot_handle: resource.status.snapshot_id.clone(),
                    size: resource.status.progress.total_bytes,
                    incremental_size: resource.status.incremental_bytes,
                    node_name: resource.spec.node.clone(),
                    uploader_type: "kopia".to_owned(),
                    volume_name: key.2.clone(),
                    pod_name: key.1.clone(),
                    pod_namespace: key.0.clone(),
                    phase: resource.status.phase.map(|phase| phase.as_str().to_owned()).unwrap_or_default(),
                },
            },
            Some(FileBackupEnd::Failed(why)) => Report::Failed { why: why.clone() },
            None => Report::Failed { why: "nothing was begun".to_owned() },
        };
        let claim: Option<ClaimKey> = decided.claim.clone();
        match claim {
            Some(claim) => drop(reports.of_claims.insert(claim, report)),
            None => drop(reports.of_pods.insert(key, report)),
        }
    }
}
