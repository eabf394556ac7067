//! The namespaces of the cluster that are to be protected, looked at again and again.

use crate::coverage::NamespaceInventory;
use lifeboat_api::{ObjectMeta, Time};
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_object::ApiResource;
use lifeboat_select::{NamespaceFacts, is_kept_out};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Namespaces of Kubernetes itself, which nobody is expected to back up.
const SYSTEM: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Pause between two lists of the namespaces.
const PAUSE: Duration = Duration::from_secs(60);
/// Pause between two lists when they are refused.
const REFUSED: Duration = Duration::from_secs(600);

/// A namespace of this metadata, when it is to be protected: not one of Kubernetes, that of the server, one that is being deleted, or one
/// that its label keeps out of backups. Its claims are not counted.
#[must_use]
pub fn namespace_to_protect(meta: ObjectMeta, own: &str) -> Option<NamespaceInventory> {
    let is_of_system = SYSTEM.contains(&meta.name.as_str()) || meta.name == own;
    if is_of_system || meta.deletion_timestamp.is_some() || is_kept_out(&meta.labels) {
        return None;
    }
    Some(NamespaceInventory {
        created: meta.creation_timestamp.map(Time::timestamp),
        facts: NamespaceFacts { name: meta.name, labels: meta.labels, active: true },
        claims: None,
    })
}

/// The namespaces of a cluster that are to be protected, as [`namespace_to_protect`] says of each.
///
/// # Errors
/// When they cannot be listed.
pub async fn namespaces_to_protect(cluster: &Cluster, own: &str) -> Result<Vec<NamespaceInventory>, ClusterError> {
    let mut found = Vec::new();
    let resource = ApiResource::namespaces();
    let take = |meta: ObjectMeta| found.extend(namespace_to_protect(meta, own));
    cluster.each_metadata(&resource, None, "", take).await?;
    Ok(found)
}

/// The namespaces that were found last.
pub(crate) type Census = Option<Arc<Vec<NamespaceInventory>>>;

/// Looks at the namespaces each minute, until it is dropped. When they cannot be listed, those that were found last stay.
pub(crate) async fn look_again_and_again(cluster: Cluster, own: String, found: watch::Sender<Census>) {
    let mut is_told = false;
    loop {
        let pause = match namespaces_to_protect(&cluster, &own).await {
            Ok(namespaces) => {
                is_told = false;
                found.send_replace(Some(Arc::new(namespaces)));
                PAUSE
            }
            Err(e) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(error = %e, "the namespaces cannot be listed: no metrics say which have a good backup");
                }
                if e.is_denied() { REFUSED } else { PAUSE }
            }
        };
        sleep(pause).await;
    }
}
