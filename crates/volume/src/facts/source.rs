//! The source of a volume: the one field of its spec that says what holds its data.

use lifeboat_api::NamespacedName;
use lifeboat_object::Text;
use lifeboat_select::{VolumeFacts, volume_type};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// The source of a volume of a pod, or of a PersistentVolume, and its other fields that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceView {
    /// The field that names the source, such as `csi`; empty when there is none that is known.
    pub(crate) volume_type: &'static str,
    pub(crate) nfs: Option<NfsView>,
    pub(crate) csi: Option<CsiView>,
    /// The name of a volume of a pod.
    pub(crate) name: String,
    /// The claim that a volume of a pod names.
    pub(crate) claim: Option<String>,
    /// True for a generic ephemeral volume of a pod.
    pub(crate) is_ephemeral: bool,
    pub(crate) storage_class: String,
    pub(crate) reclaim_policy: String,
    pub(crate) capacity: String,
    /// The claim of a PersistentVolume.
    pub(crate) claim_ref: Option<NamespacedName>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct NfsView {
    pub(crate) server: Text,
    pub(crate) path: Text,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CsiView {
    pub(crate) driver: Text,
    pub(crate) volume_handle: Text,
    pub(crate) volume_attributes: Option<BTreeMap<String, Text>>,
    pub(crate) fs_type: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimOfPodView {
    claim_name: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CapacityView {
    storage: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimRefView {
    namespace: Text,
    name: Text,
}

impl SourceView {
    /// The facts about the source for policies.
    pub(crate) fn facts(&self) -> VolumeFacts {
        let csi = |csi: &CsiView| {
            let attributes = csi.volume_attributes.iter().flatten();
            (csi.driver.0.clone(), attributes.map(|(key, value)| (key.clone(), value.0.clone())).collect())
        };
        VolumeFacts {
            volume_type: self.volume_type,
            nfs: self.nfs.as_ref().map(|nfs| (nfs.server.0.clone(), nfs.path.0.clone())),
            csi: self.csi.as_ref().map(csi),
            storage_class: self.storage_class.clone(),
            ..VolumeFacts::default()
        }
    }
}

impl<'de> Deserialize<'de> for SourceView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SourceVisitor)
    }
}

struct SourceVisitor;

impl<'de> Visitor<'de> for SourceVisitor {
    type Value = SourceView;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a volume")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<SourceView, A::Error> {
        let mut out = SourceView::default();
        while let Some(field) = fields.next_key::<String>()? {
            out.volume_type = volume_type(&field).unwrap_or(out.volume_type);
            match field.as_str() {
                "name" => out.name = fields.next_value::<Text>()?.0,
                "nfs" => out.nfs = fields.next_value()?,
                "csi" => out.csi = fields.next_value()?,
                "storageClassName" => out.storage_class = fields.next_value::<Text>()?.0,
                "persistentVolumeReclaimPolicy" => out.reclaim_policy = fields.next_value::<Text>()?.0,
                "capacity" => {
                    out.capacity = fields.next_value::<Option<CapacityView>>()?.unwrap_or_default().storage.0;
                }
                "persistentVolumeClaim" => {
                    let claim: Option<ClaimOfPodView> = fields.next_value()?;
                    out.claim = claim.map(|claim| claim.claim_name.0).filter(|name| !name.is_empty());
                }
                "ephemeral" => out.is_ephemeral = fields.next_value::<Option<IgnoredAny>>()?.is_some(),
                "claimRef" => {
                    let claim = fields.next_value::<Option<ClaimRefView>>()?.unwrap_or_default();
                    let name = NamespacedName { namespace: claim.namespace.0, name: claim.name.0 };
                    out.claim_ref = Some(name).filter(|claim| !claim.name.is_empty());
                }
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(out)
    }
}
