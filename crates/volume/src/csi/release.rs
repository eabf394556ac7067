//! Takes the snapshots of a backup that has ended out of the cluster, and leaves them in the storage.

use super::answer::text;
use super::at::At;
use super::clean::{release, remove_orphan};
use super::error::CsiError;
use super::group_clean::Groups;
use super::members::group_of;
use super::objects::SnapshotTypes;
use super::orphans::{Orphan, orphans};
use super::sweep::Left;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lifeboat_cluster::Cluster;
use std::collections::BTreeSet;

/// Objects that are released at once.
const AT_ONCE: usize = 16;

/// Removes VolumeSnapshots of a backup, by namespace and name, with their contents, and the groups that they are of with all that
/// belongs to these; leaves what lies in the storage. Where some are gone, because somebody has deleted them, the contents of the backup that
/// have none are removed too. Gives what could not be removed, with the reason: it does no harm, and another call removes it.
pub async fn release_all(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup_uid: &str,
    snapshots: &[(String, String)],
) -> Vec<Left> {
    let at = At { cluster, types };
    let groups = snapshots.iter().map(|(namespace, name)| {
        async move {
            let found = at.read(&types.snapshots, Some(namespace), name).await;
            let snapshot = found.map_err(|e| (format!("{namespace}/{name}"), e))?;
            Ok(group_of(&snapshot.unwrap_or_default()).map(|group| (namespace.clone(), group)))
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
        let groups = Groups { at, groups: of };
        let released = groups_of.iter().map(|(namespace, name)| {
            async move { groups.release(namespace, name).await.err().map(|e| (format!("{namespace}/{name}"), e)) }
                .boxed()
        });
        left.extend(some_at_once(released.collect()).await.into_iter().flatten());
    }
    let released = snapshots.iter().map(|(namespace, name)| {
        async move { release(at, namespace, name).await.map_err(|e| (format!("{namespace}/{name}"), e)) }.boxed()
    });
    let mut are_all_there = true;
    for released in some_at_once(released.collect()).await {
        match released {
            Ok(was_there) => are_all_there &= was_there,
            Err(e) => left.push(e),
        }
    }
    if !are_all_there && !backup_uid.is_empty() {
        left.extend(release_orphans(at, backup_uid).await);
    }
    left
}

/// Removes contents whose VolumeSnapshots are gone, or whose groups, and leaves what they stand for.
async fn release_orphans(at: At<'_>, backup_uid: &str) -> Vec<Left> {
    let unknown = |e: CsiError| ("contents of VolumeSnapshots that are gone".to_owned(), e);
    let mut left = Vec::new();
    if let Some(of) = &at.types.groups {
        let groups = Groups { at, groups: of };
        match groups.orphans(backup_uid).await {
            Ok(orphans) => {
                let removed = orphans.iter().map(|content| {
                    let name = text(content, "/metadata/name").to_owned();
                    async move { groups.remove_content(content, "Retain").await.err().map(|e| (name, e)) }.boxed()
                });
                left.extend(some_at_once(removed.collect()).await.into_iter().flatten());
            }
            Err(e) => left.push(unknown(e)),
        }
    }
    match orphans(at, backup_uid).await {
        Ok(orphans) => {
            let removed = orphans.iter().map(|Orphan { content, .. }| {
                async move { remove_orphan(at, content, "Retain").await.err().map(|e| (content.clone(), e)) }.boxed()
            });
            left.extend(some_at_once(removed.collect()).await.into_iter().flatten());
        }
        Err(e) => left.push(unknown(e)),
    }
    left
}

/// What these come to, in any order. Their type is named, since the compiler does not see otherwise that they can be sent.
async fn some_at_once<T>(works: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    futures::stream::iter(works).buffer_unordered(AT_ONCE).collect().await
}
