//! Brings the volume of a download to its claim, step by step. Each step is decided from the objects alone, so that a
//! delivery that was broken off goes on. Pure.
//!
//! The volume is retained first, so that it outlives the claim in which it was filled; then pod and claim go, the
//! volume is reserved for the target, and gets its reclaim policy back when the target is bound. It is reserved by the
//! UID of the target: another claim that later has the same name does not get the data.
//!
//! A volume that was filled as a device, and whose target has a file system, is made anew: the mode of a
//! PersistentVolume cannot change. As in Velero the old one is gone before the new one is made: drivers that keep a
//! register of volumes, such as that of vSphere, take a volume out of it when a PersistentVolume of it is deleted, and
//! register it when one is made. The delivery has the whole new PersistentVolume from its first step on, so any agent
//! can make it, and it is made also where the target is lost meanwhile.

use crate::kube::{text, uid};
use crate::transfer::{Delivery, RemadeVolume, Transfer};
use lifeboat_api::TargetVolumeSpec;
use lifeboat_api::well_known::ANNOTATION_DELIVERY;
use serde_json::{Value, json};

/// The beginning of the message about a PersistentVolume that is kept, by which it is known that it was told.
pub(crate) fn has_restored_data(volume: &str) -> String {
    format!("the PersistentVolume {volume} has the restored data")
}

/// The rest of that message: the way to use the volume.
pub(crate) const KEPT: &str = " and is kept (reclaim policy Retain): remove its spec.claimRef and name it in spec.volumeName of a claim, or delete it \
     and the volume in the storage";

/// The objects of a delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryView<'a> {
    pub(crate) target_spec: &'a TargetVolumeSpec,
    pub(crate) delivery: &'a Delivery,
    /// The UID of the claim that is to have the data; empty where nobody has written it down.
    pub(crate) target_uid: &'a str,
    pub(crate) volume: Option<&'a Value>,
    /// The volume of the other mode that was made of it.
    pub(crate) remade: Option<&'a Value>,
    /// The claim in which the volume was filled.
    pub(crate) restore_claim: Option<&'a Value>,
    pub(crate) target: Option<&'a Value>,
    pub(crate) has_pod: bool,
    pub(crate) is_attached: bool,
}

impl DeliveryView<'_> {
    fn target_name(&self) -> String {
        format!("{}/{}", self.target_spec.namespace, self.target_spec.pvc)
    }

    /// The volume of the other mode that is to be made, as long as it is not there.
    fn planned(&self) -> Option<&RemadeVolume> {
        self.delivery.remade.as_ref().filter(|_| self.remade.is_none())
    }

    /// The volume that is to be made before a delivery is given up, where the one that was filled is gone, or goes.
    /// Without it no PersistentVolume would name the restored bytes.
    pub(crate) fn volume_to_keep(&self) -> Option<&Value> {
        let goes = self.volume.is_none_or(is_being_deleted);
        // One that was bound has been there, and somebody has deleted it.
        let was_made = |remade: &&RemadeVolume| {
            self.target.is_some_and(|target| text(target, &["spec", "volumeName"]) == remade.name)
        };
        let planned = self.planned().filter(|remade| goes && !was_made(remade))?;
        Some(&planned.manifest).filter(|manifest| manifest.is_object())
    }

    /// The PersistentVolumes that are there.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        let there = [self.volume.filter(|volume| !is_being_deleted(volume)), self.remade];
        there.into_iter().flatten().map(|volume| text(volume, &["metadata", "name"])).collect()
    }
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
    /// Removes the volume that was filled; its bytes in the storage stay.
    RemoveVolume,
    /// Waits for others.
    Wait(String),
    Done,
    /// It cannot be done any more.
    Failed(String),
}

/// The next step of a delivery.
pub(crate) fn next_delivery_step(view: &DeliveryView<'_>) -> DeliveryStep {
    if let Some(step) = step_before_target(view) {
        return step;
    }
    let delivery = view.delivery;
    let Some(volume) = view.remade.or(view.volume) else {
        return DeliveryStep::Failed(format!("the volume {} with the restored data is gone", delivery.volume));
    };
    let name = text(volume, &["metadata", "name"]);
    let target = match target_of(view, view.planned().map_or(name, |planned| planned.name.as_str())) {
        Ok(target) => target,
        Err(why) => return DeliveryStep::Failed(why),
    };
    if is_reserved(volume, target) {
        return bind(view, volume, target);
    }
    if let Some(step) = release(view, volume) {
        return step;
    }
    if let Some(planned) = view.planned() {
        return match is_being_deleted(volume) || !planned.manifest.is_object() {
            true => DeliveryStep::Wait(format!("nothing says what replaces the volume {name}")),
            false => DeliveryStep::RemoveVolume,
        };
    }
    match text(target, &["spec", "volumeName"]).is_empty() {
        true => bind_target(target, name),
        false => reserve(volume, target),
    }
}

/// The step that has to be done whatever has become of the target.
fn step_before_target(view: &DeliveryView<'_>) -> Option<DeliveryStep> {
    let Some(old) = view.volume else {
        return view.volume_to_keep().map(|manifest| DeliveryStep::CreateVolume(manifest.clone()));
    };
    let (old_name, policy) = (&view.delivery.volume, text(old, &["spec", "persistentVolumeReclaimPolicy"]));
    match view.remade {
        // A Lifeboat before this one has made the new one first. With any other policy the volume in the storage would go with the old one.
        Some(_) if is_being_deleted(old) => None,
        Some(_) if policy == "Retain" => Some(DeliveryStep::RemoveVolume),
        Some(_) => Some(DeliveryStep::Failed(format!(
            "somebody has given the volume {old_name}, of which it was made, the reclaim policy {policy}, by which its data would be deleted"
        ))),
        None if view.volume_to_keep().is_some() => Some(release(view, old).unwrap_or_else(|| {
            DeliveryStep::Wait(format!(
                "the volume {old_name}, which one with a file system replaces, is being deleted"
            ))
        })),
        None => None,
    }
}

