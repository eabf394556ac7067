//! Asks the API server about a write that a restore would make, by a dry run.

use crate::planned::Planned;
use crate::recreate::probe;
use lifeboat_cluster::Cluster;
use lifeboat_object::{ApiResource, ObjectKey};
use serde_json::Value;
use std::sync::Arc;

/// What would be sent to the API server.
pub(super) struct DryRun {
    pub(super) resource: Arc<ApiResource>,
    pub(super) desired: Value,
    /// Of an object that is there.
    pub(super) patch: Option<Value>,
    /// Whether the API server is to be asked about it beside the one in the cluster, which is about to go.
    pub(super) is_beside: bool,
}

impl DryRun {
    /// What was planned, or that the API server would refuse it. What is not there yet because the restore would make it first, such as a
    /// namespace, is no refusal.
    pub(super) async fn ask(&self, key: &ObjectKey, planned: Planned, cluster: &Cluster) -> Planned {
        let namespace = key.namespace.as_deref();
        let asked = match (&planned, &self.patch) {
            (Planned::Create, _) if !self.is_beside => {
                let body = self.desired.to_string().into();
                cluster.dry_run_create(&self.resource, namespace, &key.name, body).await.map(drop)
            }
            (Planned::Update(_), Some(patch)) => {
                cluster.dry_run_patch(&self.resource, namespace, &key.name, patch.to_string().into()).await
            }
            (Planned::Create | Planned::Recreate(_), _) => {
                let (name, probe) = probe(key, &self.desired);
                cluster.dry_run_create(&self.resource, namespace, &name, probe.to_string().into()).await.map(drop)
            }
            _ => return planned,
        };
        match asked {
            Err(e) if !e.is_not_found() => {
                Planned::Refused(format!("the API server would refuse to {}: {}", e.verb, e.failure))
            }
            _ => planned,
        }
    }
}
