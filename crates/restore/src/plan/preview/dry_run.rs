//! Asks the API server about a write that a restore would make, by a dry run.

use crate::object::best_effort::ToPatch;
use crate::object::recreate::probe;
use crate::plan::planned::Planned;
use lifeboat_cluster::Cluster;
use lifeboat_object::{ApiResource, ObjectKey};
use serde_json::Value;
use std::sync::Arc;

/// A write for which the API server is asked, by a dry run.
pub(super) struct DryRun {
    pub(super) resource: Arc<ApiResource>,
    pub(super) desired: Value,
    /// Of an object that is there.
    pub(super) patch: Option<Value>,
    /// Set when the API server is asked about it under another name, beside the object in the cluster, which is about
    /// to go.
    pub(super) is_beside: bool,
}

impl DryRun {
    /// Returns the plan, or the refusal of the API server, and the fields of an update that the API server would not
    /// change. Objects that are missing only because the restore would make them first, such as a namespace, are no
    /// refusal.
    pub(super) async fn ask(&self, key: &ObjectKey, planned: Planned, cluster: &Cluster) -> (Planned, Option<String>) {
        let namespace = key.namespace.as_deref();
        let mut stays = None;
        let asked = match (&planned, &self.patch) {
            (Planned::Create, _) if !self.is_beside => {
                let body = self.desired.to_string().into();
                cluster.dry_run_create(&self.resource, namespace, &key.name, body).await.map(drop)
            }
            (Planned::Update(_), Some(patch)) => {
                let to_patch = ToPatch { resource: &self.resource, namespace, name: &key.name, patch, is_dry: true };
                to_patch.send(cluster).await.map(|kept| stays = kept.told())
            }
            (Planned::Create | Planned::Recreate(_), _) => {
                let (name, probe) = probe(key, &self.desired);
                cluster.dry_run_create(&self.resource, namespace, &name, probe.to_string().into()).await.map(drop)
            }
            _ => return (planned, None),
        };
        match asked {
            Err(e) if !e.is_not_found() => {
                (Planned::Refused(format!("the API server would refuse to {}: {}", e.verb, e.failure)), None)
            }
            _ => (planned, stays),
        }
    }
}
