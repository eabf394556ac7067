//! Tells whether a cluster serves snapshots, where a wrong "no" would lose some.
//!
//! [`SnapshotTypes::of`] takes the result of one discovery. An API server that has just begun to answer lacks types
//! that are there, and a server with a broken part names them as failures.

use super::error::CsiError;
use super::objects::{GROUP_SNAPSHOT_API, SNAPSHOT_API, SnapshotTypes};
use lifeboat_cluster::{Cluster, ListRequest};
use lifeboat_object::{ApiResource, Catalog};
use std::sync::Arc;

/// The types of snapshots that a cluster serves; `None` when it certainly serves none.
///
/// # Errors
/// [`CsiError::NotKnown`] when that is not certain, [`CsiError::Cluster`] when there was no discovery: ask again later.
pub async fn served(cluster: &Cluster) -> Result<Option<SnapshotTypes>, CsiError> {
    let catalog = cluster.discover().await?;
    Box::pin(served_by(cluster, &catalog)).await
}

/// The same, of a cluster that was discovered before.
///
/// # Errors
/// [`CsiError::NotKnown`].
pub async fn served_by(cluster: &Cluster, catalog: &Catalog) -> Result<Option<SnapshotTypes>, CsiError> {
    let types = discovered(catalog)?;
    if types.is_none() {
        confirm_absence(cluster).await?;
    }
    Ok(types)
}

/// The types of snapshots in the result of a discovery.
fn discovered(catalog: &Catalog) -> Result<Option<SnapshotTypes>, CsiError> {
    let types = SnapshotTypes::of(catalog);
    let lacks = |group: &str| match &types {
        None => group == SNAPSHOT_API || group == GROUP_SNAPSHOT_API,
        Some(types) => group == GROUP_SNAPSHOT_API && types.groups.is_none(),
    };
    for failure in &catalog.failures {
        let group = failure.group_version.split('/').next().unwrap_or_default();
        if lacks(group) {
            return Err(CsiError::NotKnown { group: group.to_owned(), why: failure.message.clone() });
        }
    }
    Ok(types)
}

/// Asks for VolumeSnapshots although the discovery has none: an API server that does not know its definitions yet says so, and one
/// without them answers that there is no such type. Who may not ask has taken none.
async fn confirm_absence(cluster: &Cluster) -> Result<(), CsiError> {
    let resource = Arc::new(ApiResource::new(SNAPSHOT_API, "v1", "volumesnapshots", "VolumeSnapshot"));
    let mut list = cluster.list(ListRequest::all(resource).metadata_only());
    let why = match list.next().await {
        Err(e) if e.is_not_found() || e.is_denied() => return Ok(()),
        Err(e) => e.to_string(),
        Ok(_) => "the API server answers for it, but does not name it among its types just now".to_owned(),
    };
    Err(CsiError::NotKnown { group: SNAPSHOT_API.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::DiscoveryFailure;

    #[test]
    fn a_missing_type_is_not_absent_when_its_group_did_not_answer() {
        let single = ["volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses"];
        let groups = ["volumegroupsnapshots", "volumegroupsnapshotcontents", "volumegroupsnapshotclasses"];
        let of = |group: &str, names: [&str; 3]| names.map(|name| Arc::new(ApiResource::new(group, "v1", name, "Any")));
        let (single, groups) = (of(SNAPSHOT_API, single), of(GROUP_SNAPSHOT_API, groups));
        let both = [single.clone(), groups].concat();
        let (ours, theirs) = ("snapshot.storage.k8s.io/v1", "groupsnapshot.storage.k8s.io/v1beta2");
        // Whether single ones are there, and groups; or the group that is not known.
        let known = |single, groups| Ok((single, groups));
        for (types, failure, expected) in [
            (both.as_slice(), "metrics.k8s.io/v1beta1", known(true, true)),
            (both.as_slice(), "snapshot.storage.k8s.io/v1beta1", known(true, true)),
            (both.as_slice(), "groupsnapshot.storage.k8s.io/v1beta1", known(true, true)),
            (single.as_slice(), "metrics.k8s.io/v1beta1", known(true, false)),
            (single.as_slice(), theirs, Err(GROUP_SNAPSHOT_API)),
            (&[], "metrics.k8s.io/v1beta1", known(false, false)),
            (&[], ours, Err(SNAPSHOT_API)),
            (&[], theirs, Err(GROUP_SNAPSHOT_API)),
        ] {
            let failures = vec![DiscoveryFailure { group_version: failure.to_owned(), message: "silent".to_owned() }];
            let found = discovered(&Catalog::new(types.to_vec(), failures));
            let found = found
                .map(|types| (types.is_some(), types.is_some_and(|types| types.groups.is_some())))
                .map_err(|e| e.to_string());
            let expected =
                expected.map_err(|group| format!("it is not known whether the cluster serves {group}: silent"));
            assert_eq!(found, expected, "{failure}");
        }
    }
}
