//! `velero.io/pod-volume-restore`: a pod waits for the files of its volumes (restore.md 6.1).

use super::restore_wait::WaitSettings;
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, RestoreItemAction, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::Restore;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::ApiResource;
use lifeboat_volume::{FilesOfPods, PodFiles};
use serde_json::Value;
use std::sync::Arc;

/// Volumes of pods that are filled, and the container in which a pod waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilesToRestore {
    /// The volumes of the pods of the backup.
    pub(crate) pods: Arc<FilesOfPods>,
    /// The init container.
    pub(crate) wait: WaitSettings,
}

/// Puts the init container into pods.
pub(super) struct PodVolumeRestoreAction {
    cluster: Cluster,
    files: FilesToRestore,
}

impl PodVolumeRestoreAction {
    pub(super) fn new(cluster: Cluster, files: FilesToRestore) -> Self {
        Self { cluster, files }
    }

    /// Returns true if a pod of the name is in the cluster and stays there.
    async fn stays(&self, namespace: &str, name: &str) -> Result<bool, ActionError> {
        let pods = ApiResource::new("", "v1", "pods", "Pod");
        let found = self.cluster.get(&pods, Some(namespace), name).await.map_err(|e| failed(&e))?;
        let found: Option<Value> = found.map(|body| serde_json::from_slice(&body).unwrap_or_default());
        Ok(found.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null()))
    }
}

#[async_trait]
impl RestoreItemAction for PodVolumeRestoreAction {
    fn name(&self) -> &str {
        "velero.io/pod-volume-restore"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["pods"])
    }

    /// The containers of a restore before are gone already: `velero.io/pod` takes them off.
    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        let RestoreItemInput { mut item, item_from_backup, restore } = input;
        let text = |field: &str| item_from_backup["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let Some(PodFiles { restored, .. }) = self.files.pods.of(namespace, name) else {
            return Ok(RestoreItemOutput::with(item));
        };
        let target = restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str);
        if restored.is_empty() || !item["spec"].is_object() || self.stays(target, name).await? {
            return Ok(RestoreItemOutput::with(item));
        }
        let volumes: Vec<&str> = restored.iter().map(|one| one.volume.as_str()).collect();
        let wait = self.files.wait.container(&item, &volumes, &restore.metadata.uid).map_err(ActionError::item)?;
        let own = item["spec"]["initContainers"].take();
        let own = own.as_array().cloned().unwrap_or_default();
        item["spec"]["initContainers"] = [vec![wait], own].concat().into();
        Ok(RestoreItemOutput::with(item))
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn only_detaches(&self, _: &Restore) -> bool {
        // It changes no pod that is there.
        true
    }
}

fn failed(error: &ClusterError) -> ActionError {
    if error.can_pass() { ActionError::passing(error.to_string()) } else { ActionError::item(error.to_string()) }
}
