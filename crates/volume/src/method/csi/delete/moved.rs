//! Removes the snapshots of an ended backup whose data was moved out of them.
//!
//! A data mover deletes the objects that it has taken over. What stays is of uploads that no data mover has taken up, and the groups of
//! snapshots: these go as a whole only, when the data of all members is moved.

use crate::facts::ClaimKey;
use crate::method::csi::answer::text;
use crate::method::csi::api::{SnapshotApi, each, selected};
use crate::method::csi::at_once::some_at_once;
use crate::method::csi::backup::members::group_of;
use crate::method::csi::delete::clean::{remove, until_ended};
use crate::method::csi::delete::group_clean::Groups;
use crate::method::csi::delete::sweep::RemovalFailure;
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::{SnapshotTypes, selector};
use futures::FutureExt;
use lifeboat_cluster::Cluster;
use std::collections::BTreeSet;

/// Claims of a backup whose data was moved out of their snapshots, or was to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedSnapshots {
    /// The claims whose snapshots nobody needs any more.
    pub claims: BTreeSet<ClaimKey>,
    /// The ones among them whose group has other snapshots, which stay in the storage.
    pub in_kept_groups: BTreeSet<ClaimKey>,
}

/// Removes the VolumeSnapshots of these claims that the backup has taken, and their groups, with the snapshots in the storage. Gives the
/// namespaces and names of objects that could not be removed, with the reason.
///
/// # Errors
/// When they cannot be listed.
pub async fn remove_moved(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup_uid: &str,
    moved: &MovedSnapshots,
) -> Result<Vec<RemovalFailure>, CsiError> {
    let api = SnapshotApi { cluster, types };
    let (mut groups, mut singles) = (BTreeSet::new(), BTreeSet::new());
    if backup_uid.is_empty() {
        return Ok(Vec::new());
    }
    each(cluster, selected(&types.snapshots, selector(backup_uid)), |snapshot| {
        let (namespace, name) = (text(&snapshot, "/metadata/namespace"), text(&snapshot, "/metadata/name"));
        let claim = ClaimKey {
            namespace: namespace.to_owned(),
            name: text(&snapshot, "/spec/source/persistentVolumeClaimName").to_owned(),
        };
        if !moved.claims.contains(&claim) || moved.in_kept_groups.contains(&claim) {
            return;
        }
        match group_of(&snapshot) {
            Some(group) => groups.insert((namespace.to_owned(), group)),
            None => singles.insert((namespace.to_owned(), name.to_owned())),
        };
    })
    .await?;
    let mut left = Vec::new();
    if let Some(types) = &types.groups {
        let all = Groups { api, groups: types };
        let removed = groups.iter().map(|(namespace, name)| {
            async move { all.remove(namespace, name).await.err().map(|e| (format!("{namespace}/{name}"), e)) }.boxed()
        });
        left.extend(some_at_once(removed.collect()).await.into_iter().flatten());
    }
    let removed = singles.iter().map(|(namespace, name)| {
        let removed = async move {
            until_ended(api, namespace, name).await?;
            remove(api, namespace, name).await
        };
        async move { removed.await.err().map(|e| (format!("{namespace}/{name}"), e)) }.boxed()
    });
    left.extend(some_at_once(removed.collect()).await.into_iter().flatten());
    Ok(left)
}
