//! Waits until a deleted object is gone.

use crate::error::RemovalError;
use crate::read::{PAUSE, get};
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time that a deleted object may take to be gone.
const DELETION_LIMIT: Duration = Duration::from_secs(300);

/// Waits until there is no such object.
pub(crate) async fn until_gone(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
) -> Result<(), RemovalError> {
    let end = Instant::now() + DELETION_LIMIT;
    while let Some(found) = get(cluster, resource, namespace, name).await? {
        if Instant::now() >= end {
            return Err(RemovalError::Stuck(stuck(&resource.kind, name, &found)));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Describes an object that does not go.
fn stuck(kind: &str, name: &str, found: &Value) -> String {
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let why: Vec<&str> = conditions.filter(|c| c["status"] == "True").filter_map(|c| c["message"].as_str()).collect();
    let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
    format!("{kind} {name} is not gone after {} s{why}; run the command again when it is", DELETION_LIMIT.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_holds_a_namespace_is_told() {
        let found = json!({"status": {"conditions": [
            {"type": "NamespaceContentRemaining", "status": "True", "message": "pods. has 1 resource instances"},
            {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "all fine"},
        ]}});
        assert_eq!(
            stuck("Namespace", "velero", &found),
            "Namespace velero is not gone after 300 s: pods. has 1 resource instances; run the command again when it is"
        );
    }
}
