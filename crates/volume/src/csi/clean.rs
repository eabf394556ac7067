//! Takes the objects of snapshots out of the cluster (backup.md 3.5).

use super::error::CsiError;
use super::objects::SnapshotTypes;
use lifeboat_cluster::{Cluster, MergePatch};
use serde_json::{Value, json};

/// Removes a VolumeSnapshot of a backup with its content, and leaves what lies in the storage: the content is told to retain it
/// first. Done again, it finds less to do.
///
/// # Errors
/// [`CsiError`]: what is left can be released by another call.
pub(crate) async fn release(
    cluster: &Cluster,
    types: &SnapshotTypes,
    namespace: &str,
    name: &str,
) -> Result<(), CsiError> {
    let Some(content) = bound_content(cluster, types, namespace, name).await? else { return Ok(()) };
    if let Some(content) = content {
        // Nothing is removed from the cluster before the content is known to keep what it stands for.
        set_policy(cluster, types, &content, "Retain").await?;
        cluster.delete(&types.contents, None, &content).await?;
    }
    cluster.delete(&types.snapshots, Some(namespace), name).await?;
    Ok(())
}

/// Removes a VolumeSnapshot, and with it the snapshot in the storage, whatever its class says.
///
/// # Errors
/// [`CsiError`]: the rest can be removed by another call.
pub(crate) async fn remove(
    cluster: &Cluster,
    types: &SnapshotTypes,
    namespace: &str,
    name: &str,
) -> Result<(), CsiError> {
    let Some(content) = bound_content(cluster, types, namespace, name).await? else { return Ok(()) };
    if let Some(content) = content {
        set_policy(cluster, types, &content, "Delete").await?;
    }
    cluster.delete(&types.snapshots, Some(namespace), name).await?;
    Ok(())
}

/// The content that a VolumeSnapshot is bound to, if it is; `None` when there is no such snapshot.
async fn bound_content(
    cluster: &Cluster,
    types: &SnapshotTypes,
    namespace: &str,
    name: &str,
) -> Result<Option<Option<String>>, CsiError> {
    let Some(body) = cluster.get(&types.snapshots, Some(namespace), name).await? else { return Ok(None) };
    let snapshot: Value = serde_json::from_slice(&body).map_err(|_| CsiError::Odd("VolumeSnapshot"))?;
    let content = snapshot.pointer("/status/boundVolumeSnapshotContentName").and_then(Value::as_str);
    Ok(Some(content.map(str::to_owned)))
}

/// Sets the deletion policy of a content. One that is gone is no error.
pub(crate) async fn set_policy(
    cluster: &Cluster,
    types: &SnapshotTypes,
    content: &str,
    policy: &str,
) -> Result<(), CsiError> {
    let patch = json!({"spec": {"deletionPolicy": policy}}).to_string();
    match cluster.patch(&types.contents, None, content, MergePatch::of(patch.into())).await {
        Ok(_) => Ok(()),
        Err(e) if e.is_not_found() => Ok(()),
        Err(e) => Err(e.into()),
    }
}
