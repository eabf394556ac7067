//! Facts about a PersistentVolumeClaim.

use lifeboat_api::NamespacedName;
use lifeboat_object::{Item, Text, view};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The mode of a claim that has a device and no files.
pub(crate) const BLOCK: &str = "Block";

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace and name.
    pub key: NamespacedName,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
    /// The volume that it is bound to; `None` when its phase is not `Bound`.
    pub volume: Option<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: String,
    /// Such as `ReadWriteOnce`.
    pub access_modes: Vec<String>,
    /// Its storage class.
    pub storage_class: String,
    /// The snapshot class that its annotation `velero.io/csi-volumesnapshot-class` names; empty for none.
    pub snapshot_class: String,
    /// The class of group snapshots that its annotation `velero.io/csi-volume-group-snapshot-class` names; empty for none.
    pub group_snapshot_class: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimView {
    metadata: Option<ClaimMetadataView>,
    spec: Option<ClaimSpecView>,
    status: Option<ClaimStatusView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimMetadataView {
    uid: Text,
    annotations: Option<AnnotationsView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationsView {
    #[serde(rename = "velero.io/csi-volumesnapshot-class")]
    snapshot_class: Text,
    #[serde(rename = "velero.io/csi-volume-group-snapshot-class")]
    group_snapshot_class: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSpecView {
    volume_name: Text,
    volume_mode: Text,
    storage_class_name: Text,
    access_modes: Option<Vec<Text>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatusView {
    phase: Text,
}

impl Claim {
    /// Reads a claim; of a claim of another shape only the facts of its head are known.
    #[must_use]
    pub fn of(item: &Item) -> Self {
        let ClaimView { metadata, spec, status } = view(&item.body).unwrap_or_default();
        let (metadata, spec) = (metadata.unwrap_or_default(), spec.unwrap_or_default());
        let annotations = metadata.annotations.unwrap_or_default();
        let phase = status.unwrap_or_default().phase.0;
        Self {
            key: NamespacedName {
                namespace: item.head.namespace.clone().unwrap_or_default(),
                name: item.head.name.clone(),
            },
            uid: metadata.uid.0,
            labels: item.head.labels.clone(),
            volume: (phase == "Bound" && !spec.volume_name.0.is_empty()).then_some(spec.volume_name.0),
            phase,
            volume_mode: spec.volume_mode.0,
            access_modes: spec.access_modes.unwrap_or_default().into_iter().map(|mode| mode.0).collect(),
            storage_class: spec.storage_class_name.0,
            snapshot_class: annotations.snapshot_class.0,
            group_snapshot_class: annotations.group_snapshot_class.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ApiResource;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn of(claim: &Value) -> Claim {
        let resource = ApiResource::persistent_volume_claims();
        Claim::of(&Item::parse(Arc::new(resource), claim.to_string().into()).unwrap())
    }

    #[test]
    fn a_claim_has_a_volume_when_it_is_bound() {
        for (phase, name, expected) in [("Bound", "pv", Some("pv")), ("Pending", "pv", None), ("Bound", "", None)] {
            let claim =
                of(&json!({"metadata": {"name": "c"}, "spec": {"volumeName": name}, "status": {"phase": phase}}));
            assert_eq!((claim.volume.as_deref(), claim.phase.as_str()), (expected, phase));
        }
    }

    #[test]
    fn a_claim_says_what_policies_ask_of_it() {
        let claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u", "labels": {"a": "b"},
            "annotations": {"velero.io/csi-volumesnapshot-class": "fast", "velero.io/csi-volume-group-snapshot-class": "all", "x": 1}},
            "spec": {"volumeName": "pv", "volumeMode": "Block", "storageClassName": "gold", "accessModes": ["ReadWriteOnce"]},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        let expected = Claim {
            key: NamespacedName::new("n", "c"),
            uid: "u".into(),
            labels: BTreeMap::from([("a".into(), "b".into())]),
            phase: "Bound".into(),
            volume: Some("pv".into()),
            volume_mode: "Block".into(),
            access_modes: vec!["ReadWriteOnce".into()],
            storage_class: "gold".into(),
            snapshot_class: "fast".into(),
            group_snapshot_class: "all".into(),
        };
        assert_eq!(of(&claim), expected);
        let odd = of(&json!({"metadata": {"name": "c"}, "spec": []}));
        assert_eq!(odd.key.to_string(), "/c");
    }
}
