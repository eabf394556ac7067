//! Brings the volume of a download to its claim, step by step. Each step is decided from the objects alone, so that a
//! delivery that was broken off goes on. Pure.
//!
//! The volume is retained first, so that it outlives the claim in which it was filled; then pod and claim go, the volume is
//! reserved for the target, and gets its reclaim policy back when the target is bound. A volume that was filled as a device, and whose
//! target has a file system, is made anew: the mode of a PersistentVolume cannot change. The new one is there before the old one goes.

use crate::kube::text;
use crate::transfer::{Delivery, RemadeVolume, Transfer};
use lifeboat_api::TargetVolumeSpec;
use lifeboat_api::well_known::ANNOTATION_DELIVERY;
use serde_json::{Value, json};

/// The objects of a delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryView<'a> {
    pub(crate) target_spec: &'a TargetVolumeSpec,
    pub(crate) delivery: &'a Delivery,
    pub(crate) volume: Option<&'a Value>,
    /// The volume of the other mode that was made of it.
    pub(crate) remade: Option<&'a Value>,
    /// The claim in which the volume was filled.
    pub(crate) restore_claim: Option<&'a Value>,
    pub(crate) target: Option<&'a Value>,
    pub(crate) has_pod: bool,
    pub(crate) is_attached: bool,
}

/// A step of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DeliveryStep {
    /// Applies this patch to the volume.
    PatchVolume(Value),
    /// Applies this patch to the target.
    PatchTarget(Value),
    RemovePod,
    RemoveClaim,
    /// Creates the volume of the other mode.
    CreateVolume(Value),
    /// Removes the volume that was made anew; its bytes in the storage stay.
    RemoveVolume,
    /// Waits for others.
    Wait(String),
    Done,
    /// It cannot be done any more.
    Failed(String),
}

/// The next step of a delivery.
pub(crate) fn next_delivery_step(view: &DeliveryView<'_>) -> DeliveryStep {
    let DeliveryView { target_spec, delivery, .. } = view;
    let target_name = format!("{}/{}", target_spec.namespace, target_spec.pvc);
    if let (Some(_), Some(old)) = (view.remade, view.volume)
        && old["metadata"]["deletionTimestamp"].is_null()
    {
        let (old_name, policy) = (&delivery.volume, text(old, &["spec", "persistentVolumeReclaimPolicy"]));
        // With any other policy the volume in the storage would go with it.
        return match policy {
            "Retain" => DeliveryStep::RemoveVolume,
            _ => DeliveryStep::Failed(format!(
                "somebody has given the volume {old_name}, of which it was made, the reclaim policy {policy}, by which \
                 its data would be deleted"
            )),
        };
    }
    let Some(volume) = view.remade.or(view.volume) else {
        return DeliveryStep::Failed(format!("the volume {} with the restored data is gone", delivery.volume));
    };
    let name = text(volume, &["metadata", "name"]);
    let Some(target) = view.target.filter(|target| target["metadata"]["deletionTimestamp"].is_null()) else {
        return DeliveryStep::Failed(format!("the target claim {target_name} is gone"));
    };
    let bound_to = text(target, &["spec", "volumeName"]);
    if !bound_to.is_empty() && bound_to != name {
        return DeliveryStep::Failed(format!(
            "the target claim {target_name} was bound to the volume {bound_to} meanwhile"
        ));
    }
    let policy = text(volume, &["spec", "persistentVolumeReclaimPolicy"]);
    let with_policy = |policy: &str| {
        let resource_version = &volume["metadata"]["resourceVersion"];
        DeliveryStep::PatchVolume(json!({
            "metadata": {"resourceVersion": resource_version}, "spec": {"persistentVolumeReclaimPolicy": policy},
        }))
    };
    if is_reserved(volume, target) {
        return match text(target, &["status", "phase"]) == "Bound" {
            false if bound_to.is_empty() => bind_target(target, name),
            false => DeliveryStep::Wait(format!("the target claim {target_name} is being bound")),
            true if policy != delivery.reclaim_policy => with_policy(&delivery.reclaim_policy),
            true => DeliveryStep::Done,
        };
    }
    if policy != "Retain" {
        return with_policy("Retain");
    }
    if view.has_pod {
        return DeliveryStep::RemovePod;
    }
    if view.is_attached {
        return DeliveryStep::Wait(format!("the volume {name} is being detached"));
    }
    match view.restore_claim {
        Some(claim) if claim["metadata"]["deletionTimestamp"].is_null() => return DeliveryStep::RemoveClaim,
        Some(_) => return DeliveryStep::Wait("the claim in which the volume was filled is being deleted".to_owned()),
        None => {}
    }
    if let (Some(remade), None) = (&delivery.remade, view.remade) {
        return DeliveryStep::CreateVolume(remade_volume(volume, target, remade));
    }
    match bound_to.is_empty() {
        true => bind_target(target, name),
        false => reserve(volume, target),
    }
}

