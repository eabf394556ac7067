//! Claims that a restore has made from snapshots of a backup and that have no volume yet: their driver still needs the snapshots. With
//! `WaitForFirstConsumer` that may be long after the end of the restore.

use super::answer::text;
use super::api::{each, selected};
use super::error::CsiError;
use lifeboat_api::label_value;
use lifeboat_api::well_known::{LABEL_BACKUP_NAME, LABEL_RESTORE_NAME};
use lifeboat_cluster::Cluster;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::sync::Arc;

/// The claims that were restored from the snapshots of a backup of this name and are not bound, as `<namespace>/<name>` in order.
///
/// # Errors
/// When they cannot be listed.
pub async fn unbound_claims(cluster: &Cluster, backup: &str) -> Result<Vec<String>, CsiError> {
    let claims = Arc::new(ApiResource::persistent_volume_claims());
    let selector = format!("{LABEL_RESTORE_NAME},{LABEL_BACKUP_NAME}={}", label_value(backup));
    let mut found = Vec::new();
    each(cluster, selected(&claims, selector), |claim| {
        if waits(&claim) {
            found.push(format!("{}/{}", text(&claim, "/metadata/namespace"), text(&claim, "/metadata/name")));
        }
    })
    .await?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn waits(claim: &Value) -> bool {
    let is_from_snapshot = ["dataSource", "dataSourceRef"]
        .iter()
        .any(|field| text(claim, &format!("/spec/{field}/kind")) == "VolumeSnapshot");
    is_from_snapshot && text(claim, "/status/phase") == "Pending" && claim["metadata"]["deletionTimestamp"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_waits_for_the_data_of_a_snapshot_until_it_is_bound() {
        let claim = |source: Value, phase: &str| json!({"metadata": {"name": "a"}, "spec": {"dataSource": source}, "status": {"phase": phase}});
        let snapshot = json!({"kind": "VolumeSnapshot", "name": "s"});
        assert!(waits(&claim(snapshot.clone(), "Pending")));
        let by_ref = json!({"spec": {"dataSourceRef": snapshot}, "status": {"phase": "Pending"}});
        assert!(waits(&by_ref));
        for other in [
            claim(snapshot, "Bound"),
            claim(json!({"kind": "PersistentVolumeClaim", "name": "s"}), "Pending"),
            claim(Value::Null, "Pending"),
        ] {
            assert!(!waits(&other), "{other}");
        }
    }
}
