//! Bindings between volumes and claims, which a restore forgets (velero: pkg/restore/restore.go). Pure.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Forgets a volume's binding but not its claim, whose namespace is mapped.
pub(crate) fn reset_volume(volume: &mut Value, mapping: &BTreeMap<String, String>) {
    unbind(volume);
    if let Some(claim) = volume.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
        claim.remove("uid");
        claim.remove("resourceVersion");
        let target = claim.get("namespace").and_then(Value::as_str).and_then(|ns| mapping.get(ns)).cloned();
        if let Some(target) = target {
            claim.insert("namespace".to_owned(), target.into());
        }
    }
}

/// Forgets a claim's binding, and its volume when that is provisioned anew.
pub(crate) fn reset_claim(claim: &mut Value, provisioned: &BTreeSet<String>) {
    let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default().to_owned();
    if volume.is_empty() {
        return;
    }
    unbind(claim);
    if provisioned.contains(&volume)
        && let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("volumeName");
    }
}

fn unbind(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(BIND_COMPLETED);
        annotations.remove(BOUND_BY_CONTROLLER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bindings_are_forgotten() {
        let mut volume = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes", "a": "b"}},
            "spec": {"claimRef": {"namespace": "old", "name": "c", "uid": "u", "resourceVersion": "1"}}});
        reset_volume(&mut volume, &BTreeMap::from([("old".to_owned(), "new".to_owned())]));
        assert_eq!(
            volume,
            json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"claimRef": {"namespace": "new", "name": "c"}}})
        );
        let claim = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}});
        let mut kept = claim.clone();
        reset_claim(&mut kept, &BTreeSet::new());
        assert_eq!(kept, json!({"metadata": {"annotations": {}}, "spec": {"volumeName": "pv"}}));
        let mut provisioned = claim;
        reset_claim(&mut provisioned, &BTreeSet::from(["pv".to_owned()]));
        assert_eq!(provisioned, json!({"metadata": {"annotations": {}}, "spec": {}}));
    }
}
