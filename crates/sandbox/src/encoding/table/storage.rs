//! Volumes, claims, classes and drivers.

use super::duration::age;
use super::field::{count, is_deleting, is_true, joined, list, name, optional, quantity, text, text_or};
use jiff::Timestamp;
use serde_json::Value;

/// Name, capacity, access modes, reclaim policy, status, claim, class, attributes class, reason, age; mode.
pub(super) fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let claim = &spec["claimRef"];
    let claim = match claim.is_object() {
        true => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
        false => String::new(),
    };
    vec![
        name(object),
        quantity(&spec["capacity"]["storage"]).into(),
        access_modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(object),
        claim.into(),
        class(object),
        optional(&spec["volumeAttributesClassName"], "<unset>"),
        text(&status["reason"]).into(),
        age(object, now),
        optional(&spec["volumeMode"], "<unset>"),
    ]
}

/// Name, status, volume, capacity, access modes, class, attributes class, age; mode.
pub(super) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let volume = text(&spec["volumeName"]);
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (quantity(&status["capacity"]["storage"]), access_modes(&status["accessModes"])),
    };
    vec![
        name(object),
        phase(object),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(object),
        optional(&spec["volumeAttributesClassName"], "<unset>"),
        age(object, now),
        optional(&spec["volumeMode"], "<unset>"),
    ]
}

fn phase(object: &Value) -> Value {
    if is_deleting(object) { "Terminating".into() } else { text(&object["status"]["phase"]).into() }
}

/// The class of a volume or claim; an annotation goes before the field.
fn class(object: &Value) -> Value {
    let annotation = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    if annotation.is_string() { text(annotation).into() } else { text(&object["spec"]["storageClassName"]).into() }
}

/// Access modes in short, always in the same order.
fn access_modes(value: &Value) -> String {
    let modes = list(value);
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let found = known.iter().filter(|(mode, _)| modes.iter().any(|m| text(m) == *mode)).map(|(_, short)| *short);
    found.collect::<Vec<_>>().join(",")
}

/// Name, provisioner, reclaim policy, binding mode, expansion, age.
pub(super) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let annotations = &object["metadata"]["annotations"];
    let is_default =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .iter()
            .any(|annotation| text(&annotations[annotation]) == "true");
    let shown = text(&object["metadata"]["name"]);
    vec![
        if is_default { format!("{shown} (default)").into() } else { shown.into() },
        text(&object["provisioner"]).into(),
        optional(&object["reclaimPolicy"], "Delete"),
        optional(&object["volumeBindingMode"], "Immediate"),
        is_true(&object["allowVolumeExpansion"]).into(),
        age(object, now),
    ]
}

/// Name, driver, age.
pub(super) fn attributes_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["driverName"]).into(), age(object, now)]
}

/// Name, attacher, volume, node, attached, age.
pub(super) fn volume_attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        text(&spec["attacher"]).into(),
        text(&spec["source"]["persistentVolumeName"]).into(),
        text(&spec["nodeName"]).into(),
        is_true(&object["status"]["attached"]).into(),
        age(object, now),
    ]
}

/// Name, number of drivers, age.
pub(super) fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), count(&object["spec"]["drivers"]).into(), age(object, now)]
}

/// Name, attach required, pod info on mount, storage capacity, token requests, republish, modes, age.
pub(super) fn csi_driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let requests = list(&spec["tokenRequests"]);
    let audiences: Vec<&str> = requests.iter().map(|request| text(&request["audience"])).collect();
    vec![
        name(object),
        spec["attachRequired"].as_bool().unwrap_or(true).into(),
        is_true(&spec["podInfoOnMount"]).into(),
        is_true(&spec["storageCapacity"]).into(),
        if requests.is_empty() { "<unset>".into() } else { audiences.join(",").into() },
        is_true(&spec["requiresRepublish"]).into(),
        text_or(&joined(list(&spec["volumeLifecycleModes"])).into(), "<none>"),
        age(object, now),
    ]
}
