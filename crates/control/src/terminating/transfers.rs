//! Transfers of volumes in a namespace that is being deleted. Node agents take their finalizers off; when these are gone, nobody would.

use super::held::list_with_finalizer;
use crate::work::Context;
use crate::work::finalizer::removal_of_finalizer;
use bytes::Bytes;
use lifeboat_api::well_known::{FINALIZER_DATA_PATH, FINALIZER_POD_VOLUME, NODE_AGENT, NODE_AGENT_WINDOWS};
use lifeboat_api::{DataDownload, DataUpload, ObjectMeta, PodVolumeBackup, PodVolumeRestore, Resource};
use lifeboat_client::api_resource;
use lifeboat_cluster::{ClusterError, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// Takes the finalizers off transfers, where no node agent is left that could; true when none has one.
///
/// # Errors
/// Something could not be read or written.
pub(super) async fn let_go(context: &Context) -> Result<bool, ClusterError> {
    let mut held = Vec::new();
    for (resource, finalizer) in [
        (api_resource::<DataUpload>(), FINALIZER_DATA_PATH),
        (api_resource::<DataDownload>(), FINALIZER_DATA_PATH),
        (api_resource::<PodVolumeBackup>(), FINALIZER_POD_VOLUME),
        (api_resource::<PodVolumeRestore>(), FINALIZER_POD_VOLUME),
    ] {
        for meta in list_with_finalizer(context, &resource, finalizer).await? {
            held.push((resource.clone(), finalizer, meta));
        }
    }
    if held.is_empty() {
        return Ok(true);
    }
    if has_node_agent(context).await? {
        return Ok(false);
    }
    for (resource, finalizer, meta) in &held {
        free(context, resource, finalizer, meta).await?;
    }
    Ok(false)
}

/// Returns true if a pod of a node agent is ready. Who may not read its DaemonSet takes none for there: its pods go with the namespace.
async fn has_node_agent(context: &Context) -> Result<bool, ClusterError> {
    let daemon_sets = ApiResource::new("apps", "v1", "daemonsets", "DaemonSet");
    for name in [NODE_AGENT, NODE_AGENT_WINDOWS] {
        let found = match context.client.cluster.get(&daemon_sets, Some(&context.options.namespace), name).await {
            Err(e) if e.is_denied() => None,
            found => found?,
        };
        let found: Value = found.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        if found["status"]["numberReady"].as_u64().is_some_and(|ready| ready > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes one finalizer off an object, and says what is lost with it.
async fn free(
    context: &Context,
    resource: &ApiResource,
    finalizer: &str,
    meta: &ObjectMeta,
) -> Result<(), ClusterError> {
    let (cluster, namespace) = (&context.client.cluster, Some(context.options.namespace.as_str()));
    let found = cluster.get(resource, namespace, &meta.name).await?;
    let found: Value = found.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    let patch = removal_of_finalizer(meta, finalizer);
    match cluster.patch(resource, namespace, &meta.name, MergePatch::of(Bytes::from(patch.to_string()))).await {
        // It is looked at again.
        Err(e) if e.is_not_found() || e.is_conflict() => return Ok(()),
        patched => patched.map(drop)?,
    }
    let (kind, name) = (&resource.kind, &meta.name);
    let why = "its namespace is being deleted and no node agent is left";
    match has_ended(&found) {
        true => tracing::info!("{kind} {name}, which had ended, is let go, because {why}"),
        false => tracing::warn!("{kind} {name} is let go, because {why}: {}", lost(kind, &found)),
    }
    Ok(())
}

/// Returns true if a transfer had come to its end.
fn has_ended(object: &Value) -> bool {
    matches!(object["status"]["phase"].as_str(), Some("Completed" | "Failed" | "Canceled"))
}

/// The loss when a transfer goes before its end, for people.
fn lost(kind: &str, object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match kind {
        DataUpload::KIND => format!(
            "the data of the claim {}/{} is not in the backup, and the VolumeSnapshot {} that it holds there stays until somebody deletes it",
            text("/spec/sourceNamespace"),
            text("/spec/sourcePVC"),
            text("/spec/csiSnapshot/volumeSnapshot"),
        ),
        DataDownload::KIND => format!(
            "the claim {}/{} does not get its data",
            text("/spec/targetVolume/namespace"),
            text("/spec/targetVolume/pvc")
        ),
        PodVolumeBackup::KIND => format!(
            "the files of the volume {} of pod {}/{} are not in the backup",
            text("/spec/volume"),
            text("/spec/pod/namespace"),
            text("/spec/pod/name")
        ),
        _ => format!(
            "the volume {} of pod {}/{} does not get its files, and the pod waits for them",
            text("/spec/volume"),
            text("/spec/pod/namespace"),
            text("/spec/pod/name")
        ),
    }
}
