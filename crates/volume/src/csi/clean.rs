//! Takes the objects of snapshots out of the cluster (backup.md 3.5).

use super::error::CsiError;
use super::objects::{FINALIZER, SnapshotTypes, selector};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lifeboat_cluster::{Cluster, ListRequest, MergePatch};
use serde_json::{Value, json};
use std::sync::Arc;

/// Objects that are cleaned up at once.
const AT_ONCE: usize = 16;

/// Removes a VolumeSnapshot of a backup with its content, and leaves what lies in the storage: the content is told to retain it
/// first. Done again, it finds less to do.
///
/// # Errors
/// [`CsiError`]: what is left can be released by another call.
pub async fn release(cluster: &Cluster, types: &SnapshotTypes, namespace: &str, name: &str) -> Result<(), CsiError> {
    let Some(found) = find(cluster, types, namespace, name).await? else { return Ok(()) };
    if let Some(content) = found.bound {
        // Nothing is removed from the cluster before the content is known to keep what it stands for.
        set_policy(cluster, types, &content, "Retain").await?;
        cluster.delete(&types.contents, None, &content).await?;
    }
    cluster.delete(&types.snapshots, Some(namespace), name).await?;
    Ok(())
}

/// Releases these VolumeSnapshots, by namespace and name, some at once. Gives those that could not be, with the reason.
pub async fn release_all<'a>(
    cluster: &Cluster,
    types: &SnapshotTypes,
    snapshots: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(&'a str, &'a str, CsiError)> {
    let release = |(namespace, name): (&'a str, &'a str)| {
        async move { release(cluster, types, namespace, name).await.err().map(|e| (namespace, name, e)) }.boxed()
    };
    // The compiler does not see that these can be sent unless their type is named.
    let released: Vec<BoxFuture<'_, _>> = snapshots.into_iter().map(release).collect();
    let failed: Vec<Option<_>> = futures::stream::iter(released).buffer_unordered(AT_ONCE).collect().await;
    failed.into_iter().flatten().collect()
}

/// Removes a VolumeSnapshot, and with it the snapshot in the storage, whatever its class says.
///
/// # Errors
/// [`CsiError`]: the rest can be removed by another call.
pub async fn remove(cluster: &Cluster, types: &SnapshotTypes, namespace: &str, name: &str) -> Result<(), CsiError> {
    let Some(found) = find(cluster, types, namespace, name).await? else { return Ok(()) };
    let content = found.content();
    set_policy(cluster, types, &content, "Delete").await?;
    cluster.delete(&types.snapshots, Some(namespace), name).await?;
    if found.bound.is_some() {
        return Ok(());
    }
    // The controller may have made the content in between, and leaves it there if the class says so. One without the finalizer it
    // has not looked at yet: then it sees the policy, and the object may not go before its driver has been told.
    if set_policy(cluster, types, &content, "Delete").await?.is_some_and(|content| is_kept_for_driver(&content)) {
        cluster.delete(&types.contents, None, &content).await?;
    }
    Ok(())
}

/// Removes all VolumeSnapshots of a backup, but those that are to be kept, and the snapshots in the storage. Gives the namespaces and
/// names of those that could not be, with the reason.
///
/// # Errors
/// When they cannot be listed.
pub async fn remove_all(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup_uid: &str,
    is_kept: impl Fn(&str, &str) -> bool,
) -> Result<Vec<(String, CsiError)>, CsiError> {
    if backup_uid.is_empty() {
        // Its label would select the snapshots of others that have none.
        return Ok(Vec::new());
    }
    let mut list = cluster.list(ListRequest {
        resource: Arc::clone(&types.snapshots),
        namespace: None,
        selector: selector(backup_uid),
        metadata_only: true,
    });
    let mut found = Vec::new();
    while let Some(bodies) = list.next().await? {
        found.extend(bodies.iter().filter_map(names).filter(|(namespace, name)| !is_kept(namespace, name)));
    }
    let removed = found.into_iter().map(|(namespace, name)| async move {
        let removed = remove(cluster, types, &namespace, &name).await;
        removed.err().map(|e| (format!("{namespace}/{name}"), e))
    });
    Ok(futures::stream::iter(removed).buffer_unordered(AT_ONCE).filter_map(|failed| async { failed }).collect().await)
}

fn names(body: &Bytes) -> Option<(String, String)> {
    let object: Value = serde_json::from_slice(body).ok()?;
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some((text("/metadata/namespace")?, text("/metadata/name")?))
}

/// A VolumeSnapshot that is there.
struct Found {
    uid: String,
    /// The content that it is bound to, if it is.
    bound: Option<String>,
}

impl Found {
    /// The content that it is bound to, or will be: the snapshot controller names it after the VolumeSnapshot.
    fn content(&self) -> String {
        self.bound.clone().unwrap_or_else(|| format!("snapcontent-{}", self.uid))
    }
}

/// `None` when there is no such VolumeSnapshot.
async fn find(
    cluster: &Cluster,
    types: &SnapshotTypes,
    namespace: &str,
    name: &str,
) -> Result<Option<Found>, CsiError> {
    let Some(body) = cluster.get(&types.snapshots, Some(namespace), name).await? else { return Ok(None) };
    let snapshot: Value = serde_json::from_slice(&body).map_err(|_| CsiError::Odd("VolumeSnapshot"))?;
    let text = |pointer: &str| snapshot.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Ok(Some(Found {
        uid: text("/metadata/uid").unwrap_or_default(),
        bound: text("/status/boundVolumeSnapshotContentName"),
    }))
}

/// Whether a content stays until its driver has deleted what it stands for.
fn is_kept_for_driver(content: &Value) -> bool {
    content["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == FINALIZER))
}

/// Sets the deletion policy of a content, and gives the content. One that is gone is no error.
pub(crate) async fn set_policy(
    cluster: &Cluster,
    types: &SnapshotTypes,
    content: &str,
    policy: &str,
) -> Result<Option<Value>, CsiError> {
    let patch = json!({"spec": {"deletionPolicy": policy}}).to_string();
    match cluster.patch(&types.contents, None, content, MergePatch::of(patch.into())).await {
        Ok(body) => serde_json::from_slice(&body).map(Some).map_err(|_| CsiError::Odd("VolumeSnapshotContent")),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.into()),
    }
}
