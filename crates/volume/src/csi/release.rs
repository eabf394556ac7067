//! Takes the snapshots of a backup that has ended out of the cluster, and leaves them in the storage.

use super::clean::release;
use super::error::CsiError;
use super::group_clean::Groups;
use super::members::group_of;
use super::objects::SnapshotTypes;
use super::sweep::Left;
use lifeboat_cluster::Cluster;
use serde_json::Value;
use std::collections::BTreeSet;

/// Removes VolumeSnapshots of a backup, by namespace and name, with their contents, and the groups that they are of with all that
/// belongs to these; leaves what lies in the storage. Gives those that could not be removed, with the reason: they do no harm, and
/// another call removes them.
pub async fn release_all(cluster: &Cluster, types: &SnapshotTypes, snapshots: &[(String, String)]) -> Vec<Left> {
    let mut left = Vec::new();
    let mut groups = BTreeSet::new();
    for (namespace, name) in snapshots {
        match cluster.get(&types.snapshots, Some(namespace), name).await {
            Ok(body) => {
                let snapshot: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
                groups.extend(group_of(&snapshot).map(|group| (namespace.clone(), group)));
            }
            Err(e) => left.push((format!("{namespace}/{name}"), CsiError::from(e))),
        }
    }
    // The members of a group cannot go before it.
    if let Some(of) = &types.groups {
        for (namespace, name) in groups {
            if let Err(e) = (Groups { cluster, types, groups: of }).release(&namespace, &name).await {
                left.push((format!("{namespace}/{name}"), e));
            }
        }
    }
    for (namespace, name) in snapshots {
        if let Err(e) = release(cluster, types, namespace, name).await {
            left.push((format!("{namespace}/{name}"), e));
        }
    }
    left
}
