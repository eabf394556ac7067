//! Given actions that a volume policy keeps from a claim (velero: pkg/backup/item_backupper.go).

use lifeboat_api::NamespacedName;
use lifeboat_object::Item;
use lifeboat_volume::{DecidedVolume, Method, MethodReason, Verdict, Verdicts};

/// Actions of plugins that do something with the volumes of claims, by their names.
const OF_VOLUMES: [&str; 2] = ["velero.io/csi-pvc-backupper", "velero.io/vsphere-pvc-backupper"];

/// Returns true if an action is not called for an object: it is an action for the volumes of claims that does not ask
/// for policies itself, and a policy says to skip the volume of this claim.
pub(crate) fn is_excluded_by_policy(action: &str, item: &Item, verdicts: &Verdicts) -> bool {
    let is_claim = item.resource.group.is_empty() && item.resource.resource == "persistentvolumeclaims";
    if !is_claim || !OF_VOLUMES.contains(&action) {
        return false;
    }
    let claim =
        NamespacedName { namespace: item.head.namespace.clone().unwrap_or_default(), name: item.head.name.clone() };
    matches!(
        verdicts.of_claim(&claim),
        Some(DecidedVolume {
            verdict: Verdict { method: Method::Skip, why: MethodReason::Policy { action: "skip", .. } },
            ..
        })
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ApiResource;
    use lifeboat_select::{PolicyUse, ResourcePolicies};
    use lifeboat_volume::{Flags, Rules, VolumeInventory};
    use serde_json::json;
    use std::sync::Arc;

    fn item(resource: &str, kind: &str, name: &str, class: &str) -> Item {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"},
            "spec": {"volumeName": format!("of-{name}"), "storageClassName": class}, "status": {"phase": "Bound"}});
        Item::parse(Arc::new(ApiResource::new("", "v1", resource, kind)), object.to_string().into()).unwrap()
    }

    #[test]
    fn actions_for_volumes_are_not_called_for_claims_that_a_policy_skips() {
        let text = "version: v1\nvolumePolicies: [{conditions: {storageClass: [slow]}, action: {type: skip}}]";
        let policies = ResourcePolicies::parse(text, PolicyUse::Backup).unwrap();
        let flags = Flags::default();
        let rules = Rules { policies: Some(&policies), flags: &flags };
        let mut inventory = VolumeInventory::new(rules);
        let claims =
            ["slow", "fast"].map(|class| item("persistentvolumeclaims", "PersistentVolumeClaim", class, class));
        let volumes = ["slow", "fast"].map(|class| {
            let object = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("of-{class}")},
                "spec": {"storageClassName": class, "claimRef": {"namespace": "shop", "name": class}}});
            let resource = ApiResource::new("", "v1", "persistentvolumes", "PersistentVolume");
            Item::parse(Arc::new(resource), object.to_string().into()).unwrap()
        });
        claims.iter().chain(&volumes).for_each(|item| inventory.take(item));
        let verdicts = inventory.decide(rules);
        let kept = |action: &str| claims.each_ref().map(|claim| is_excluded_by_policy(action, claim, &verdicts));
        assert_eq!(kept("velero.io/vsphere-pvc-backupper"), [true, false]);
        assert_eq!(kept("velero.io/csi-pvc-backupper"), [true, false]);
        assert_eq!(kept("velero.io/pv"), [false, false]);
        assert_eq!(kept("example.com/snapshots"), [false, false]);
        let pod = item("pods", "Pod", "slow", "slow");
        assert!(!is_excluded_by_policy("velero.io/vsphere-pvc-backupper", &pod, &verdicts));
    }
}
