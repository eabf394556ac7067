//! The claim of a pod's volume.

use serde_json::Value;
use std::borrow::Cow;

/// The fields of a pod's volume that say which claim it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeClaim<'v> {
    /// The name of the volume.
    pub volume: &'v str,
    /// Its `claimName`; empty when it names none.
    pub claim_name: &'v str,
    /// True for a generic ephemeral volume.
    pub is_ephemeral: bool,
}

impl<'v> VolumeClaim<'v> {
    /// The name of the claim in a pod of this name: the `claimName`, or `<pod>-<volume>` for a generic ephemeral volume. `None` for
    /// other volumes.
    #[must_use]
    pub fn name(self, pod_name: &str) -> Option<Cow<'v, str>> {
        match self {
            Self { claim_name, .. } if !claim_name.is_empty() => Some(claim_name.into()),
            Self { volume, is_ephemeral: true, .. } => Some(format!("{pod_name}-{volume}").into()),
            Self { .. } => None,
        }
    }
}

/// The name of the claim of a pod's volume: its `claimName`, or `<pod>-<volume>` for a generic ephemeral volume. `None` for other
/// volumes.
#[must_use]
pub fn claim_of_volume<'v>(pod_name: &str, volume: &'v Value) -> Option<Cow<'v, str>> {
    let claim = VolumeClaim {
        volume: volume["name"].as_str().unwrap_or_default(),
        claim_name: volume["persistentVolumeClaim"]["claimName"].as_str().unwrap_or_default(),
        is_ephemeral: is_ephemeral(volume),
    };
    claim.name(pod_name)
}

/// Returns true if a volume of a pod is a generic ephemeral one.
#[must_use]
pub fn is_ephemeral(volume: &Value) -> bool {
    volume["ephemeral"].is_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_volume_names_its_claim_or_its_claim_has_the_names_of_pod_and_volume() {
        for (volume, expected) in [
            (json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}}), Some("data")),
            (json!({"name": "v", "persistentVolumeClaim": {"claimName": ""}}), None),
            (json!({"name": "v", "persistentVolumeClaim": {"claimName": 1}}), None),
            (json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}), Some("web-v")),
            (json!({"name": "v", "ephemeral": null}), None),
            (json!({"name": "v", "emptyDir": {}}), None),
            (json!("odd"), None),
        ] {
            assert_eq!(claim_of_volume("web", &volume).as_deref(), expected, "{volume}");
        }
    }
}
