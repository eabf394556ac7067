//! Objects as they are in other namespaces.

use crate::snapshot::{self, Snapshot};
use serde_json::Value;

/// Namespaces and what they are mapped to.
pub(crate) type Mapping<'a> = [(&'a str, &'a str)];

/// The objects as they are after a move: with all that those of the fixtures say about namespaces.
pub(crate) fn moved(before: &Snapshot, mapping: &Mapping<'_>) -> Snapshot {
    let follow = |place: Option<&mut Value>| {
        let Some(place) = place else { return };
        if let Some((_, target)) = mapping.iter().find(|(source, _)| *place == *source) {
            *place = (*target).into();
        }
    };
    let moved = |object: &Value| {
        let mut object = object.clone();
        follow(object.pointer_mut("/metadata/namespace"));
        match object["kind"].as_str().unwrap_or_default() {
            "Namespace" => {
                follow(object.pointer_mut("/metadata/name"));
                follow(object.pointer_mut("/metadata/labels/kubernetes.io~1metadata.name"));
            }
            "IngressClass" => follow(object.pointer_mut("/spec/parameters/namespace")),
            "PersistentVolume" => follow(object.pointer_mut("/spec/claimRef/namespace")),
            "RoleBinding" | "ClusterRoleBinding" => {
                let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
                for subject in subjects.into_iter().flatten() {
                    follow(subject.get_mut("namespace"));
                    let group = subject["name"].as_str().and_then(|name| name.strip_prefix("system:serviceaccounts:"));
                    if let Some((_, target)) = mapping.iter().find(|(source, _)| group == Some(*source)) {
                        subject["name"] = format!("system:serviceaccounts:{target}").into();
                    }
                }
            }
            "NetworkPolicy" => {
                let selector = "/spec/ingress/0/from/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name";
                follow(object.pointer_mut(selector));
            }
            _ => {}
        }
        (snapshot::name(&object), object)
    };
    before.values().map(moved).collect()
}

/// Only what lies in the targets.
pub(crate) fn of_targets(mut all: Snapshot, mapping: &Mapping<'_>) -> Snapshot {
    all.retain(|_, object| mapping.iter().any(|(_, target)| object["metadata"]["namespace"] == *target));
    all
}

/// The originals hold their ports, so that copies get others.
pub(crate) fn without_node_ports(mut all: Snapshot) -> Snapshot {
    for object in all.values_mut().filter(|o| o["kind"] == "Service") {
        for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
            port.as_object_mut().expect("a port").remove("nodePort");
        }
    }
    all
}
