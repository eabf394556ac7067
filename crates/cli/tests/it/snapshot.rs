//! All objects of a cluster, and whether a later state lost any of them.

use crate::support::Bed;
use lifeboat_patch::restored::{forget_automatic_node_ports, is_made_anew, losses};
use serde_json::Value;
use std::collections::BTreeMap;

/// Objects by type, namespace and name.
pub(crate) type Snapshot = BTreeMap<String, Value>;

/// Reads every object that can be listed and created.
pub(crate) fn take(bed: &Bed) -> Snapshot {
    let types = bed.kubectl(&["api-resources", "--verbs=list,create,get,delete", "--output=name"]);
    let types: Vec<&str> = types.lines().filter(|t| !t.ends_with("events.k8s.io")).collect();
    let text = bed.kubectl(&["get", &types.join(","), "--all-namespaces", "--output=json", "--show-managed-fields"]);
    let list: Value = serde_json::from_str(&text).expect("a list");
    list["items"].as_array().expect("items").iter().map(|object| (name(object), object.clone())).collect()
}

/// The key of an object in a snapshot.
pub(crate) fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
    let group = text("/apiVersion");
    let group = group.split_once('/').map_or("", |(g, _)| g).to_owned();
    format!("{}.{group} {} {}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// Everything that is lost or changed in `after`, one line each. Objects that a controller owns, that every cluster
/// makes anew, or that had ended are left out.
pub(crate) fn compare(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut out = Vec::new();
    for (name, object) in before {
        if !is_kept(object) {
            continue;
        }
        match after.get(name) {
            None => out.push(format!("{name}: lost")),
            Some(found) => {
                let (left, right) = (without_automatic_ports(object), without_automatic_ports(found));
                out.extend(losses(&left, &right).iter().map(|d| format!("{name}: {d}")));
            }
        }
    }
    for (name, object) in after {
        if !before.contains_key(name) && is_kept(object) {
            out.push(format!("{name}: was not there before"));
        }
    }
    out
}

fn is_kept(object: &Value) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let owned =
        object["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.iter().any(|o| o["controller"] == true));
    let ended = match text("/kind") {
        "Pod" => matches!(text("/status/phase"), "Succeeded" | "Failed"),
        "Job" => !text("/status/completionTime").is_empty(),
        // Of the living cluster: renewed all the time.
        "Lease" => text("/metadata/namespace") == "kube-system",
        "APIService" => object["metadata"]["labels"].get("kube-aggregator.kubernetes.io/automanaged").is_some(),
        _ => false,
    };
    !owned && !ended && !is_made_anew(object)
}

/// Node ports that no manager owns were chosen by the API server.
pub(crate) fn without_automatic_ports(object: &Value) -> Value {
    let mut object = object.clone();
    if object["kind"] == "Service" {
        let fields = object["metadata"]["managedFields"].to_string();
        let applied = &object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
        let applied: Value = serde_json::from_str(applied.as_str().unwrap_or("{}")).expect("what was applied");
        forget_automatic_node_ports(&mut object, |port| match applied["spec"]["ports"].as_array() {
            Some(ports) => ports.iter().any(|p| p["nodePort"] == port["nodePort"]),
            None => is_owned(&fields, port),
        });
    }
    object
}

/// Whether some manager owns the node port of a port.
fn is_owned(managed_fields: &str, port: &Value) -> bool {
    let key = format!(
        "k:{{\\\"port\\\":{},\\\"protocol\\\":\\\"{}\\\"}}",
        port["port"],
        port["protocol"].as_str().unwrap_or("TCP")
    );
    let rest = managed_fields.split(&key).nth(1);
    rest.is_some_and(|rest| rest.split("k:{").next().is_some_and(|of_port| of_port.contains("f:nodePort")))
}
