//! All objects of a cluster, and whether a later state lost any of them.

use crate::support::Bed;
use lifeboat_patch::restored::{is_made_anew, losses};
use lifeboat_testbed::Kubectl;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Objects by type, namespace and name.
pub(crate) type Snapshot = BTreeMap<String, Value>;

/// Reads every object that can be listed and created.
pub(crate) fn take(bed: &Bed) -> Snapshot {
    of(&bed.plane.kubectl())
}

/// The same, of any cluster.
pub(crate) fn of(kubectl: &Kubectl) -> Snapshot {
    // It fails, and prints what there is, where an aggregated API is down.
    let types = kubectl.printed(&["api-resources", "--verbs=list,create,get,delete", "--output=name"]).expect("types");
    let types: Vec<&str> = types.lines().filter(|t| !t.ends_with("events.k8s.io")).collect();
    let args = ["get", &types.join(","), "--all-namespaces", "--output=json", "--show-managed-fields"];
    let text = kubectl.try_run(&args).unwrap_or_else(|e| panic!("{e:#}"));
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

/// Everything that is lost or changed in `after`, one line each. Left out are objects that every cluster makes anew and
/// those that had ended; one that a controller makes again may be there or not, but is the same if it is.
pub(crate) fn compare(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut out = Vec::new();
    for (name, object) in before.iter().filter(|(_, object)| is_of_interest(object)) {
        match after.get(name) {
            None if is_remade(object) => {}
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

/// Returns true if a restore brings the object back itself.
pub(crate) fn is_kept(object: &Value) -> bool {
    is_of_interest(object) && !is_remade(object)
}

fn is_of_interest(object: &Value) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let leave_out = match text("/kind") {
        // A restored Job lets go of the pods it had and makes others.
        "Pod" => matches!(text("/status/phase"), "Succeeded" | "Failed") || is_of_a_job(object),
        "Job" => !text("/status/completionTime").is_empty() || has_failed(object),
        // Of the living cluster: renewed all the time.
        "Lease" => text("/metadata/namespace") == "kube-system",
        "APIService" => object["metadata"]["labels"].get("kube-aggregator.kubernetes.io/automanaged").is_some(),
        _ => false,
    };
    !leave_out && !is_made_anew(object)
}

fn has_failed(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Failed" && one["status"] == "True")
}

/// Returns true if a controller of Kubernetes itself owns the object: it makes the object again, maybe under another
/// name. The groups of other controllers have a dot.
fn is_remade(object: &Value) -> bool {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|owner| {
        let api_version = owner["apiVersion"].as_str().unwrap_or_default();
        owner["controller"] == true && !api_version.split_once('/').is_some_and(|(group, _)| group.contains('.'))
    })
}

fn is_of_a_job(object: &Value) -> bool {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["kind"] == "Job")
}

/// Which fields each manager owns by server-side apply.
pub(crate) fn appliers(object: &Value) -> BTreeMap<String, Value> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let applied = entries.filter(|e| e["operation"] == "Apply");
    applied.map(|e| (e["manager"].as_str().unwrap_or_default().to_owned(), e["fieldsV1"].clone())).collect()
}

/// Takes snapshots until one differs from `before` as expected: controllers follow a restore in their own time. After
/// half a minute it fails the test.
pub(crate) fn settled(kubectl: &Kubectl, before: &Snapshot, expected: &[&str]) -> Snapshot {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let after = of(kubectl);
        let differences = compare(before, &after);
        if differences == expected {
            return after;
        }
        assert!(Instant::now() < end, "{differences:#?}\nand not\n{expected:#?}");
        std::thread::park_timeout(Duration::from_millis(500));
    }
}

/// Objects that somebody wrote, made or removed. Their status, which controllers write at any time, does not count.
pub(crate) fn written(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let main = |object: &Value| {
        let mut object = object.clone();
        object.as_object_mut().expect("an object").remove("status");
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        if let Some(managers) = object["metadata"]["managedFields"].as_array_mut() {
            managers.retain(|entry| entry["subresource"] != "status");
        }
        object
    };
    let all = before.iter().chain(after).filter(|(_, object)| is_of_interest(object)).map(|(name, _)| name);
    let names: BTreeSet<&String> = all.collect();
    names.into_iter().filter(|n| before.get(*n).map(main) != after.get(*n).map(main)).cloned().collect()
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

/// Removes the node ports of a service that the user has not asked for, and the port of its health check.
fn forget_automatic_node_ports(service: &mut Value, asked_for: impl Fn(&Value) -> bool) {
    let Some(spec) = service["spec"].as_object_mut() else { return };
    spec.remove("healthCheckNodePort");
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if !asked_for(port) {
            port.as_object_mut().expect("a port").remove("nodePort");
        }
    }
}

/// Returns true if some manager owns the node port of a port.
fn is_owned(managed_fields: &str, port: &Value) -> bool {
    let key = format!(
        "k:{{\\\"port\\\":{},\\\"protocol\\\":\\\"{}\\\"}}",
        port["port"],
        port["protocol"].as_str().unwrap_or("TCP")
    );
    let rest = managed_fields.split(&key).nth(1);
    rest.is_some_and(|rest| rest.split("k:{").next().is_some_and(|of_port| of_port.contains("f:nodePort")))
}