/// The target, if it can still have the volume of this name.
fn target_of<'a>(view: &DeliveryView<'a>, volume: &str) -> Result<&'a Value, String> {
    let name = view.target_name();
    let Some(target) = view.target.filter(|target| !is_being_deleted(target)) else {
        return Err(format!("the target claim {name} is gone"));
    };
    if !view.target_uid.is_empty() && uid(target) != view.target_uid {
        return Err(format!("the target claim {name} was deleted, and the claim that has its name now is another one"));
    }
    match text(target, &["spec", "volumeName"]) {
        bound_to if bound_to.is_empty() || bound_to == volume => Ok(target),
        bound_to => Err(format!("the target claim {name} was bound to the volume {bound_to} meanwhile")),
    }
}

/// Has the target bound to a volume that is reserved for it, and gives the volume its reclaim policy back.
fn bind(view: &DeliveryView<'_>, volume: &Value, target: &Value) -> DeliveryStep {
    let policy = view.delivery.reclaim_policy.as_str();
    match text(target, &["status", "phase"]) == "Bound" {
        false if text(target, &["spec", "volumeName"]).is_empty() => {
            bind_target(target, text(volume, &["metadata", "name"]))
        }
        false => DeliveryStep::Wait(format!("the target claim {} is being bound", view.target_name())),
        true if text(volume, &["spec", "persistentVolumeReclaimPolicy"]) != policy => with_policy(volume, policy),
        true => DeliveryStep::Done,
    }
}

/// The step by which a volume leaves the claim in which it was filled, and stays; `None` when it has left it.
fn release(view: &DeliveryView<'_>, volume: &Value) -> Option<DeliveryStep> {
    let name = text(volume, &["metadata", "name"]);
    if text(volume, &["spec", "persistentVolumeReclaimPolicy"]) != "Retain" {
        return Some(with_policy(volume, "Retain"));
    }
    if view.has_pod {
        return Some(DeliveryStep::RemovePod);
    }
    if view.is_attached {
        return Some(DeliveryStep::Wait(format!("the volume {name} is being detached")));
    }
    Some(match view.restore_claim? {
        claim if is_being_deleted(claim) => {
            DeliveryStep::Wait("the claim in which the volume was filled is being deleted".to_owned())
        }
        _ => DeliveryStep::RemoveClaim,
    })
}

fn is_being_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn with_policy(volume: &Value, policy: &str) -> DeliveryStep {
    let resource_version = &volume["metadata"]["resourceVersion"];
    DeliveryStep::PatchVolume(json!({
        "metadata": {"resourceVersion": resource_version}, "spec": {"persistentVolumeReclaimPolicy": policy},
    }))
}

/// Returns true if a volume is reserved for this very claim, and for no other one that may have its name later.
fn is_reserved(volume: &Value, target: &Value) -> bool {
    let (claim, meta) = (&volume["spec"]["claimRef"], &target["metadata"]);
    ["namespace", "name", "uid"].iter().all(|field| claim[*field] == meta[*field])
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
pub(crate) fn remade_volume(volume: &Value, target: &Value, name: String, fs_type: &str) -> RemadeVolume {
    let mut spec = volume["spec"].clone();
    spec["volumeMode"] = json!(mode_of(target));
    spec["persistentVolumeReclaimPolicy"] = json!("Retain");
    spec["claimRef"] = reference_to(target);
    if let Some(attributes) = spec.pointer_mut("/csi/volumeAttributes").and_then(Value::as_object_mut) {
        // It names the provisioner that has made the other one.
        attributes.remove("storage.kubernetes.io/csiProvisionerIdentity");
    }
    if let Some(csi) = spec.get_mut("csi").and_then(Value::as_object_mut)
        && !fs_type.is_empty()
    {
        csi.insert("fsType".to_owned(), json!(fs_type));
    }
    let fields = |of: &Value| of.as_object().cloned().unwrap_or_default();
    let mut labels = fields(&volume["metadata"]["labels"]);
    labels.extend(fields(&target["spec"]["selector"]["matchLabels"]));
    // Without the name of the provisioner nobody would delete the volume in the storage when its claim goes.
    let mut annotations = fields(&volume["metadata"]["annotations"]);
    annotations.remove("pv.kubernetes.io/bound-by-controller");
    let manifest = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec,
    });
    RemadeVolume { name, fs_type: fs_type.to_owned(), manifest }
}

/// The `claimRef` of a volume that is reserved for a claim. The controller binds by the UID, and binds no other claim
/// of that name.
fn reference_to(target: &Value) -> Value {
    let meta = &target["metadata"];
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"],
        "uid": meta["uid"],
    })
}

/// Reserves the volume for the target, and gives it the labels that the target selects.
fn reserve(volume: &Value, target: &Value) -> DeliveryStep {
    let labels = match &target["spec"]["selector"]["matchLabels"] {
        Value::Object(labels) => Value::Object(labels.clone()),
        _ => json!({}),
    };
    let mut reference = reference_to(target);
    reference["resourceVersion"] = Value::Null;
    DeliveryStep::PatchVolume(json!({
        "metadata": {
            "resourceVersion": volume["metadata"]["resourceVersion"], "labels": labels,
            "annotations": {"pv.kubernetes.io/bound-by-controller": null},
        },
        "spec": {"claimRef": reference},
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
mod tests;
