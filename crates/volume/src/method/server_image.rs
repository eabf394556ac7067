//! The image of the server, which pods that it makes run too.

use lifeboat_api::server_container;
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde_json::Value;

/// Looks for the image of the server's container in the Deployment `velero` of a namespace. Empty where it is not found or may not be
/// read.
pub async fn find_server_image(cluster: &Cluster, namespace: &str) -> String {
    let deployments = ApiResource::new("apps", "v1", "deployments", "Deployment");
    let found = cluster.get(&deployments, Some(namespace), "velero").await.ok().flatten();
    let found = found.and_then(|body| serde_json::from_slice::<Value>(&body).ok()).unwrap_or_default();
    server_container(&found["spec"]["template"])["image"].as_str().unwrap_or_default().to_owned()
}
