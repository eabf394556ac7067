//! Removes the snapshots of an ended backup whose data was moved out of them.
//!
//! A data mover deletes the objects that it has taken over. What stays is of uploads that no data mover has taken up, and the groups of
//! snapshots: these go as a whole only, when the data of all members is moved.

use crate::method::csi::answer::text;
use crate::method::csi::api::{SnapshotApi, each, selected};
use crate::method::csi::at_once::some_at_once;
use crate::method::csi::backup::members::group_of;
use crate::method::csi::delete::clean::{remove, until_ended};
use crate::method::csi::delete::group_clean::Groups;
use crate::method::csi::delete::sweep::RemovalFailure;
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::{SnapshotTypes, selector};
use crate::method::data_movement::backup::uploads_of;
use futures::FutureExt;
use lifeboat_api::well_known::FINALIZER_DATA_PATH;
use lifeboat_api::{Backup, NamespacedName};
use lifeboat_cluster::Cluster;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest wait for node agents that remove what they have made from the snapshots of groups.
const CLEANING: Duration = Duration::from_secs(300);
/// The pauses between two looks at them: the first, which doubles, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// Claims of a backup whose data was moved out of their snapshots, or was to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedSnapshots {
    /// The claims whose snapshots nobody needs any more.
    pub claims: BTreeSet<NamespacedName>,
    /// The ones among them whose group has other snapshots, which stay in the storage.
    pub in_kept_groups: BTreeSet<NamespacedName>,
}

/// Removes the VolumeSnapshots of these claims that the backup has taken, and their groups, with the snapshots in the storage. Gives the
/// namespaces and names of objects that could not be removed, with the reason. Groups go when the node agents have removed the volumes that
/// they have made from members, or after a while: drivers refuse to delete a snapshot before.
///
/// # Errors
/// When they cannot be listed.
pub async fn remove_moved(
    cluster: &Cluster,
    types: &SnapshotTypes,
    backup: &Backup,
    moved: &MovedSnapshots,
) -> Result<Vec<RemovalFailure>, CsiError> {
    let api = SnapshotApi { cluster, types };
    let (mut groups, mut singles, mut members) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let backup_uid = backup.metadata.uid.as_str();
    if backup_uid.is_empty() {
        return Ok(Vec::new());
    }
    each(cluster, selected(&types.snapshots, selector(backup_uid)), |snapshot| {
        let (namespace, name) = (text(&snapshot, "/metadata/namespace"), text(&snapshot, "/metadata/name"));
        let claim = NamespacedName::new(namespace, text(&snapshot, "/spec/source/persistentVolumeClaimName"));
        if !moved.claims.contains(&claim) || moved.in_kept_groups.contains(&claim) {
            return;
        }
        match group_of(&snapshot) {
            Some(group) => {
                members.insert(claim);
                groups.insert(NamespacedName::new(namespace, group))
            }
            None => singles.insert(NamespacedName::new(namespace, name)),
        };
    })
    .await?;
    let groups = async {
        let Some(types) = types.groups.as_ref().filter(|_| !groups.is_empty()) else { return Vec::new() };
        until_cleaned_up(backup, &members, cluster).await;
        let all = Groups { api, groups: types };
        let removed = groups.iter().map(|NamespacedName { namespace, name }| {
            async move { all.remove(namespace, name).await.err().map(|e| (format!("{namespace}/{name}"), e)) }.boxed()
        });
        some_at_once(removed.collect()).await
    };
    let removed = singles.iter().map(|NamespacedName { namespace, name }| {
        let removed = async move {
            until_ended(api, namespace, name).await?;
            remove(api, namespace, name).await
        };
        async move { removed.await.err().map(|e| (format!("{namespace}/{name}"), e)) }.boxed()
    });
    let (groups, singles) = tokio::join!(groups, some_at_once(removed.collect()));
    Ok(groups.into_iter().chain(singles).flatten().collect())
}

/// Waits until node agents have removed all that they have made for the DataUploads of these claims, but not for long. Where that cannot be
/// seen nothing is waited for.
async fn until_cleaned_up(backup: &Backup, claims: &BTreeSet<NamespacedName>, cluster: &Cluster) {
    let deadline = Instant::now() + CLEANING;
    let [mut pause, longest] = PAUSES;
    loop {
        let Ok(uploads) = uploads_of(backup, cluster).await else { return };
        let is_cleaned_up = uploads.iter().all(|upload| {
            let claim = NamespacedName::new(&upload.spec.source_namespace, &upload.spec.source_pvc);
            let owes = upload.metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER_DATA_PATH);
            !owes || !claims.contains(&claim)
        });
        if is_cleaned_up || Instant::now() >= deadline {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}
