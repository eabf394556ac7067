//! `velero.io/pod-volume-restore`: a pod waits for the files of its volumes (restore.md 6.1).

use super::known;
use super::restore_wait::{RESTORE_WAIT, WaitSettings};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, RestoreItemAction, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::Restore;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::{ApiResource, ObjectKey};
use lifeboat_volume::fs_backup::{are_filled, restored_volume_name};
use lifeboat_volume::{FilesOfPods, PodFiles};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Input of the action: which volumes of which pods are filled, and how a pod waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilesToRestore {
    /// The volumes of the pods of the backup.
    pub(crate) pods: Arc<FilesOfPods>,
    /// The init container.
    pub(crate) wait: WaitSettings,
    /// Longest wait of a pod for claims that are filled through another one.
    pub(crate) longest: Duration,
}

/// Puts the init container into pods, and lets a pod come after those through which its claims are filled.
pub(super) struct PodVolumeRestoreAction {
    cluster: Cluster,
    files: FilesToRestore,
}

impl PodVolumeRestoreAction {
    pub(super) fn new(cluster: Cluster, files: FilesToRestore) -> Self {
        Self { cluster, files }
    }

    /// The pod of this name in the cluster, unless it is being deleted.
    async fn staying(&self, namespace: &str, name: &str) -> Result<Option<Value>, ActionError> {
        let pods = ApiResource::new("", "v1", "pods", "Pod");
        let found = self.cluster.get(&pods, Some(namespace), name).await.map_err(|e| failed(&e))?;
        let found: Option<Value> = found.map(|body| serde_json::from_slice(&body).unwrap_or_default());
        Ok(found.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()))
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
        let Some(PodFiles { restored, after, .. }) = self.files.pods.of(namespace, name) else {
            return Ok(RestoreItemOutput::with(item));
        };
        let target = restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str);
        if restored.is_empty() && after.is_empty()
            || !item["spec"].is_object()
            || self.staying(target, name).await?.is_some()
        {
            return Ok(RestoreItemOutput::with(item));
        }
        if !restored.is_empty() {
            let volumes: Vec<&str> = restored.iter().map(|one| one.volume.as_str()).collect();
            let wait = self.files.wait.container(&item, &volumes, &restore.metadata.uid).map_err(ActionError::item)?;
            let own = item["spec"]["initContainers"].take();
            let own = own.as_array().cloned().unwrap_or_default();
            item["spec"]["initContainers"] = [vec![wait], own].concat().into();
        }
        let additional_items: Vec<ObjectKey> = after.iter().map(|pod| known::pod(namespace, pod)).collect();
        let wait_for_additional_items = (!additional_items.is_empty()).then_some(self.files.longest);
        Ok(RestoreItemOutput { additional_items, wait_for_additional_items, ..RestoreItemOutput::with(item) })
    }

    /// Tells whether the claims that are filled through these pods are. A pod that does not wait for this restore was there before,
    /// and its claims keep what they hold.
    async fn are_additional_items_ready(&self, items: &[ObjectKey], restore: &Restore) -> Result<bool, ActionError> {
        if items.is_empty() {
            return Err(ActionError::item(
                "the pod through which a claim that it mounts is filled could not be restored",
            ));
        }
        let mut names = Vec::new();
        for ((source, name), files) in self.files.pods.all() {
            let namespace = restore.spec.namespace_mapping.get(source).unwrap_or(source);
            if !items.contains(&known::pod(namespace, name)) {
                continue;
            }
            let pod = self.staying(namespace, name).await?;
            if pod.is_some_and(|pod| waits(&pod, &restore.metadata.uid)) {
                let claims = files.restored.iter().filter(|one| one.claim.is_some());
                names.extend(claims.map(|one| restored_volume_name(restore, namespace, name, &one.volume)));
            }
        }
        let filled = are_filled(&self.cluster, &restore.metadata.namespace, &names).await;
        match filled.map_err(|e| failed(&e))? {
            (true, Some(why)) => Err(ActionError::item(format!("a claim that it mounts was not filled: {why}"))),
            (is_filled, _) => Ok(is_filled),
        }
    }

    fn is_pure(&self) -> bool {
        true
    }

    fn only_detaches(&self, _: &Restore) -> bool {
        // It changes no pod that is there.
        true
    }
}

/// Returns true if a pod waits for the files of this restore, or has.
fn waits(pod: &Value, restore_uid: &str) -> bool {
    let containers = pod["spec"]["initContainers"].as_array();
    containers.is_some_and(|all| all.iter().any(|one| one["name"] == RESTORE_WAIT && one["args"][0] == restore_uid))
}

fn failed(error: &ClusterError) -> ActionError {
    if error.can_pass() { ActionError::passing(error.to_string()) } else { ActionError::item(error.to_string()) }
}