/// Returns true if a volume is reserved for this very claim.
fn is_reserved(volume: &Value, target: &Value) -> bool {
    let (claim, meta) = (&volume["spec"]["claimRef"], &target["metadata"]);
    let is_named = claim["namespace"] == meta["namespace"] && claim["name"] == meta["name"];
    is_named && (claim["uid"].as_str().is_none_or(str::is_empty) || claim["uid"] == meta["uid"])
}

fn bind_target(target: &Value, volume: &str) -> DeliveryStep {
    DeliveryStep::PatchTarget(json!({
        "metadata": {
            "resourceVersion": target["metadata"]["resourceVersion"],
            "annotations": {"pv.kubernetes.io/bind-completed": null, "pv.kubernetes.io/bound-by-controller": null},
        },
        "spec": {"volumeName": volume},
    }))
}

/// The mode of a claim or a volume.
pub(crate) fn mode_of(object: &Value) -> &str {
    match text(object, &["spec", "volumeMode"]) {
        "" => "Filesystem",
        mode => mode,
    }
}

/// The volume of the target's mode for the same bytes in the storage, reserved for the target.
fn remade_volume(volume: &Value, target: &Value, remade: &RemadeVolume) -> Value {
    let mut spec = volume["spec"].clone();
    spec["volumeMode"] = json!(mode_of(target));
    spec["persistentVolumeReclaimPolicy"] = json!("Retain");
    spec["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": target["metadata"]["namespace"],
        "name": target["metadata"]["name"],
    });
    if let Some(attributes) = spec.pointer_mut("/csi/volumeAttributes").and_then(Value::as_object_mut) {
        // It names the provisioner that has made the other one.
        attributes.remove("storage.kubernetes.io/csiProvisionerIdentity");
    }
    if let Some(csi) = spec.get_mut("csi").and_then(Value::as_object_mut)
        && !remade.fs_type.is_empty()
    {
        csi.insert("fsType".to_owned(), json!(remade.fs_type));
    }
    let fields = |of: &Value| of.as_object().cloned().unwrap_or_default();
    let mut labels = fields(&volume["metadata"]["labels"]);
    labels.extend(fields(&target["spec"]["selector"]["matchLabels"]));
    // Without the name of the provisioner nobody would delete the volume in the storage when its claim goes.
    let mut annotations = fields(&volume["metadata"]["annotations"]);
    annotations.remove("pv.kubernetes.io/bound-by-controller");
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": remade.name, "labels": labels, "annotations": annotations}, "spec": spec,
    })
}

/// Reserves the volume for the target, and gives it the labels that the target selects.
fn reserve(volume: &Value, target: &Value) -> DeliveryStep {
    let labels = match &target["spec"]["selector"]["matchLabels"] {
        Value::Object(labels) => Value::Object(labels.clone()),
        _ => json!({}),
    };
    DeliveryStep::PatchVolume(json!({
        "metadata": {
            "resourceVersion": volume["metadata"]["resourceVersion"], "labels": labels,
            "annotations": {"pv.kubernetes.io/bound-by-controller": null},
        },
        "spec": {"claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": target["metadata"]["namespace"],
            "name": target["metadata"]["name"], "uid": null, "resourceVersion": null,
        }},
    }))
}

