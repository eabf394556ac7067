//! Removes the movers that a killed restore has left behind.

use super::objects::{pods, secrets};
use lifeboat_api::well_known::{LABEL_MOVER_OF_RESTORE, LABEL_RESTORE_UID};
use lifeboat_api::{Restore, label_value};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use serde_json::Value;
use std::sync::Arc;

/// Removes the pods and Secrets of movers of earlier restores of this name. Those of this restore stay: it takes them up.
///
/// # Errors
/// [`ClusterError`].
pub async fn sweep(restore: &Restore, cluster: &Cluster) -> Result<(), ClusterError> {
    let metadata = &restore.metadata;
    let selector =
        format!("{LABEL_MOVER_OF_RESTORE}={},{LABEL_RESTORE_UID}!={}", label_value(&metadata.name), metadata.uid);
    for kind in [pods(), secrets()] {
        let mut list = cluster.list(ListRequest {
            resource: Arc::new(kind.clone()),
            namespace: None,
            selector: selector.clone(),
            metadata_only: true,
        });
        while let Some(bodies) = list.next().await? {
            for body in bodies {
                let found: Value = serde_json::from_slice(&body).unwrap_or_default();
                let text = |field: &str| found["metadata"][field].as_str().unwrap_or_default();
                cluster.delete_exactly(&kind, Some(text("namespace")), text("name"), text("uid")).await?;
            }
        }
    }
    Ok(())
}
