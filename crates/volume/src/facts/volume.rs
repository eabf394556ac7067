//! Facts about a PersistentVolume.

use super::source::SourceView;
use lifeboat_api::NamespacedName;
use lifeboat_object::{Item, Quantity, Text, view};
use lifeboat_select::VolumeFacts;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Its name.
    pub name: String,
    /// Its labels; `None` when it has none.
    pub labels: Option<BTreeMap<String, String>>,
    /// `Retain`, `Delete` or `Recycle`.
    pub reclaim_policy: String,
    /// The claim that it is bound to, or kept for.
    pub claim: Option<NamespacedName>,
    /// True when that claim is gone, and the volume stays.
    pub is_released: bool,
    /// The CSI driver's name of it; empty when it is of none.
    pub handle: String,
    /// The type of its file system as its CSI driver is told it; empty where nothing says it.
    pub fs_type: String,
    /// The facts about it for policies; without the parts of its claim.
    pub facts: VolumeFacts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PersistentVolumeView {
    metadata: Option<PersistentVolumeMetadataView>,
    spec: Option<SourceView>,
    status: Option<PersistentVolumeStatusView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PersistentVolumeStatusView {
    phase: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PersistentVolumeMetadataView {
    labels: Option<BTreeMap<String, Text>>,
}

impl PersistentVolume {
    /// Reads a volume; of a volume of another shape only the name is known.
    #[must_use]
    pub fn of(item: &Item) -> Self {
        let PersistentVolumeView { metadata, spec, status } = view(&item.body).unwrap_or_default();
        let spec = spec.unwrap_or_default();
        let mut facts = spec.facts();
        facts.capacity = Quantity::parse(&spec.capacity);
        let labels = metadata.and_then(|metadata| metadata.labels);
        let csi = spec.csi.unwrap_or_default();
        Self {
            name: item.head.name.clone(),
            labels: labels.map(|labels| labels.into_iter().map(|(label, value)| (label, value.0)).collect()),
            reclaim_policy: spec.reclaim_policy,
            claim: spec.claim_ref,
            is_released: status.is_some_and(|status| status.phase.0 == "Released"),
            handle: csi.volume_handle.0,
            fs_type: csi.fs_type.0,
            facts,
        }
    }

    /// Its CSI driver; `None` when it has none.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        self.facts.csi.as_ref().map(|(driver, _)| driver.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ApiResource;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn of(volume: &Value) -> PersistentVolume {
        let resource = ApiResource::new("", "v1", "persistentvolumes", "PersistentVolume");
        PersistentVolume::of(&Item::parse(Arc::new(resource), volume.to_string().into()).unwrap())
    }

    #[test]
    fn a_volume_says_what_policies_and_records_ask_of_it() {
        let volume = json!({"metadata": {"name": "pv", "labels": {"disk": "a"}}, "spec": {
            "capacity": {"storage": "8Mi"}, "storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "shop", "name": "data", "uid": "u"}, "nodeAffinity": {"required": {}},
            "csi": {"driver": "d", "volumeHandle": "h", "fsType": "xfs", "volumeAttributes": {"tier": "gold"}}}});
        let expected = PersistentVolume {
            name: "pv".into(),
            labels: Some(BTreeMap::from([("disk".into(), "a".into())])),
            reclaim_policy: "Delete".into(),
            claim: Some(NamespacedName::new("shop", "data")),
            is_released: false,
            handle: "h".into(),
            fs_type: "xfs".into(),
            facts: VolumeFacts {
                capacity: Quantity::parse("8Mi"),
                storage_class: "fast".into(),
                volume_type: "csi",
                csi: Some(("d".into(), BTreeMap::from([("tier".into(), "gold".into())]))),
                ..VolumeFacts::default()
            },
        };
        assert_eq!((of(&volume), of(&volume).driver()), (expected, Some("d")));
        let nfs = of(&json!({"metadata": {"name": "pv"}, "spec": {"nfs": {"server": "s", "path": "/p"}}}));
        let facts = VolumeFacts { volume_type: "nfs", nfs: Some(("s".into(), "/p".into())), ..VolumeFacts::default() };
        assert_eq!(nfs, PersistentVolume { name: "pv".into(), facts, ..PersistentVolume::default() });
        let odd = of(&json!({"metadata": {"name": "pv"}, "spec": "odd"}));
        assert_eq!(odd, PersistentVolume { name: "pv".into(), ..PersistentVolume::default() });
    }
}
