//! The patch by which the policy `update` makes an object match the backup. Pure.

use crate::existing::strip;
use lifeboat_patch::{Difference, merge, merge_diff};
use serde_json::Value;

/// Fields that servers and controllers own: a difference there is not the user's, and is left as it is in the cluster.
/// `docs/compatibility.md` has the list for users.
const OWNED: [(&str, &str); 15] = [
    ("Service", "/spec/clusterIP"),
    ("Service", "/spec/clusterIPs"),
    ("Service", "/spec/healthCheckNodePort"),
    ("PersistentVolume", "/spec/claimRef"),
    ("PersistentVolume", "/metadata/annotations/pv.kubernetes.io~1bound-by-controller"),
    ("PersistentVolumeClaim", "/spec/volumeName"),
    ("PersistentVolumeClaim", "/metadata/annotations/pv.kubernetes.io~1bind-completed"),
    ("PersistentVolumeClaim", "/metadata/annotations/pv.kubernetes.io~1bound-by-controller"),
    ("PersistentVolumeClaim", "/metadata/annotations/volume.kubernetes.io~1selected-node"),
    ("Deployment", "/metadata/annotations/deployment.kubernetes.io~1revision"),
    ("Pod", "/spec/nodeName"),
    // Of the class, when the pod was admitted.
    ("Pod", "/spec/priority"),
    ("Namespace", "/spec/finalizers"),
    ("Job", "/spec/selector"),
    ("Job", "/spec/template/metadata/labels"),
];

/// What the controller manager puts into the token of a service account.
const TOKEN: [&str; 4] =
    ["/data/token", "/data/ca.crt", "/data/namespace", "/metadata/annotations/kubernetes.io~1service-account.uid"];

/// The merge patch from the object in the cluster to the one in the backup; `None` when nothing of the user's differs.
/// Both restore labels are in every patch.
pub(crate) fn patch(desired: &Value, in_cluster: &Value) -> Option<Value> {
    let (from, to) = sides(desired, in_cluster);
    let without_labels = |object: &Value| {
        let mut object = object.clone();
        crate::existing::remove_restore_labels(&mut object);
        object
    };
    merge_diff(&without_labels(&from), &without_labels(&to))?;
    merge_diff(&from, &to)
}

/// Where the object in the cluster would change to match the one in the backup.
pub(crate) fn differences(desired: &Value, in_cluster: &Value) -> Vec<Difference> {
    let (mut from, mut to) = sides(desired, in_cluster);
    for side in [&mut from, &mut to] {
        crate::existing::remove_restore_labels(side);
    }
    lifeboat_patch::differences(&from, &to)
}

/// Both objects with what counts: the one in the cluster, and what it should become.
fn sides(desired: &Value, in_cluster: &Value) -> (Value, Value) {
    let from = prepared(in_cluster);
    let mut to = prepared(desired);
    let kind = desired["kind"].as_str().unwrap_or_default().to_owned();
    for (_, pointer) in OWNED.iter().filter(|(k, _)| *k == kind) {
        keep(&mut to, &from, pointer);
    }
    if kind == "Service" {
        keep_node_ports(&mut to, &from);
    }
    if kind == "Secret" && from["type"] == "kubernetes.io/service-account-token" {
        for pointer in TOKEN {
            keep(&mut to, &from, pointer);
        }
    }
    (from, to)
}

