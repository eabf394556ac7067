//! The checkpoint of a restore in a ConfigMap that goes with it.

use crate::lead::Leadership;
use crate::work::Context;
use crate::work::running::RECORDING_CANCELLED;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lifeboat_api::{API_VERSION, ObjectMeta, Resource, Restore, well_known};
use lifeboat_cluster::{Cluster, Create, PatchKind};
use lifeboat_object::ApiResource;
use lifeboat_restore::CheckpointStore;
use serde_json::{Value, json};
use std::sync::OnceLock;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Where the checkpoint of one restore lies.
#[derive(Debug)]
pub(crate) struct CheckpointMap {
    cluster: Cluster,
    leadership: Leadership,
    namespace: String,
    restore: ObjectMeta,
    cancel: CancellationToken,
    /// Until when the API server is waited for, once the restore is cancelled.
    deadline: OnceLock<Instant>,
}

const KEY: &str = "checkpoint";

impl CheckpointMap {
    pub(crate) fn new(context: &Context, restore: &Restore) -> Self {
        Self::until_cancelled(context, restore, CancellationToken::new())
    }

    /// One of a restore that runs: when it is cancelled, an API server that hangs is waited for no longer than a bucket.
    pub(crate) fn until_cancelled(context: &Context, restore: &Restore, cancel: CancellationToken) -> Self {
        let (cluster, leadership) = (context.client.cluster.clone(), context.leadership.clone());
        let restore = restore.metadata.clone();
        let namespace = restore.namespace.clone();
        Self { cluster, leadership, namespace, restore, cancel, deadline: OnceLock::new() }
    }

    /// What a request comes to, unless it is given up.
    async fn bound<O>(&self, request: impl Future<Output = Result<O, String>>) -> Result<O, String> {
        let overdue = async {
            self.cancel.cancelled().await;
            sleep_until(*self.deadline.get_or_init(|| Instant::now() + RECORDING_CANCELLED)).await;
        };
        tokio::select! {
            done = request => done,
            () = overdue => Err("the restore was cancelled, and the API server did not answer in time".to_owned()),
        }
    }

    /// The UID is a part of it: a name may come again, and names of restores may be as long as names can be.
    fn name(&self) -> String {
        format!("lifeboat-restore-{}", self.restore.uid)
    }

    /// Removes it: the restore has ended.
    pub(crate) async fn forget(&self) {
        // One that stays goes with its owner.
        let (resource, name) = (config_maps(), self.name());
        let deleting = self.cluster.delete(&resource, Some(&self.namespace), &name);
        if let Err(why) = self.bound(async { deleting.await.map_err(|e| e.to_string()) }).await {
            tracing::warn!(why, "the checkpoint of a restore stays");
        }
    }
}

#[async_trait]
impl CheckpointStore for CheckpointMap {
    async fn load(&self) -> Result<Option<Vec<u8>>, String> {
        self.bound(self.read()).await
    }

    async fn save(&self, bytes: Vec<u8>) -> Result<(), String> {
        self.bound(self.write(bytes)).await
    }
}

impl CheckpointMap {
    async fn read(&self) -> Result<Option<Vec<u8>>, String> {
        let found = self.cluster.get(&config_maps(), Some(&self.namespace), &self.name()).await;
        let Some(bytes) = found.map_err(|e| e.to_string())? else { return Ok(None) };
        let map: Value = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        let Some(text) = map["binaryData"][KEY].as_str() else { return Ok(None) };
        STANDARD.decode(text).map(Some).map_err(|_| format!("ConfigMap {}: {KEY} is no base64", self.name()))
    }

    async fn write(&self, bytes: Vec<u8>) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::api_server;
    use tokio::task::JoinSet;

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_hangs_holds_a_cancelled_restore_for_seconds_only() {
        let map = CheckpointMap {
            cluster: api_server(&mut JoinSet::new(), Vec::new()).await,
            leadership: Leadership::for_ever(),
            namespace: "velero".into(),
            restore: ObjectMeta::default(),
            cancel: CancellationToken::new(),
            deadline: OnceLock::new(),
        };
        let begun = Instant::now();
        map.cancel.cancel();
        let late = Err("the restore was cancelled, and the API server did not answer in time".to_owned());
        // However often it is saved then.
        for _ in 0..3 {
            assert_eq!(map.bound(std::future::pending::<Result<(), String>>()).await, late);
            assert_eq!(begun.elapsed(), RECORDING_CANCELLED);
        }
    }
}
