//! The objects that keep a namespace from its end by a finalizer of ours.

use crate::work::Context;
use lifeboat_api::ObjectMeta;
use lifeboat_cluster::ClusterError;
use lifeboat_object::ApiResource;

/// Lists the metadata of the objects of a kind that have this finalizer, in the namespace of the server.
///
/// # Errors
/// They cannot be listed.
pub(super) async fn list_with_finalizer(
    context: &Context,
    resource: &ApiResource,
    finalizer: &str,
) -> Result<Vec<ObjectMeta>, ClusterError> {
    let mut held: Vec<ObjectMeta> = Vec::new();
    let take = |meta: ObjectMeta| {
        if meta.finalizers.iter().any(|one| one == finalizer) {
            held.push(meta);
        }
    };
    let namespace = Some(context.options.namespace.as_str());
    match context.client.cluster.each_metadata(resource, namespace, "", take).await {
        // The definition is not there, or has gone meanwhile, and all objects with it.
        Err(e) if !e.is_not_found() => Err(e),
        _ => Ok(held),
    }
}
