//! Removes objects that a backup has begun and nobody will use: snapshots of a cancelled or failed backup, or of an
//! earlier attempt.

use crate::method::csi::answer::text;
use crate::method::csi::api::{SnapshotApi, each, selected};
use crate::method::csi::at_once::some_at_once;
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::delete::clean::{remove, until_ended};
use crate::method::csi::delete::group_clean::Groups;
use crate::method::csi::delete::orphans::{self, Orphan, OrphanKind, orphans};
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::{GroupTypes, SnapshotTypes, selector};
use futures::FutureExt;
use lifeboat_api::NamespacedName;
use lifeboat_cluster::{Cluster, ListRequest};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An object that could not be removed, by name, and the reason.
pub type RemovalFailure = (String, CsiError);

/// Removes all VolumeSnapshots and VolumeGroupSnapshots of a backup, but those that are to be kept, with their
/// snapshots in the storage; also the contents of those that somebody else has deleted. Gives the namespaces and names
/// of objects that could not be removed, with the reason. Calls `step` after each object that was removed or asked
/// about, whatever the result.
///
/// # Errors
/// When some cannot be listed; the others are removed all the same.
pub async fn remove_all(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup_uid: &str,
    is_kept: impl Fn(&NamespacedName) -> bool + Sync,
    step: &(dyn Fn() + Sync),
) -> Result<Vec<RemovalFailure>, CsiError> {
    if backup_uid.is_empty() {
        // Its label would select the snapshots of others that have none.
        return Ok(Vec::new());
    }
    let api = SnapshotApi { cluster, types };
    let of = SweptBackup { backup_uid, is_kept: &is_kept, step };
    // The members of a group go with it, and cannot go before it.
    let groups = match &types.groups {
        Some(groups) => remove_groups(api, groups, of).await,
        None => Ok(Vec::new()),
    };
    let snapshots = remove_snapshots(api, of).await;
    let mut left = groups?;
    left.extend(snapshots?);
    Ok(left)
}

/// The backup whose objects are removed, and the objects that are kept.
#[derive(Clone, Copy)]
struct SweptBackup<'a> {
    backup_uid: &'a str,
    is_kept: &'a (dyn Fn(&NamespacedName) -> bool + Sync),
    step: &'a (dyn Fn() + Sync),
}

async fn remove_groups(
    api: SnapshotApi<'_>,
    groups: &GroupTypes,
    of: SweptBackup<'_>,
) -> Result<Vec<RemovalFailure>, CsiError> {
    let all_groups = Groups { api, groups };
    let mut found = objects_of_backup(api, &groups.groups, of.backup_uid).await?;
    found.retain(|object| !(of.is_kept)(object));
    let removed = found.iter().map(|NamespacedName { namespace, name }| {
        async move {
            let removed = all_groups.remove(namespace, name).await;
            (of.step)();
            removed.err().map(|e| (format!("{namespace}/{name}"), e))
        }
        .boxed()
    });
    let mut left: Vec<RemovalFailure> = some_at_once(removed.collect()).await.into_iter().flatten().collect();
    // Contents that the controller has made of a group while that was deleted, by a process that died then, and those that were to keep
    // what they stand for when their group was deleted.
    left.extend(remove_orphans(api, OrphanKind::Group, of).await?);
    Ok(left)
}

async fn remove_snapshots(api: SnapshotApi<'_>, of: SweptBackup<'_>) -> Result<Vec<RemovalFailure>, CsiError> {
    let mut found = objects_of_backup(api, &api.types.snapshots, of.backup_uid).await?;
    found.retain(|object| !(of.is_kept)(object));
    let removed = found.iter().map(|NamespacedName { namespace, name }| {
        let removed = async move {
            until_ended(api, namespace, name).await?;
            remove(api, namespace, name).await
        };
        async move {
            let removed = removed.await;
            (of.step)();
            removed.err().map(|e| (format!("{namespace}/{name}"), e))
        }
        .boxed()
    });
    let mut left: Vec<RemovalFailure> = some_at_once(removed.collect()).await.into_iter().flatten().collect();
    // Contents whose VolumeSnapshots are gone, such as with their namespace.
    left.extend(remove_orphans(api, OrphanKind::Snapshot, of).await?);
    Ok(left)
}

/// Removes contents that keep their snapshots though their VolumeSnapshot or group is gone.
async fn remove_orphans(
    api: SnapshotApi<'_>,
    kind: OrphanKind,
    of: SweptBackup<'_>,
) -> Result<Vec<RemovalFailure>, CsiError> {
    let mut orphans = orphans(api, kind, of.backup_uid, of.step).await?;
    let is_kept = |orphan: &Orphan| {
        let gone = orphan.reference();
        (of.is_kept)(&NamespacedName::new(gone.namespace, gone.name))
    };
    // What has taken the place of the object that is gone, has another content.
    orphans.retain(|orphan| orphan.is_replaced || !is_kept(orphan));
    let removed = orphans.iter().map(|orphan| {
        async move {
            let removed = orphans::remove(api, orphan, DeletionPolicy::Delete).await;
            (of.step)();
            removed.err().map(|e| (orphan.name().to_owned(), e))
        }
        .boxed()
    });
    Ok(some_at_once(removed.collect()).await.into_iter().flatten().collect())
}

/// The objects of a type that say that they are of a backup.
async fn objects_of_backup(
    api: SnapshotApi<'_>,
    resource: &Arc<ApiResource>,
    backup_uid: &str,
) -> Result<Vec<NamespacedName>, CsiError> {
    found(api, resource, backup_uid, None).await
}

/// Counts the VolumeSnapshots, their contents, and the VolumeGroupSnapshots in the cluster whose labels name this
/// backup.
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
        count += objects_of_backup(SnapshotApi { cluster, types }, resource, backup_uid).await?.len();
    }
    Ok(count)
}

/// The VolumeSnapshots and VolumeGroupSnapshots of a backup that no driver has taken yet.
///
/// # Errors
/// When they cannot be listed.
pub async fn untaken(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup_uid: &str,
) -> Result<BTreeSet<NamespacedName>, CsiError> {
    let mut all = BTreeSet::new();
    if backup_uid.is_empty() {
        return Ok(all);
    }
    let is_untaken = |object: &Value| text(object, "/status/creationTime").is_empty();
    let groups = types.groups.as_ref().map(|groups| &groups.groups);
    for resource in groups.into_iter().chain([&types.snapshots]) {
        all.extend(found(SnapshotApi { cluster, types }, resource, backup_uid, Some(is_untaken)).await?);
    }
    Ok(all)
}

/// The objects of a type that say that they are of a backup; of some of them only, where it depends on more
/// than that.
async fn found(
    api: SnapshotApi<'_>,
    resource: &Arc<ApiResource>,
    backup_uid: &str,
    is_wanted: Option<fn(&Value) -> bool>,
) -> Result<Vec<NamespacedName>, CsiError> {
    let request = ListRequest { metadata_only: is_wanted.is_none(), ..selected(resource, selector(backup_uid)) };
    let mut found = Vec::new();
    each(api.cluster, request, |object| {
        if is_wanted.is_none_or(|is_wanted| is_wanted(&object)) {
            found.extend(name_of(&object));
        }
    })
    .await?;
    Ok(found)
}

fn name_of(object: &Value) -> Option<NamespacedName> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    Some(NamespacedName::new(text("/metadata/namespace")?, text("/metadata/name")?))
}
