//! Claims that a restore has made from snapshots of a backup and that have no volume yet: their driver still needs the snapshots. With
//! `WaitForFirstConsumer` that may be long after the end of the restore. A claim whose VolumeSnapshot is gone gets no data from it any more,
//! and needs none.

use crate::method::csi::answer::text;
use crate::method::csi::api::{each, selected};
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::SNAPSHOT_API;
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_RESTORE_NAME};
use lifeboat_api::{NamespacedName, label_value};
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many VolumeSnapshots are asked for, one by one; what comes after them is taken to be there.
const ASKED: usize = 200;

/// The claims that were restored from the snapshots of a backup of this name and are not bound, as `<namespace>/<name>` in order. Those
/// whose VolumeSnapshot is gone are none of them.
///
/// # Errors
/// When they cannot be listed.
pub async fn unbound_claims(cluster: &Cluster, backup: &str) -> Result<Vec<String>, CsiError> {
    let claims = Arc::new(ApiResource::persistent_volume_claims());
    let selector = format!("{LABEL_RESTORE_NAME},{LABEL_BACKUP_NAME}={}", label_value(backup));
    // By the VolumeSnapshot.
    let mut by_snapshot: BTreeMap<NamespacedName, BTreeSet<String>> = BTreeMap::new();
    each(cluster, selected(&claims, selector), |claim| {
        if let Some(snapshot) = awaited(&claim) {
            let name = format!("{}/{}", text(&claim, "/metadata/namespace"), text(&claim, "/metadata/name"));
            by_snapshot.entry(snapshot).or_default().insert(name);
        }
    })
    .await?;
    let snapshots = ApiResource::new(SNAPSHOT_API, "v1", "volumesnapshots", "VolumeSnapshot");
    let mut found = BTreeSet::new();
    for (asked, (NamespacedName { namespace, name: snapshot }, claims)) in by_snapshot.into_iter().enumerate() {
        let is_there = asked >= ASKED
            || match cluster.get(&snapshots, Some(&namespace), &snapshot).await {
                Ok(there) => there.is_some(),
                // Who may not read them knows nothing of them.
                Err(e) if e.is_denied() => true,
                Err(e) => return Err(e.into()),
            };
        if is_there {
            found.extend(claims);
        }
    }
    Ok(found.into_iter().collect())
}

/// The VolumeSnapshot from which a claim waits for its data.
fn awaited(claim: &Value) -> Option<NamespacedName> {
    if text(claim, "/status/phase") != "Pending" || !claim["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let of = |field: &str| {
        let source = &claim["spec"][field];
        let is_snapshot = text(source, "/kind") == "VolumeSnapshot";
        let own = text(claim, "/metadata/namespace");
        let namespace = Some(text(source, "/namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or(own);
        is_snapshot.then(|| NamespacedName::new(namespace, text(source, "/name")))
    };
    of("dataSourceRef").or_else(|| of("dataSource"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_waits_for_the_data_of_a_snapshot_until_it_is_bound() {
        let claim = |source: Value, phase: &str| json!({"metadata": {"namespace": "n", "name": "a"}, "spec": {"dataSource": source}, "status": {"phase": phase}});
        let snapshot = json!({"kind": "VolumeSnapshot", "name": "s"});
        let of = |namespace: &str| Some(NamespacedName::new(namespace, "s"));
        assert_eq!(awaited(&claim(snapshot.clone(), "Pending")), of("n"));
        for (namespace, expected) in [(Value::Null, "n"), (json!("other"), "other")] {
            let mut by_ref = json!({"metadata": {"namespace": "n"}, "spec": {"dataSourceRef": snapshot}, "status": {"phase": "Pending"}});
            by_ref["spec"]["dataSourceRef"]["namespace"] = namespace;
            assert_eq!(awaited(&by_ref), of(expected));
        }
        for other in [
            claim(snapshot, "Bound"),
            claim(json!({"kind": "PersistentVolumeClaim", "name": "s"}), "Pending"),
            claim(Value::Null, "Pending"),
        ] {
            assert_eq!(awaited(&other), None, "{other}");
        }
    }
}