/// The patch that writes down a delivery before its first step.
pub(crate) fn begin(transfer: &Transfer, delivery: &Delivery) -> Value {
    let text = serde_json::to_string(delivery).unwrap_or_default();
    json!({"metadata": {
        "resourceVersion": transfer.meta.resource_version, "annotations": {ANNOTATION_DELIVERY: text},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Objects {
        volume: Value,
        claim: Option<Value>,
        target: Value,
        has_pod: bool,
        is_attached: bool,
    }

    fn objects() -> Objects {
        Objects {
            volume: json!({
                "metadata": {"name": "pv-1", "resourceVersion": "5"},
                "spec": {
                    "persistentVolumeReclaimPolicy": "Delete",
                    "claimRef": {"namespace": "velero", "name": "dd-1", "uid": "claim-uid"},
                },
            }),
            claim: Some(json!({"metadata": {"name": "dd-1"}})),
            target: json!({
                "metadata": {"namespace": "shop", "name": "data", "uid": "target-uid", "resourceVersion": "7"},
                "spec": {"selector": {"matchLabels": {"velero.io/dynamic-pv-restore": "x"}}},
                "status": {"phase": "Pending"},
            }),
            has_pod: true,
            is_attached: true,
        }
    }

    fn next(objects: &Objects) -> DeliveryStep {
        next_of(objects, None, None)
    }

    fn next_of(objects: &Objects, remade: Option<RemadeVolume>, made: Option<&Value>) -> DeliveryStep {
        let volume = Some(&objects.volume).filter(|volume| !volume.is_null());
        let spec = TargetVolumeSpec { pvc: "data".into(), namespace: "shop".into(), ..TargetVolumeSpec::default() };
        let begun = serde_json::from_value(json!("2026-11-28T12:00:00Z")).unwrap();
        let message = String::new();
        let delivery = Delivery {
            volume: "pv-1".into(),
            reclaim_policy: "Delete".into(),
            total_bytes: 7,
            files: 0,
            message,
            begun,
            remade,
        };
        next_delivery_step(&DeliveryView {
            target_spec: &spec,
            delivery: &delivery,
            volume,
            remade: made,
            restore_claim: objects.claim.as_ref(),
            target: Some(&objects.target),
            has_pod: objects.has_pod,
            is_attached: objects.is_attached,
        })
    }

    #[test]
    fn a_volume_goes_to_its_claim_step_by_step_and_keeps_its_policy() {
        let mut of = objects();
        let policy = |policy: &str| {
            DeliveryStep::PatchVolume(json!({
                "metadata": {"resourceVersion": "5"}, "spec": {"persistentVolumeReclaimPolicy": policy},
            }))
        };
        assert_eq!(next(&of), policy("Retain"));
        of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
        assert_eq!(next(&of), DeliveryStep::RemovePod);
        of.has_pod = false;
        assert_eq!(next(&of), DeliveryStep::Wait("the volume pv-1 is being detached".into()));
        of.is_attached = false;
        assert_eq!(next(&of), DeliveryStep::RemoveClaim);
        of.claim = Some(json!({"metadata": {"deletionTimestamp": "2026-11-28T12:00:00Z"}}));
        let deleting = "the claim in which the volume was filled is being deleted";
        assert_eq!(next(&of), DeliveryStep::Wait(deleting.into()));
        of.claim = None;
        let annotations =
            json!({"pv.kubernetes.io/bind-completed": null, "pv.kubernetes.io/bound-by-controller": null});
        let bind =
            json!({"metadata": {"resourceVersion": "7", "annotations": annotations}, "spec": {"volumeName": "pv-1"}});
        assert_eq!(next(&of), DeliveryStep::PatchTarget(bind));
        of.target["spec"]["volumeName"] = json!("pv-1");
        let reserve = json!({
            "metadata": {
                "resourceVersion": "5", "labels": {"velero.io/dynamic-pv-restore": "x"},
                "annotations": {"pv.kubernetes.io/bound-by-controller": null},
            },
            "spec": {"claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data",
                "uid": null, "resourceVersion": null,
            }},
        });
        assert_eq!(next(&of), DeliveryStep::PatchVolume(reserve));
        of.volume["spec"]["claimRef"] = json!({"namespace": "shop", "name": "data"});
        assert_eq!(next(&of), DeliveryStep::Wait("the target claim shop/data is being bound".into()));
        of.target["status"]["phase"] = json!("Bound");
        of.volume["spec"]["claimRef"]["uid"] = json!("target-uid");
        assert_eq!(next(&of), policy("Delete"));
        of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
        assert_eq!(next(&of), DeliveryStep::Done);
    }

    #[test]
    fn a_volume_that_was_filled_as_a_device_is_made_anew_for_a_file_system() {
        let mut of = objects();
        of.volume = json!({
            "metadata": {
                "name": "pv-1", "resourceVersion": "5", "uid": "pv-uid", "labels": {"zone": "z"},
                "annotations": {"pv.kubernetes.io/provisioned-by": "d", "pv.kubernetes.io/bound-by-controller": "yes"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"}, "volumeMode": "Block",
                "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast",
                "claimRef": {"namespace": "velero", "name": "dd-1", "uid": "claim-uid"},
                "csi": {
                    "driver": "d", "volumeHandle": "vol-1",
                    "volumeAttributes": {"pool": "p", "storage.kubernetes.io/csiProvisionerIdentity": "1-d"},
                },
            },
        });
        (of.has_pod, of.is_attached) = (false, false);
        let remade = || Some(RemadeVolume { name: "pvc-dd".into(), fs_type: "xfs".into() });
        // As any other it is retained, and released by its claim.
        assert!(matches!(next_of(&of, remade(), None), DeliveryStep::PatchVolume(_)));
        of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
        assert_eq!(next_of(&of, remade(), None), DeliveryStep::RemoveClaim);
        of.claim = None;
        let mut made = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {
                "name": "pvc-dd", "labels": {"zone": "z", "velero.io/dynamic-pv-restore": "x"},
                "annotations": {"pv.kubernetes.io/provisioned-by": "d"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"}, "volumeMode": "Filesystem",
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast",
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data",
                },
                "csi": {
                    "driver": "d", "volumeHandle": "vol-1", "fsType": "xfs", "volumeAttributes": {"pool": "p"},
                },
            },
        });
        assert_eq!(next_of(&of, remade(), None), DeliveryStep::CreateVolume(made.clone()));
        // The bytes are never without a volume that names them.
        made["metadata"]["resourceVersion"] = json!("9");
        assert_eq!(next_of(&of, remade(), Some(&made)), DeliveryStep::RemoveVolume);
        of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
        let deletes = "somebody has given the volume pv-1, of which it was made, the reclaim policy Delete, by which its data would be deleted";
        assert_eq!(next_of(&of, remade(), Some(&made)), DeliveryStep::Failed(deletes.into()));
        of.volume["metadata"]["deletionTimestamp"] = json!("2026-11-28T12:00:00Z");
        let bound = |step: &DeliveryStep| match step {
            DeliveryStep::PatchTarget(patch) => patch["spec"]["volumeName"].clone(),
            _ => Value::Null,
        };
        assert_eq!(bound(&next_of(&of, remade(), Some(&made))), "pvc-dd");
        of.volume = Value::Null;
        assert_eq!(bound(&next_of(&of, remade(), Some(&made))), "pvc-dd");
        of.target["spec"]["volumeName"] = json!("pvc-dd");
        of.target["status"]["phase"] = json!("Bound");
        let policy = json!({
            "metadata": {"resourceVersion": "9"}, "spec": {"persistentVolumeReclaimPolicy": "Delete"},
        });
        assert_eq!(next_of(&of, remade(), Some(&made)), DeliveryStep::PatchVolume(policy));
        made["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
        assert_eq!(next_of(&of, remade(), Some(&made)), DeliveryStep::Done);
        let gone = "the volume pv-1 with the restored data is gone";
        assert_eq!(next_of(&of, remade(), None), DeliveryStep::Failed(gone.into()));
    }

    #[test]
    fn a_delivery_whose_target_is_lost_fails_with_the_reason() {
        let mut of = objects();
        of.target["spec"]["volumeName"] = json!("other");
        let other = "the target claim shop/data was bound to the volume other meanwhile";
        assert_eq!(next(&of), DeliveryStep::Failed(other.into()));
        of.target["metadata"]["deletionTimestamp"] = json!("2026-11-28T12:00:00Z");
        assert_eq!(next(&of), DeliveryStep::Failed("the target claim shop/data is gone".into()));
    }

    #[test]
    fn a_claim_of_the_same_name_made_anew_is_another_one() {
        let mut of = objects();
        of.volume["spec"]["claimRef"] = json!({"namespace": "shop", "name": "data", "uid": "old-uid"});
        of.volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
        (of.has_pod, of.is_attached, of.claim) = (false, false, None);
        assert!(matches!(next(&of), DeliveryStep::PatchTarget(_)));
    }
}
