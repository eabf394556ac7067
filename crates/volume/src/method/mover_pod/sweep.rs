//! Removes the movers that a killed restore has left behind.

use super::objects::{pods, secrets};
use lifeboat_api::well_known::{LABEL_MOVER_OF_RESTORE, LABEL_RESTORE_UID};
use lifeboat_api::{Restore, label_value};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use serde_json::Value;
use std::sync::Arc;

/// Removes the pods and Secrets of movers of earlier restores of this name from a namespace. Those of this restore stay: it takes them up.
///
/// # Errors
/// [`ClusterError`].
pub(super) async fn sweep(namespace: &str, restore: &Restore, cluster: &Cluster) -> Result<(), ClusterError> {
    let (name, uid) = (label_value(&restore.metadata.name), &restore.metadata.uid);
    for kind in [pods(), secrets()] {
        let mut list = cluster.list(ListRequest {
            resource: Arc::new(kind.clone()),
            namespace: Some(namespace.to_owned()),
            selector: format!("{LABEL_MOVER_OF_RESTORE}={name}"),
            metadata_only: true,
        });
        while let Some(bodies) = list.next().await? {
            let found = bodies.iter().filter_map(|body| serde_json::from_slice::<Value>(body).ok());
            for found in found.filter(|found| is_left(found, &name, uid)) {
                let text = |field: &str| found["metadata"][field].as_str().unwrap_or_default();
                cluster.delete_exactly(&kind, Some(namespace), text("name"), text("uid")).await?;
            }
        }
    }
    Ok(())
}

/// Returns true if an object belongs to another restore of this name.
fn is_left(object: &Value, name: &str, uid: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    labels[LABEL_MOVER_OF_RESTORE] == name && labels[LABEL_RESTORE_UID] != uid
}
