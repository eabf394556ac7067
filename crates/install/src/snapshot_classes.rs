//! Looks whether CSI drivers of a cluster can take snapshots that its server would not ask for.

use crate::installation::Installation;
use lifeboat_api::Features;
use lifeboat_cluster::{Cluster, ListRequest};
use lifeboat_object::{GroupResource, first_names};
use serde_json::Value;
use std::collections::BTreeSet;

/// The warning about CSI drivers whose snapshots the server will not take: `None` when it takes them, or restores only,
/// and when there are none as far as the cluster can be read.
pub async fn unused_snapshot_classes(cluster: &Cluster, installation: &Installation) -> Option<String> {
    if Features::parse(&installation.server.features).csi || installation.server.restore_only {
        return None;
    }
    // Who may not look learns it from the first backup.
    let catalog = cluster.discover().await.ok()?;
    let resource = catalog.find(&GroupResource::new("snapshot.storage.k8s.io", "volumesnapshotclasses"))?;
    let mut list = cluster.list(ListRequest::all(resource.clone()));
    let mut classes: Vec<Value> = Vec::new();
    while let Ok(Some(bodies)) = list.next().await {
        classes.extend(bodies.iter().filter_map(|body| serde_json::from_slice(body).ok()));
    }
    describe(&classes)
}

fn describe(classes: &[Value]) -> Option<String> {
    let drivers: BTreeSet<&str> = classes.iter().filter_map(|class| class["driver"].as_str()).collect();
    let drivers: Vec<String> = drivers.into_iter().map(str::to_owned).collect();
    (!drivers.is_empty()).then(|| {
        format!(
            "the CSI drivers of this cluster can take snapshots ({}), and the server is installed without --features=EnableCSI: it will not save \
             the data of their volumes",
            first_names(&drivers)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_installs_without_csi_is_told_which_drivers_would_take_snapshots() {
        assert_eq!(describe(&[]), None);
        let class = |driver: &str| json!({"kind": "VolumeSnapshotClass", "driver": driver});
        let text = describe(&[class("b.example"), class("a.example"), class("b.example")]).unwrap();
        assert!(
            text.starts_with("the CSI drivers of this cluster can take snapshots (a.example, b.example), "),
            "{text}"
        );
    }
}
