//! Deletes restores and data movements while there is a server, or a node agent, to remove their finalizers, and removes the
//! finalizers that are left.

use crate::clock::Clock;
use crate::error::RemovalError;
use crate::gone::until_gone;
use crate::kinds::{custom, daemon_sets, definitions, deployments};
use crate::names::DEPLOYMENT;
use crate::read::{PAUSE, get, list, name};
use crate::step::{InstallStep, StepReporter};
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::{
    FINALIZER_DATA_PATH, FINALIZER_POD_VOLUME, FINALIZER_RESTORE, NODE_AGENT, NODE_AGENT_WINDOWS,
};
use lifeboat_api::{DataDownload, DataUpload, PodVolumeBackup, PodVolumeRestore, Restore};
use lifeboat_cluster::{Cluster, ClusterError, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time that a server may take to remove the finalizers of restores and data movements.
const RELEASE_LIMIT: Duration = Duration::from_secs(60);

/// The number of attempts to change an object that somebody else changes.
const MOST_CONFLICTS: usize = 5;

/// Deletes restores and data movements, waits until a server has removed their finalizers, and removes those that are left.
pub(crate) async fn release(
    cluster: &Cluster,
    namespace: &str,
    clock: &Clock<'_>,
    tell: &mut StepReporter<'_>,
) -> Result<(), RemovalError> {
    let kinds = held_kinds(cluster).await?;
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
        if Instant::now() < end
            && (server_runs(cluster, namespace, clock).await? || node_agent_runs(cluster, namespace).await?)
        {
            tell(InstallStep::Held).map_err(RemovalError::Tell)?;
            sleep(PAUSE).await;
            continue;
        }
        tell(InstallStep::Freeing(left.len())).map_err(RemovalError::Tell)?;
        // A server or node agent that is only slow would go on writing to them.
        let writers = [(deployments(), DEPLOYMENT), (daemon_sets(), NODE_AGENT), (daemon_sets(), NODE_AGENT_WINDOWS)];
        for (resource, name) in &writers {
            cluster.delete(resource, Some(namespace), name).await?;
        }
        for (resource, name) in &writers {
            until_gone(cluster, resource, Some(namespace), name).await?;
        }
        for (resource, finalizer, object) in &left {
            free(cluster, namespace, resource, finalizer, object).await?;
        }
        let files: Vec<String> = left.iter().filter_map(|(_, finalizer, object)| files_of(finalizer, object)).collect();
        if !files.is_empty() {
            tell(InstallStep::FilesStay(&files)).map_err(RemovalError::Tell)?;
        }
        return Ok(());
    }
}

/// The kinds that hold a namespace by a finalizer of a server, of those that the cluster has.
async fn held_kinds(cluster: &Cluster) -> Result<Vec<(ApiResource, &'static str)>, ClusterError> {
    let mut kinds = Vec::new();
    for (resource, finalizer) in [
        (custom::<Restore>(), FINALIZER_RESTORE),
        (custom::<DataUpload>(), FINALIZER_DATA_PATH),
        (custom::<DataDownload>(), FINALIZER_DATA_PATH),
        (custom::<PodVolumeBackup>(), FINALIZER_POD_VOLUME),
        (custom::<PodVolumeRestore>(), FINALIZER_POD_VOLUME),
    ] {
        let name = resource.group_resource().to_string();
        if get(cluster, &definitions(), None, &name).await?.is_some() {
            kinds.push((resource, finalizer));
        }
    }
    Ok(kinds)
}

