//! `velero.io/pod-volume-restore`: a pod waits for the files of its volumes
//! (velero: pkg/restore/actions/pod_volume_restore_action.go), and a claim is marked until it has them.
//!
//! Files are written into claims that a restore has made. One that was in the cluster before keeps what it holds, unless the user lets
//! it be overwritten: it has no mark. The decision is made once, when the pod is made: its init container mounts what is filled.
//!
//! compat: Velero overwrites the files of whatever claim the pod mounts.

use super::edit::remove_keys;
use super::restore_wait::WaitSettings;
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, RestoreItemAction, RestoreItemInput, RestoreItemOutput};
use lifeboat_api::well_known::{ANNOTATION_AWAITS_FILES, ANNOTATION_OVERWRITE_VOLUMES};
use lifeboat_api::{NamespacedName, Restore};
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::ApiResource;
use lifeboat_volume::{FilesOfPods, PodFiles};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Volumes of pods that are filled, and the container in which a pod waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct FilesToRestore {
    /// The volumes of the pods of the backup.
    pub(crate) pods: Arc<FilesOfPods>,
    /// The claims of the backup that pods of the restore fill.
    pub(crate) claims: Arc<BTreeSet<NamespacedName>>,
    /// The init container.
    pub(crate) wait: WaitSettings,
}

/// Puts the init container into pods, and the mark on claims.
pub(super) struct PodVolumeRestoreAction {
    cluster: Cluster,
    files: FilesToRestore,
}

impl PodVolumeRestoreAction {
    pub(super) fn new(cluster: Cluster, files: FilesToRestore) -> Self {
        Self { cluster, files }
    }

    /// The object of the name in the cluster, unless it is being deleted.
    async fn staying(&self, resource: &ApiResource, namespace: &str, name: &str) -> Result<Option<Value>, ActionError> {
        let found = self.cluster.get(resource, Some(namespace), name).await.map_err(|e| failed(&e))?;
        let found = found.map(|body| serde_json::from_slice::<Value>(&body).unwrap_or_default());
        Ok(found.filter(|object| object["metadata"]["deletionTimestamp"].is_null()))
    }

    /// Puts the mark on a claim that is made, or leaves that of the one which is there.
    async fn mark(&self, mut item: Value, source: &NamespacedName, target: &str) -> Result<Value, ActionError> {
        remove_keys(&mut item, "/metadata", "annotations", &[ANNOTATION_AWAITS_FILES]);
        let is_by_mover = self.files.claims.contains(source);
        if (is_by_mover || self.files.pods.is_filled(source)) && item["metadata"].is_object() {
            let there = self.staying(&ApiResource::persistent_volume_claims(), target, &source.name).await?;
            if there.is_none_or(|claim| awaits_files(&claim)) {
                if !item["metadata"]["annotations"].is_object() {
                    item["metadata"]["annotations"] = serde_json::json!({});
                }
                item["metadata"]["annotations"][ANNOTATION_AWAITS_FILES] = "true".into();
            }
        }
        Ok(item)
    }

    /// Returns true if files are written into this claim of a namespace of the cluster.
    async fn may_fill(&self, restore: &Restore, namespace: &str, claim: &str) -> Result<bool, ActionError> {
        if restore.metadata.says_true(ANNOTATION_OVERWRITE_VOLUMES) {
            return Ok(true);
        }
        let there = self.staying(&ApiResource::persistent_volume_claims(), namespace, claim).await?;
        Ok(there.is_none_or(|claim| awaits_files(&claim)))
    }
}

/// Returns true if a claim was made by a restore, and waits for its files.
pub(crate) fn awaits_files(claim: &Value) -> bool {
    claim["metadata"]["annotations"][ANNOTATION_AWAITS_FILES] == "true"
}

#[async_trait]
impl RestoreItemAction for PodVolumeRestoreAction {
    fn name(&self) -> &str {
        "velero.io/pod-volume-restore"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["pods", "persistentvolumeclaims"])
    }

    /// The containers of a restore before are gone already: `velero.io/pod` takes them off.
    async fn execute(&self, input: RestoreItemInput<'_>) -> Result<RestoreItemOutput, ActionError> {
        let RestoreItemInput { mut item, item_from_backup, restore } = input;
        let text = |field: &str| item_from_backup["metadata"][field].as_str().unwrap_or_default();
        let source = NamespacedName::new(text("namespace"), text("name"));
        let (namespace, name) = (source.namespace.as_str(), source.name.as_str());
        let target = restore.spec.namespace_mapping.get(namespace).map_or(namespace, String::as_str);
        if item_from_backup["kind"] == "PersistentVolumeClaim" {
            return self.mark(item, &source, target).await.map(RestoreItemOutput::with);
        }
        let Some(PodFiles { restored, .. }) = self.files.pods.of(&source) else {
            return Ok(RestoreItemOutput::with(item));
        };
        let pods = ApiResource::new("", "v1", "pods", "Pod");
        if restored.is_empty() || !item["spec"].is_object() || self.staying(&pods, target, name).await?.is_some() {
            return Ok(RestoreItemOutput::with(item));
        }
        let mut volumes: Vec<&str> = Vec::new();
        for one in restored {
            let is_filled = match &one.claim {
                Some(claim) => self.may_fill(restore, target, claim).await?,
                None => true,
            };
            if is_filled {
                volumes.push(&one.volume);
            }
        }
        if volumes.is_empty() {
            return Ok(RestoreItemOutput::with(item));
        }
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
        // It changes no pod or claim that is there.
        true
    }
}

fn failed(error: &ClusterError) -> ActionError {
    if error.can_pass() { ActionError::passing(error.to_string()) } else { ActionError::item(error.to_string()) }
}
