//! Takes the snapshots of a backup that has ended out of the cluster, and leaves them in the storage.

use super::clean::release;
use super::error::CsiError;
use super::group_clean::Groups;
use super::members::group_of;
use super::objects::SnapshotTypes;
use super::sweep::Left;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lifeboat_cluster::Cluster;
use serde_json::Value;
use std::collections::BTreeSet;

/// Objects that are released at once.
const AT_ONCE: usize = 16;

/// Removes VolumeSnapshots of a backup, by namespace and name, with their contents, and the groups that they are of with all that
/// belongs to these; leaves what lies in the storage. Gives those that could not be removed, with the reason: they do no harm, and
/// another call removes them.
pub async fn release_all(cluster: &Cluster, types: &SnapshotTypes, snapshots: &[(String, String)]) -> Vec<Left> {
    let groups = snapshots.iter().map(|(namespace, name)| {
        async move {
            let found = cluster.get(&types.snapshots, Some(namespace), name).await;
            let body = found.map_err(|e| (format!("{namespace}/{name}"), CsiError::from(e)))?;
            let snapshot: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
            Ok(group_of(&snapshot).map(|group| (namespace.clone(), group)))
        }
        .boxed()
    });
    let (mut left, mut groups_of) = (Vec::new(), BTreeSet::new());
    for group in some_at_once(groups.collect()).await {
        match group {
            Ok(group) => groups_of.extend(group),
            Err(e) => left.push(e),
        }
    }
    // The members of a group cannot go before it.
    if let Some(of) = &types.groups {
        let at = Groups { cluster, types, groups: of };
        let released = groups_of.iter().map(|(namespace, name)| {
            async move { at.release(namespace, name).await.err().map(|e| (format!("{namespace}/{name}"), e)) }.boxed()
        });
        left.extend(some_at_once(released.collect()).await.into_iter().flatten());
    }
    let released = snapshots.iter().map(|(namespace, name)| {
        async move { release(cluster, types, namespace, name).await.err().map(|e| (format!("{namespace}/{name}"), e)) }.boxed()
    });
    left.extend(some_at_once(released.collect()).await.into_iter().flatten());
    left
}

/// What these come to, in any order. Their type is named, since the compiler does not see otherwise that they can be sent.
async fn some_at_once<T>(works: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    futures::stream::iter(works).buffer_unordered(AT_ONCE).collect().await
}
