//! The pods of the backup that mount claims, for movers that have to run where those pods can run.

use lifeboat_api::NamespacedName;
use lifeboat_object::ObjectKey;
use lifeboat_volume::facts::{claim_of_volume, name_of_object};
use serde_json::Value;
use std::collections::BTreeMap;

/// The first pod of each claim, by name, of those that the restore makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountingPods(BTreeMap<NamespacedName, MountingPod>);

/// A pod of the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountingPod {
    pub(crate) name: String,
    /// Its number among the rows of the archive.
    pub(crate) row: usize,
}

impl MountingPods {
    /// Notes the claims of a pod of this row.
    pub(crate) fn note(&mut self, key: &ObjectKey, row: usize, pod: &Value) {
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let Some(claim) = claim_of_volume(&key.name, volume) else { continue };
            let claim = name_of_object(key).beside(&claim);
            let is_first = self.0.get(&claim).is_none_or(|first| key.name < first.name);
            if is_first {
                self.0.insert(claim, MountingPod { name: key.name.clone(), row });
            }
        }
    }

    /// The first pod that mounts a claim of the backup.
    pub(crate) fn of(&self, claim: &ObjectKey) -> Option<&MountingPod> {
        self.0.get(&name_of_object(claim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;
    use serde_json::json;

    #[test]
    fn the_first_pod_of_a_claim_counts() {
        let key = |resource: &str, name: &str| ObjectKey::new(GroupResource::new("", resource), Some("n"), name);
        let mounts = |claim: &str| json!({"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}, {"name": "own", "ephemeral": {}}]}});
        let mut pods = MountingPods::default();
        for (row, name) in ["web-1", "web-0", "web-2"].into_iter().enumerate() {
            pods.note(&key("pods", name), row, &mounts("data"));
        }
        let of = |name: &str| pods.of(&key("persistentvolumeclaims", name)).map(|pod| (pod.name.as_str(), pod.row));
        assert_eq!([of("data"), of("web-2-own"), of("other")], [Some(("web-0", 1)), Some(("web-2", 2)), None]);
    }
}
