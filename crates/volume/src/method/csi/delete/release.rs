//! Takes the snapshots of a backup that has ended out of the cluster, and leaves them in the storage.

use crate::method::csi::api::SnapshotApi;
use crate::method::csi::at_once::some_at_once;
use crate::method::csi::backup::members::group_of;
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::delete::clean::release;
use crate::method::csi::delete::group_clean::Groups;
use crate::method::csi::delete::held::HeldSnapshots;
use crate::method::csi::delete::orphans::{Orphan, OrphanKind, orphans, remove};
use crate::method::csi::delete::sweep::RemovalFailure;
use crate::method::csi::objects::SnapshotTypes;
use futures::FutureExt;
use lifeboat_api::NamespacedName;
use lifeboat_cluster::Cluster;
use std::collections::BTreeSet;

/// Removes VolumeSnapshots of a backup with their contents, and the groups that they are of with all that belongs to these; leaves what
/// lies in the storage. Where some are gone, because somebody has deleted them, the contents that have kept their snapshots are removed
/// too. Gives what could not be removed, with the reason: it does no harm, and another call removes it.
///
/// Objects that the backup has begun and does not hold are left as they are: they are deleted with the backup, and
/// their snapshots with them.
pub async fn release_all(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup_uid: &str,
    held: &HeldSnapshots,
) -> Vec<RemovalFailure> {
    let api = SnapshotApi { cluster, types };
    let groups = held.snapshots.iter().map(|key @ NamespacedName { namespace, name }| {
        async move {
            let found = api.read(&types.snapshots, Some(namespace), name).await;
            let snapshot = found.map_err(|e| (format!("{namespace}/{name}"), e))?;
            Ok(group_of(&snapshot.unwrap_or_default()).map(|group| (key, group)))
        }
        .boxed()
    });
    let (mut left, mut members, mut groups_of) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for member in some_at_once(groups.collect()).await {
        match member {
            Ok(Some((member, group))) => {
                members.insert(member);
                groups_of.insert(member.beside(&group));
            }
            Ok(None) => {}
            Err(e) => left.push(e),
        }
    }
    // The members of a group cannot go before it.
    if let Some(groups) = &types.groups {
        let groups = Groups { api, groups };
        let released = groups_of.iter().map(|NamespacedName { namespace, name }| {
            async move { groups.release(namespace, name).await.err().map(|e| (format!("{namespace}/{name}"), e)) }
                .boxed()
        });
        left.extend(some_at_once(released.collect()).await.into_iter().flatten());
    }
    let released = held.snapshots.iter().map(|key @ NamespacedName { namespace, name }| {
        async move {
            let released = release(api, namespace, name).await;
            released.map(|was_there| (key, was_there)).map_err(|e| (format!("{namespace}/{name}"), e))
        }
        .boxed()
    });
    let mut are_all_there = true;
    for released in some_at_once(released.collect()).await {
        match released {
            // A member has gone with its group.
            Ok((key, was_there)) => are_all_there &= was_there || members.contains(key),
            Err(e) => left.push(e),
        }
    }
    if !are_all_there && !backup_uid.is_empty() {
        for kind in [OrphanKind::Group, OrphanKind::Snapshot] {
            left.extend(release_orphans(api, kind, backup_uid, held).await);
        }
    }
    left
}

/// Removes contents whose VolumeSnapshots, or groups, are gone, and leaves their snapshots in the storage.
async fn release_orphans(
    api: SnapshotApi<'_>,
    kind: OrphanKind,
    backup_uid: &str,
    held: &HeldSnapshots,
) -> Vec<RemovalFailure> {
    let is_held = |orphan: &Orphan| match kind {
        OrphanKind::Snapshot => held.contents.contains(orphan.name()),
        // Those of the backup were told to keep what they stand for. Any other goes, or will go, with a group that was given up.
        OrphanKind::Group => orphan.keeps(),
    };
    let mut orphans = match orphans(api, kind, backup_uid, &|| ()).await {
        Ok(orphans) => orphans,
        Err(e) => return vec![("contents of VolumeSnapshots that are gone".to_owned(), e)],
    };
    orphans.retain(is_held);
    let removed = orphans.iter().map(|orphan| {
        let removed = remove(api, orphan, DeletionPolicy::Retain);
        async move { removed.await.err().map(|e| (orphan.name().to_owned(), e)) }.boxed()
    });
    some_at_once(removed.collect()).await.into_iter().flatten().collect()
}
