//! Two generations never lead at once: while a server of Velero runs, we wait.

use crate::lead::host;
use lifeboat_api::well_known::LABEL_DEPLOY;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(3);

/// Waits until no pod of the Deployment `velero` with another image than ours runs; false when told to stop before.
/// Velero's server takes no part in any election, so nothing else would keep the two apart.
pub(crate) async fn wait_for_velero_to_end(
    cluster: &Cluster,
    namespace: &str,
    identity: &str,
    cancel: &CancellationToken,
) -> bool {
    loop {
        match others(cluster, namespace, identity).await {
            Ok(others) if others.is_empty() => return true,
            Ok(others) => tracing::warn!(
                pods = others.join(", "),
                "a Velero server runs in this namespace: waiting until it has ended (scale its Deployment to 0)"
            ),
            // Without the right to look, or without an answer: to wait for ever would help nobody.
            Err(e) if e.is_denied() => {
                tracing::warn!(error = %e, "it is not known whether a Velero server runs in this namespace");
                return true;
            }
            Err(e) => tracing::warn!(error = %e, "it is not known whether a Velero server runs, looking again"),
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = cancel.cancelled() => return false,
        }
    }
}

async fn others(cluster: &Cluster, namespace: &str, identity: &str) -> Result<Vec<String>, ClusterError> {
    let mut list = cluster.list(ListRequest {
        resource: Arc::new(pods()),
        namespace: Some(namespace.to_owned()),
        selector: format!("{LABEL_DEPLOY}=velero"),
        metadata_only: false,
    });
    let mut found: Vec<Value> = Vec::new();
    while let Some(bodies) = list.next().await? {
        found.extend(bodies.iter().filter_map(|body| serde_json::from_slice(body).ok()));
    }
    Ok(strangers(&found, identity))
}

/// Pods that run, or will, another image than the pod that we are; all of them when we are none of them.
fn strangers(pods: &[Value], identity: &str) -> Vec<String> {
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
    let own = pods.iter().find(|pod| name(pod) == host(identity)).map(image);
    let runs = |pod: &&Value| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let stranger = |pod: &&Value| own.as_ref().is_none_or(|own| image(pod) != *own);
    pods.iter().filter(runs).filter(stranger).map(name).collect()
}

fn pods() -> ApiResource {
    ApiResource::new("", "v1", "pods", "Pod")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_is_waited_for() {
        let pod = |name: &str, image: &str, phase: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"image": image}]}, "status": {"phase": phase}});
        let pods = [
            pod("old", "velero:1", "Running"),
            pod("older", "velero:1", "Succeeded"),
            pod("starting", "velero:1", "Pending"),
            pod("we", "lifeboat:1", "Running"),
            pod("replica", "lifeboat:1", "Running"),
        ];
        assert_eq!(strangers(&pods, "we"), ["old", "starting"]);
        assert_eq!(strangers(&pods, "we_0a1b"), ["old", "starting"]);
        assert_eq!(strangers(&pods[3..], "we"), [""; 0]);
        // Outside of the cluster: whose image is whose is not known.
        assert_eq!(strangers(&pods[3..], "laptop"), ["we", "replica"]);
        assert_eq!(strangers(&[], "laptop"), [""; 0]);
    }
}
