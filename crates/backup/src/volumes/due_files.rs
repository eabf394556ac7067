//! The pods through which volumes are saved by their files, and when their turn is; and the claims that reader pods read.

use crate::action_lane::save::SaveContext;
use lifeboat_api::NamespacedName;
use lifeboat_volume::facts::{Claim, pod_object_key};
use lifeboat_volume::fs_backup::{FileBackups, VolumeToSave};
use lifeboat_volume::{FilePod, Method};
use std::collections::{BTreeMap, HashMap};

/// Volumes of pods that are due to be saved by their files.
#[derive(Default)]
pub(crate) struct DueFiles {
    files: Option<FileBackups>,
    /// By the number of the pod in the index.
    pods: HashMap<u32, PodOfFiles>,
    /// Of pods that are not in the backup themselves.
    others: Vec<PodOfFiles>,
    /// Claims that no running pod mounts.
    claims: Vec<Claim>,
}

/// A pod, and its volumes that are saved.
struct PodOfFiles {
    name: NamespacedName,
    volumes: Vec<VolumeToSave>,
}

impl PodOfFiles {
    /// The same of a pod that is not in the backup.
    fn without_pod(mut self) -> Self {
        self.volumes.iter_mut().for_each(|volume| volume.is_without_pod = true);
        self
    }
}

impl DueFiles {
    pub(crate) fn new(context: &SaveContext) -> Self {
        let Some(files) = context.scope.volumes.files.clone() else { return Self::default() };
        let mut pods: BTreeMap<NamespacedName, Vec<VolumeToSave>> = BTreeMap::new();
        let mut due = Self { files: Some(files), ..Self::default() };
        for decided in context.verdicts.iter() {
            let Method::FsBackup { through } = &decided.verdict.method else { continue };
            let claim = decided.claim.as_ref().and_then(|claim| context.verdicts.claim(claim));
            let Some(namespace) = decided.namespace() else { continue };
            match through {
                FilePod::Mounting { pod, volume } => {
                    let pod = NamespacedName::new(namespace, pod);
                    pods.entry(pod).or_default().push(VolumeToSave::of(volume, claim));
                }
                FilePod::Reader(_) => due.claims.extend(claim.cloned()),
            }
        }
        for (name, volumes) in pods {
            let key = pod_object_key(&name);
            let pod = PodOfFiles { name, volumes };
            match context.items.index.number(&key.digest()) {
                Some(number) => drop(due.pods.insert(number, pod)),
                None => due.others.push(pod.without_pod()),
            }
        }
        due
    }

    /// Begins with the volumes of the pods that are not in the backup themselves, and with the claims that no running pod mounts.
    pub(crate) fn begin_others(&self) {
        self.others.iter().for_each(|pod| self.begin_pod(pod));
        if let Some(files) = &self.files {
            self.claims.iter().for_each(|claim| files.begin_claim(claim));
        }
    }

    /// Begins with the volumes of the pods among these objects, unless that was done before.
    pub(crate) fn begin(&self, block: &[u32]) {
        block.iter().filter_map(|number| self.pods.get(number)).for_each(|pod| self.begin_pod(pod));
    }

    fn begin_pod(&self, pod: &PodOfFiles) {
        if let Some(files) = &self.files {
            files.begin(&pod.name, &pod.volumes);
        }
    }

    /// Waits until the volumes of the pods among these objects are saved, or will not be.
    pub(crate) async fn ended(&self, block: &[u32]) {
        let Some(files) = &self.files else { return };
        for pod in block.iter().filter_map(|number| self.pods.get(number)) {
            files.pod_ended(&pod.name).await;
        }
    }

    /// Waits until all that were begun are saved, or will not be.
    pub(crate) async fn all_ended(&self) {
        if let Some(files) = &self.files {
            files.all_ended().await;
        }
    }
}
