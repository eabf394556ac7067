//! The checkpoint of a restore in a ConfigMap that goes with it.

use crate::lead::Leadership;
use crate::work::Context;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lifeboat_api::{API_VERSION, ObjectMeta, Resource, Restore, well_known};
use lifeboat_cluster::{Cluster, Create, PatchKind};
use lifeboat_object::ApiResource;
use lifeboat_restore::CheckpointStore;
use serde_json::{Value, json};

/// Where the checkpoint of one restore lies.
#[derive(Debug)]
pub(crate) struct CheckpointMap {
    cluster: Cluster,
    leadership: Leadership,
    namespace: String,
    restore: ObjectMeta,
}

const KEY: &str = "checkpoint";

impl CheckpointMap {
    pub(crate) fn new(context: &Context, restore: &Restore) -> Self {
        let restore = restore.metadata.clone();
        let (cluster, leadership) = (context.client.cluster.clone(), context.leadership.clone());
        Self { cluster, leadership, namespace: restore.namespace.clone(), restore }
    }

    /// The UID is a part of it: a name may come again, and names of restores may be as long as names can be.
    fn name(&self) -> String {
        format!("lifeboat-restore-{}", self.restore.uid)
    }

    /// Removes it: the restore has ended.
    pub(crate) async fn forget(&self) {
        // One that stays goes with its owner.
        if let Err(e) = self.cluster.delete(&config_maps(), Some(&self.namespace), &self.name()).await {
            tracing::warn!(error = %e, "the checkpoint of a restore stays");
        }
    }
}

#[async_trait]
impl CheckpointStore for CheckpointMap {
    async fn load(&self) -> Result<Option<Vec<u8>>, String> {
        let found = self.cluster.get(&config_maps(), Some(&self.namespace), &self.name()).await;
        let Some(bytes) = found.map_err(|e| e.to_string())? else { return Ok(None) };
        let map: Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        let Some(text) = map["binaryData"][KEY].as_str() else { return Ok(None) };
        STANDARD.decode(text).map(Some).map_err(|_| format!("ConfigMap {}: {KEY} is no base64", self.name()))
    }

    async fn save(&self, bytes: Vec<u8>) -> Result<(), String> {
        // It is the next leader's by now, who may be further.
        self.leadership.check().map_err(|lost| lost.to_string())?;
        let (resource, namespace, name) = (config_maps(), Some(self.namespace.as_str()), self.name());
        let data = json!({KEY: STANDARD.encode(&bytes)});
        let patch = Bytes::from(json!({"binaryData": data}).to_string());
        match self.cluster.patch(&resource, namespace, &name, None, PatchKind::Merge, patch).await {
            Ok(_) => return Ok(()),
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.to_string()),
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": self.namespace,
                "labels": {well_known::LABEL_EXCLUDE_FROM_BACKUP: "true"},
                "ownerReferences": [{"apiVersion": API_VERSION, "kind": Restore::KIND,
                    "name": self.restore.name, "uid": self.restore.uid}],
            },
            "binaryData": data,
        });
        let body = Bytes::from(map.to_string());
        let created = self.cluster.create(&resource, namespace, &name, body, Create::default()).await;
        created.map(drop).map_err(|e| e.to_string())
    }
}

fn config_maps() -> ApiResource {
    ApiResource::new("", "v1", "configmaps", "ConfigMap")
}
