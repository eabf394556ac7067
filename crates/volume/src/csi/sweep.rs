//! Removes what a backup has begun and nobody will use: snapshots of a cancelled one, of one that failed, of an attempt before.

use super::answer::text;
use super::at::{At, selected};
use super::clean::{remove, remove_orphan, until_ended};
use super::error::CsiError;
use super::group_clean::Groups;
use super::objects::{GroupTypes, SnapshotTypes, selector};
use super::orphans::{Orphan, orphans};
use futures::StreamExt;
use lifeboat_cluster::{Cluster, ClusterError, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Objects that are cleaned up at once.
const AT_ONCE: usize = 16;

/// What could not be removed, by name, and why.
pub type Left = (String, CsiError);

/// Removes all VolumeSnapshots and VolumeGroupSnapshots of a backup, but those that are to be kept, and what they stand for in the
/// storage; also the contents of those that somebody else has deleted. Gives the namespaces and names of those that could not be, with the reason. Calls `step` after each, whatever came of it.
///
/// # Errors
/// When some cannot be listed; the others are removed all the same.
pub async fn remove_all(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup_uid: &str,
    is_kept: impl Fn(&str, &str) -> bool + Sync,
    step: &(dyn Fn() + Sync),
) -> Result<Vec<Left>, CsiError> {
    if backup_uid.is_empty() {
        // Its label would select the snapshots of others that have none.
        return Ok(Vec::new());
    }
    let at = At { cluster, types };
    let of = Of { backup_uid, is_kept: &is_kept, step };
    // The members of a group go with it, and cannot go before it.
    let groups = match &types.groups {
        Some(groups) => remove_groups(at, groups, of).await,
        None => Ok(Vec::new()),
    };
    let mut found = objects_of_backup(at, &types.snapshots, backup_uid).await?;
    found.retain(|(namespace, name)| !is_kept(namespace, name));
    let removed = found.into_iter().map(|(namespace, name)| async move {
        let removed = async {
            until_ended(at, &namespace, &name).await?;
            remove(at, &namespace, &name).await
        };
        let removed = removed.await;
        step();
        removed.err().map(|e| (format!("{namespace}/{name}"), e))
    });
    let removed: Vec<Option<Left>> = futures::stream::iter(removed).buffer_unordered(AT_ONCE).collect().await;
    let orphans = remove_orphans(at, of).await;
    let mut left = groups?;
    left.extend(removed.into_iter().flatten());
    left.extend(orphans?);
    Ok(left)
}

/// Of which backup what is removed, and what not.
#[derive(Clone, Copy)]
struct Of<'a> {
    backup_uid: &'a str,
    is_kept: &'a (dyn Fn(&str, &str) -> bool + Sync),
    step: &'a (dyn Fn() + Sync),
}

async fn remove_groups(at: At<'_>, groups: &GroupTypes, of: Of<'_>) -> Result<Vec<Left>, CsiError> {
    let all_groups = Groups { at, groups };
    let mut found = objects_of_backup(at, &groups.groups, of.backup_uid).await?;
    found.retain(|(namespace, name)| !(of.is_kept)(namespace, name));
    let removed = found.into_iter().map(|(namespace, name)| async move {
        let removed = all_groups.remove(&namespace, &name).await;
        (of.step)();
        removed.err().map(|e| (format!("{namespace}/{name}"), e))
    });
    let mut left = Vec::new();
    let mut removed = futures::stream::iter(removed).buffer_unordered(AT_ONCE);
    while let Some(one) = removed.next().await {
        left.extend(one);
    }
    // Contents that the controller has made of a group while that was deleted, by a process that died then, and those that were to keep
    // what they stand for when their group was deleted.
    for content in all_groups.orphans(of.backup_uid).await? {
        let reference = |field: &str| text(&content, &format!("/spec/volumeGroupSnapshotRef/{field}"));
        if (of.is_kept)(reference("namespace"), reference("name")) {
            continue;
        }
        if let Err(e) = all_groups.remove_content(&content, "Delete").await {
            left.push((text(&content, "/metadata/name").to_owned(), e));
        }
    }
    Ok(left)
}

/// Contents of a backup whose VolumeSnapshots are gone, such as with their namespace: they keep what they stand for.
async fn remove_orphans(at: At<'_>, of: Of<'_>) -> Result<Vec<Left>, CsiError> {
    let orphans = orphans(at, of.backup_uid).await?;
    let unwanted = orphans.into_iter().filter(|one| one.is_replaced || !(of.is_kept)(&one.namespace, &one.snapshot));
    let removed = unwanted.map(|Orphan { content, .. }| async move {
        let removed = remove_orphan(at, &content, "Delete").await;
        (of.step)();
        removed.err().map(|e| (content, e))
    });
    let removed: Vec<Option<Left>> = futures::stream::iter(removed).buffer_unordered(AT_ONCE).collect().await;
    Ok(removed.into_iter().flatten().collect())
}

/// Namespaces and names of the objects of a type that say that they are of a backup.
async fn objects_of_backup(
    at: At<'_>,
    resource: &Arc<ApiResource>,
    backup_uid: &str,
) -> Result<Vec<(String, String)>, ClusterError> {
    found(at, resource, backup_uid, None).await
}

/// How many VolumeSnapshots, their contents, and VolumeGroupSnapshots in the cluster say that they are of a backup.
///
/// # Errors
/// When they cannot be listed.
pub async fn count(cluster: &Cluster, types: &SnapshotTypes, backup_uid: &str) -> Result<usize, CsiError> {
    if backup_uid.is_empty() {
        return Ok(0);
    }
    let mut count = 0;
    let groups = types.groups.as_ref().map(|groups| &groups.groups);
    for resource in groups.into_iter().chain([&types.snapshots, &types.contents]) {
        count += objects_of_backup(At { cluster, types }, resource, backup_uid).await?.len();
    }
    Ok(count)
}

/// Namespaces and names of the VolumeSnapshots and VolumeGroupSnapshots of a backup that no driver has taken yet.
///
/// # Errors
/// When they cannot be listed.
pub async fn untaken(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup_uid: &str,
) -> Result<BTreeSet<(String, String)>, CsiError> {
    let mut all = BTreeSet::new();
    if backup_uid.is_empty() {
        return Ok(all);
    }
    let is_untaken = |object: &Value| text(object, "/status/creationTime").is_empty();
    let groups = types.groups.as_ref().map(|groups| &groups.groups);
    for resource in groups.into_iter().chain([&types.snapshots]) {
        all.extend(found(At { cluster, types }, resource, backup_uid, Some(is_untaken)).await?);
    }
    Ok(all)
}

/// Namespaces and names of the objects of a type that say that they are of a backup; of some of them only, where it depends on more
/// than that.
async fn found(
    at: At<'_>,
    resource: &Arc<ApiResource>,
    backup_uid: &str,
    is_wanted: Option<fn(&Value) -> bool>,
) -> Result<Vec<(String, String)>, ClusterError> {
    let request = ListRequest { metadata_only: is_wanted.is_none(), ..selected(resource, selector(backup_uid)) };
    let mut found = Vec::new();
    at.list(request, |object| {
        if is_wanted.is_none_or(|is_wanted| is_wanted(&object)) {
            found.extend(names(&object));
        }
    })
    .await?;
    Ok(found)
}

fn names(object: &Value) -> Option<(String, String)> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Some((text("/metadata/namespace")?, text("/metadata/name")?))
}