/// Nothing of one life, no owners of fields.
fn prepared(object: &Value) -> Value {
    let mut object = object.clone();
    strip(&mut object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// Makes `to` the same as `from` at a place.
fn keep(to: &mut Value, from: &Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    let key = key.replace("~1", "/");
    let value = from.pointer(pointer).cloned();
    let Some(map) = to.pointer_mut(parent).and_then(Value::as_object_mut) else {
        if let Some(value) = value {
            let mut patch = value;
            for part in pointer.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
                patch = serde_json::json!({ part.replace("~1", "/"): patch });
            }
            merge(to, &patch);
        }
        return;
    };
    match value {
        Some(value) => {
            map.insert(key, value);
        }
        None => {
            map.remove(&key);
        }
    }
}

/// A port that asks for no node port keeps the one the cluster gave it.
fn keep_node_ports(to: &mut Value, from: &Value) {
    let given: Vec<(Value, Value, Value)> = from
        .pointer("/spec/ports")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|p| (p["port"].clone(), p["protocol"].clone(), p["nodePort"].clone()))
        .collect();
    let Some(ports) = to.pointer_mut("/spec/ports").and_then(Value::as_array_mut) else { return };
    for port in ports.iter_mut().filter(|p| p["nodePort"].is_null() || p["nodePort"] == 0) {
        let found = given.iter().find(|(number, protocol, _)| *number == port["port"] && *protocol == port["protocol"]);
        if let (Some((_, _, node_port)), Some(map)) = (found, port.as_object_mut()) {
            if node_port.is_null() {
                map.remove("nodePort");
            } else {
                map.insert("nodePort".to_owned(), node_port.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_user_s_fields_become_those_of_the_backup() {
        let labels = json!({"velero.io/restore-name": "r", "velero.io/backup-name": "b", "app": "web"});
        let desired = json!({"kind": "ConfigMap", "metadata": {"name": "c", "labels": labels}, "data": {"a": "1"}});
        let drifted = json!({"kind": "ConfigMap", "metadata": {"name": "c", "uid": "u", "labels": {"app": "web", "drift": "yes"}, "managedFields": [1]}, "data": {"a": "2", "new": "key"}});
        assert_eq!(
            patch(&desired, &drifted),
            Some(json!({
                "metadata": {"labels": {"drift": null, "velero.io/restore-name": "r", "velero.io/backup-name": "b"}},
                "data": {"a": "1", "new": null}
            }))
        );
        let same = json!({"kind": "ConfigMap", "metadata": {"name": "c", "uid": "u", "labels": {"app": "web"}}, "data": {"a": "1"}});
        assert_eq!(patch(&desired, &same), None, "labels of the restore alone are no reason to write");
    }

    #[test]
    fn what_the_cluster_owns_stays() {
        let service = |ip: Option<&str>, node_port: Option<u32>| {
            let mut out = json!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "protocol": "TCP"}]}});
            if let Some(ip) = ip {
                out["spec"]["clusterIP"] = json!(ip);
                out["spec"]["clusterIPs"] = json!([ip]);
            }
            if let Some(port) = node_port {
                out["spec"]["ports"][0]["nodePort"] = json!(port);
            }
            out
        };
        assert_eq!(patch(&service(None, None), &service(Some("10.0.0.1"), Some(30001))), None);
        assert_eq!(
            patch(&service(None, Some(30002)), &service(Some("10.0.0.1"), Some(30001))),
            Some(json!({"spec": {"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30002}]}}))
        );
        let token = |data: Value, annotations: Value| json!({"kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": {"name": "t", "annotations": annotations}, "data": data});
        let kept = token(json!({"extra": "MQ=="}), json!({"kubernetes.io/service-account.name": "a"}));
        let filled = token(
            json!({"extra": "MQ==", "token": "Mg==", "ca.crt": "Mw=="}),
            json!({"kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "u"}),
        );
        assert_eq!(patch(&kept, &filled), None);
        let claim = |annotations: Value| json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": annotations}, "spec": {}});
        assert_eq!(patch(&claim(json!({})), &claim(json!({"pv.kubernetes.io/bind-completed": "yes"}))), None);
        let deployment = |revision: Option<&str>, replicas: u32| {
            let mut out = json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": replicas}});
            if let Some(revision) = revision {
                out["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": revision});
            }
            out
        };
        assert_eq!(patch(&deployment(Some("1"), 2), &deployment(Some("5"), 2)), None);
        assert_eq!(patch(&deployment(None, 2), &deployment(Some("5"), 2)), None);
        assert_eq!(patch(&deployment(Some("1"), 2), &deployment(Some("5"), 3)), Some(json!({"spec": {"replicas": 2}})));
    }
}
