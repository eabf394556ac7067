//! Work that is left for the volume that was made for a claim of a restore
//! (velero: pkg/controller/restore_finalizer_controller.go). Pure.

use lifeboat_archive::volume_info::PvInfo;
use serde_json::{Value, json};

/// On claims: where the pod that uses it first is placed.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// State of a claim that a restore has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimState {
    /// It is not bound yet, for this reason.
    Waits(String),
    /// Its volume is made when a pod is placed that uses it, and none is.
    WaitsForPod,
    /// It is bound to the volume of this name.
    Bound(String),
}

/// Reads a claim, whose class makes volumes only for pods that are placed, or at once.
pub(crate) fn claim_state(claim: Option<&Value>, makes_volumes_late: bool) -> ClaimState {
    let Some(claim) = claim else { return ClaimState::Waits("the claim is gone".to_owned()) };
    let text = |pointer: &str| claim.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (phase, volume) = (text("/status/phase"), text("/spec/volumeName"));
    let is_placed = claim["metadata"]["annotations"].get(SELECTED_NODE).is_some();
    match phase {
        "Bound" if !volume.is_empty() => ClaimState::Bound(volume.to_owned()),
        "Pending" if makes_volumes_late && !is_placed => ClaimState::WaitsForPod,
        "" => ClaimState::Waits("the claim has no phase yet".to_owned()),
        phase => ClaimState::Waits(format!("the claim is {phase}")),
    }
}

/// State of the volume of a bound claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum VolumeState {
    /// It is not bound yet, for this reason.
    Waits(String),
    /// Another claim has it: this error.
    Taken(String),
    /// It is as that of the backup was.
    InLine,
    /// This merge patch brings it in line with that of the backup.
    Differs(Value),
}

/// Compares a volume with that of the backup: the reclaim policy, and labels that it lacks. `claim` is the namespace and the name of
/// the claim that it is expected to have.
pub(crate) fn volume_state(volume: Option<&Value>, namespace: &str, name: &str, before: &PvInfo) -> VolumeState {
    let Some(volume) = volume else { return VolumeState::Waits("its volume is not there".to_owned()) };
    let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (of_namespace, of_name) = (text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
    if of_name.is_empty() {
        return VolumeState::Waits("its volume is of no claim yet".to_owned());
    }
    if (of_namespace, of_name) != (namespace, name) {
        return VolumeState::Taken(format!(
            "PV was bound by unexpected PVC, unexpected PVC: {of_namespace}/{of_name}, expected PVC: {namespace}/{name}"
        ));
    }
    if text("/status/phase") != "Bound" {
        return VolumeState::Waits(format!("its volume is {}", text("/status/phase")));
    }
    let mut patch = json!({});
    let lacks = |key: &&String| volume["metadata"]["labels"].get(key.as_str()).is_none();
    for key in before.labels.iter().flat_map(|labels| labels.keys()).filter(lacks) {
        patch["metadata"]["labels"][key] = before.labels.as_ref().map_or("", |labels| labels[key].as_str()).into();
    }
    let policy = before.reclaim_policy.as_str();
    if !policy.is_empty() && policy != text("/spec/persistentVolumeReclaimPolicy") {
        patch["spec"]["persistentVolumeReclaimPolicy"] = policy.into();
    }
    if patch == json!({}) { VolumeState::InLine } else { VolumeState::Differs(patch) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_claim_waits_until_it_is_bound_unless_its_class_waits_for_a_pod() {
        let claim = |phase: &str, volume: &str, annotations: Value| json!({"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}, "status": {"phase": phase}});
        let placed = json!({"volume.kubernetes.io/selected-node": "n"});
        let waits = |why: &str| ClaimState::Waits(why.to_owned());
        for (claim, late, expected) in [
            (None, false, waits("the claim is gone")),
            (Some(json!({})), false, waits("the claim has no phase yet")),
            (Some(claim("Pending", "", json!({}))), false, waits("the claim is Pending")),
            (Some(claim("Pending", "", json!({}))), true, ClaimState::WaitsForPod),
            (Some(claim("Pending", "", placed)), true, waits("the claim is Pending")),
            (Some(claim("Lost", "pv", json!({}))), false, waits("the claim is Lost")),
            (Some(claim("Bound", "", json!({}))), false, waits("the claim is Bound")),
            (Some(claim("Bound", "pv", json!({}))), true, ClaimState::Bound("pv".to_owned())),
        ] {
            assert_eq!(claim_state(claim.as_ref(), late), expected, "{claim:?} {late}");
        }
    }

    #[test]
    fn a_volume_gets_the_reclaim_policy_and_the_labels_that_it_lacks() {
        let volume = |claim: &str, phase: &str, labels: Value, policy: &str| {
            json!({"metadata": {"labels": labels}, "status": {"phase": phase},
                "spec": {"claimRef": {"namespace": "n", "name": claim}, "persistentVolumeReclaimPolicy": policy}})
        };
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        let before = PvInfo { reclaim_policy: "Retain".into(), labels: Some(labels) };
        let waits = |why: &str| VolumeState::Waits(why.to_owned());
        let taken = "PV was bound by unexpected PVC, unexpected PVC: n/other, expected PVC: n/c";
        let both = json!({"a": "1", "b": "2"});
        for (volume, expected) in [
            (None, waits("its volume is not there")),
            (Some(json!({})), waits("its volume is of no claim yet")),
            (Some(volume("other", "Bound", both.clone(), "Retain")), VolumeState::Taken(taken.to_owned())),
            (Some(volume("c", "Available", both.clone(), "Retain")), waits("its volume is Available")),
            (Some(volume("c", "Bound", both.clone(), "Retain")), VolumeState::InLine),
            (
                Some(volume("c", "Bound", both, "Delete")),
                VolumeState::Differs(json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})),
            ),
            (
                Some(volume("c", "Bound", json!({"a": "other", "c": "3"}), "Retain")),
                VolumeState::Differs(json!({"metadata": {"labels": {"b": "2"}}})),
            ),
        ] {
            assert_eq!(volume_state(volume.as_ref(), "n", "c", &before), expected, "{volume:?}");
        }
        let unknown = volume_state(Some(&volume("c", "Bound", json!({}), "Delete")), "n", "c", &PvInfo::default());
        assert_eq!(unknown, VolumeState::InLine, "a backup that says nothing of its volume");
    }
}