/// Returns true if a namespace has an object that a finalizer of a server holds.
pub(crate) async fn is_held(cluster: &Cluster, namespace: &str) -> Result<bool, ClusterError> {
    for (resource, finalizer) in held_kinds(cluster).await? {
        let found = list(cluster, &resource, Some(namespace), "").await?;
        if found.iter().any(|object| has_finalizer(object, finalizer)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().any(|one| one == finalizer)
}

/// The name of a restore whose files nobody has deleted yet; `None` for a restore that never began, and for objects
/// that are no restores.
fn files_of(finalizer: &str, object: &Value) -> Option<String> {
    let has_files = finalizer == FINALIZER_RESTORE && object["status"]["startTimestamp"].is_string();
    (has_files && has_finalizer(object, finalizer)).then(|| name(object).to_owned())
}

/// Removes one finalizer of an object, and leaves those of others. An object that somebody else changes meanwhile is read again.
async fn free(
    cluster: &Cluster,
    namespace: &str,
    resource: &ApiResource,
    finalizer: &str,
    object: &Value,
) -> Result<(), ClusterError> {
    let mut now = Some(object.clone());
    for _ in 0..MOST_CONFLICTS {
        let Some(object) = now.as_ref().filter(|object| has_finalizer(object, finalizer)) else { return Ok(()) };
        let all = object["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let others: Vec<&Value> = all.iter().filter(|one| **one != finalizer).collect();
        let patch = json!({"metadata": {
            "finalizers": others, "resourceVersion": object["metadata"]["resourceVersion"],
        }});
        let body = Bytes::from(patch.to_string());
        match cluster.patch(resource, Some(namespace), name(object), MergePatch::of(body)).await {
            Err(e) if e.is_not_found() => return Ok(()),
            Err(e) if e.is_conflict() => now = get(cluster, resource, Some(namespace), name(object)).await?,
            patched => return patched.map(drop),
        }
    }
    Ok(())
}

/// Returns true if there is a server that could remove finalizers: a pod of the Deployment, or a holder of the Lease.
async fn server_runs(cluster: &Cluster, namespace: &str, clock: &Clock<'_>) -> Result<bool, ClusterError> {
    let deployment = get(cluster, &deployments(), Some(namespace), DEPLOYMENT).await?.unwrap_or_default();
    if deployment["status"]["readyReplicas"].as_u64().is_some_and(|ready| ready > 0) {
        return Ok(true);
    }
    let leases = ApiResource::new("coordination.k8s.io", "v1", "leases", "Lease");
    let lease = get(cluster, &leases, Some(namespace), "lifeboat-server").await?.unwrap_or_default();
    let now = cluster.time().await?.unwrap_or_else(clock);
    Ok(is_kept(&lease, now))
}

/// Returns true if a pod of a node agent is ready, which removes the finalizers of data movements.
async fn node_agent_runs(cluster: &Cluster, namespace: &str) -> Result<bool, ClusterError> {
    for name in [NODE_AGENT, NODE_AGENT_WINDOWS] {
        let found = get(cluster, &daemon_sets(), Some(namespace), name).await?.unwrap_or_default();
        if found["status"]["numberReady"].as_u64().is_some_and(|ready| ready > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if the holder of a Lease has renewed it lately.
fn is_kept(lease: &Value, now: Timestamp) -> bool {
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
    fn a_restore_that_never_began_left_nothing_in_the_bucket() {
        let restore =
            |status: Value| json!({"metadata": {"name": "r", "finalizers": [FINALIZER_RESTORE]}, "status": status});
        let begun = restore(json!({"startTimestamp": "2026-01-01T00:00:00Z"}));
        assert_eq!(files_of(FINALIZER_RESTORE, &begun).as_deref(), Some("r"));
        assert_eq!(files_of(FINALIZER_RESTORE, &restore(json!({"phase": "FailedValidation"}))), None);
        assert_eq!(files_of(FINALIZER_DATA_PATH, &begun), None);
    }

    #[test]
    fn a_lease_is_held_while_it_is_renewed() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| json!({"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}});
        assert!(is_kept(&lease("a", "2026-01-01T00:00:46.000000Z"), now));
        assert!(!is_kept(&lease("a", "2026-01-01T00:00:45.000000Z"), now));
        assert!(!is_kept(&lease("", "2026-01-01T00:00:59.000000Z"), now));
        assert!(!is_kept(&Value::Null, now));
    }
}
