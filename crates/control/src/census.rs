//! The namespaces of the cluster that are to be protected, looked at again and again.

use lifeboat_api::ObjectMeta;
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_lifecycle::coverage::{NamespaceInventory, namespace_to_protect};
use lifeboat_object::ApiResource;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Pause between two lists of the namespaces.
const PAUSE: Duration = Duration::from_secs(60);
/// Pause between two lists when they are refused.
const REFUSED: Duration = Duration::from_secs(600);

/// The namespaces of a cluster that are to be protected, as [`namespace_to_protect`] says of each.
///
/// # Errors
/// When they cannot be listed.
async fn namespaces_to_protect(cluster: &Cluster, own: &str) -> Result<Vec<NamespaceInventory>, ClusterError> {
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
