//! Lists the objects of snapshots as values.

use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::sync::Arc;

/// Gives each object of a list to `take`. A list that was interrupted may bring one twice.
pub(crate) async fn each(
    cluster: &Cluster,
    request: ListRequest,
    mut take: impl FnMut(Value),
) -> Result<(), ClusterError> {
    let mut list = cluster.list(request);
    while let Some(bodies) = list.next().await? {
        bodies.iter().filter_map(|body| serde_json::from_slice(body).ok()).for_each(&mut take);
    }
    Ok(())
}

/// A list of all objects of a type that a label selects; of all of the type for an empty one.
pub(crate) fn selected(resource: &Arc<ApiResource>, selector: String) -> ListRequest {
    ListRequest { resource: Arc::clone(resource), namespace: None, selector, metadata_only: false }
}
