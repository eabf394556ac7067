//! Deletes restores and data movements while there is a server to remove their finalizers, and removes the finalizers that are
//! left.

use crate::clock::Clock;
use crate::error::RemovalError;
use crate::gone::until_gone;
use crate::kinds::{custom, definitions, deployments};
use crate::names::DEPLOYMENT;
use crate::read::{PAUSE, get, list, name};
use crate::step::{Step, Tell};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::{FINALIZER_DATA_PATH, FINALIZER_RESTORE};
use lifeboat_api::{DataDownload, DataUpload, Restore};
use lifeboat_cluster::{Cluster, ClusterError, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a server may take to remove the finalizers of restores and data movements.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);

/// Deletes restores and data movements, waits until a server has removed their finalizers, and removes those that are left.
pub(crate) async fn release(
    cluster: &Cluster,
    namespace: &str,
    clock: &Clock<'_>,
    tell: &mut Tell<'_>,
) -> Result<(), RemovalError> {
    let mut kinds = Vec::new();
    for (resource, finalizer) in [
        (custom::<Restore>(), FINALIZER_RESTORE),
        (custom::<DataUpload>(), FINALIZER_DATA_PATH),
        (custom::<DataDownload>(), FINALIZER_DATA_PATH),
    ] {
        let name = resource.group_resource().to_string();
        if get(cluster, &definitions(), None, &name).await?.is_some() {
            kinds.push((resource, finalizer));
        }
    }
    for (resource, _) in &kinds {
        for object in list(cluster, resource, Some(namespace), "").await? {
            cluster.delete(resource, Some(namespace), name(&object)).await?;
        }
    }
    let end = Instant::now() + RELEASE_LIMIT;
    loop {
        let mut left = Vec::new();
        for (resource, finalizer) in &kinds {
            let found = list(cluster, resource, Some(namespace), "").await?;
            left.extend(found.into_iter().map(|object| (resource, *finalizer, object)));
        }
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() < end && server_runs(cluster, namespace, clock).await? {
            tell(Step::Held).map_err(RemovalError::Tell)?;
            sleep(PAUSE).await;
            continue;
        }
        tell(Step::Freeing(left.len())).map_err(RemovalError::Tell)?;
        // A server that is only slow would go on writing to them.
        cluster.delete(&deployments(), Some(namespace), DEPLOYMENT).await?;
        until_gone(cluster, &deployments(), Some(namespace), DEPLOYMENT).await?;
        for (resource, finalizer, object) in left {
            free(cluster, namespace, resource, finalizer, &object).await?;
        }
        return Ok(());
    }
}

/// Removes one finalizer of an object, and leaves those of others.
async fn free(
    cluster: &Cluster,
    namespace: &str,
    resource: &ApiResource,
    finalizer: &str,
    object: &Value,
) -> Result<(), ClusterError> {
    let all = object["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let others: Vec<&Value> = all.iter().filter(|one| **one != finalizer).collect();
    if others.len() == all.len() {
        return Ok(());
    }
    let patch = json!({"metadata": {
        "finalizers": others, "resourceVersion": object["metadata"]["resourceVersion"],
    }});
    let body = Bytes::from(patch.to_string());
    let patched = cluster.patch(resource, Some(namespace), name(object), MergePatch::of(body));
    match patched.await {
        Err(e) if !e.is_not_found() => Err(e),
        _ => Ok(()),
    }
}

/// Whether there is a server that could remove finalizers: a pod of the Deployment, or a holder of the Lease.
async fn server_runs(cluster: &Cluster, namespace: &str, clock: &Clock<'_>) -> Result<bool, ClusterError> {
    let deployment = get(cluster, &deployments(), Some(namespace), DEPLOYMENT).await?.unwrap_or_default();
    if deployment["status"]["readyReplicas"].as_u64().is_some_and(|ready| ready > 0) {
        return Ok(true);
    }
    let leases = ApiResource::new("coordination.k8s.io", "v1", "leases", "Lease");
    let lease = get(cluster, &leases, Some(namespace), "lifeboat-server").await?.unwrap_or_default();
    let now = cluster.time().await?.unwrap_or_else(clock);
    Ok(is_held(&lease, now))
}

/// Whether the holder of a Lease has renewed it lately.
fn is_held(lease: &Value, now: Timestamp) -> bool {
    let spec = &lease["spec"];
    let held = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
    let renewed = spec["renewTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let lasts = SignedDuration::from_secs(spec["leaseDurationSeconds"].as_i64().unwrap_or(0));
    held && renewed.is_some_and(|renewed| now.duration_since(renewed) < lasts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_while_it_is_renewed() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| json!({"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}});
        assert!(is_held(&lease("a", "2026-01-01T00:00:46.000000Z"), now));
        assert!(!is_held(&lease("a", "2026-01-01T00:00:45.000000Z"), now));
        assert!(!is_held(&lease("", "2026-01-01T00:00:59.000000Z"), now));
        assert!(!is_held(&Value::Null, now));
    }
}
