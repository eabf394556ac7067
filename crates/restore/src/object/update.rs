//! The patch by which the policy `update` makes an object match the backup. Pure.

use crate::object::identity_fields::{remove_restore_labels, strip};
use lifeboat_api::well_known::ANNOTATION_AWAITS_FILES;
use lifeboat_object::Quantity;
use lifeboat_patch::owned::owned_fields;
use lifeboat_patch::restored::group;
use lifeboat_patch::{Difference, merge, merge_diff};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The merge patch from the object in the cluster to the one in the backup; `None` when nothing of the user's differs.
/// Both restore labels are in every patch.
pub(crate) fn patch(desired: &Value, in_cluster: &Value) -> Option<Value> {
    let (from, to) = sides(desired, in_cluster);
    let without_labels = |object: &Value| {
        let mut object = object.clone();
        remove_restore_labels(&mut object);
        object
    };
    merge_diff(&without_labels(&from), &without_labels(&to))?;
    merge_diff(&from, &to)
}

/// Where the object in the cluster would change to match the one in the backup.
pub(crate) fn differences(desired: &Value, in_cluster: &Value) -> Vec<Difference> {
    let (mut from, mut to) = sides(desired, in_cluster);
    for side in [&mut from, &mut to] {
        remove_restore_labels(side);
    }
    lifeboat_patch::differences(&from, &to)
}

/// Computes the digest of the fields of an object that count: two states of it with the same digest are the same to a
/// restore.
pub(crate) fn digest(object: &Value) -> [u8; 16] {
    let mut object = prepared(object);
    remove_restore_labels(&mut object);
    let mut out = [0; 16];
    out.copy_from_slice(&Sha256::digest(object.to_string())[..16]);
    out
}

/// Both objects with the fields that are compared: the one in the cluster, and its target state.
fn sides(desired: &Value, in_cluster: &Value) -> (Value, Value) {
    let (mut from, mut to) = (prepared(in_cluster), prepared(desired));
    // Of types of which it is data: the others have lost it on their way here.
    if let Some(status) = desired.get("status") {
        to["status"] = status.clone();
        if let Some(status) = in_cluster.get("status") {
            from["status"] = status.clone();
        }
    }
    match (group(desired), desired["kind"].as_str().unwrap_or_default()) {
        ("", "Service") => keep_node_ports(&mut to, &from),
        ("", "Pod") => keep_job_tracking(&mut to, &from),
        ("", "PersistentVolumeClaim") => {
            keep_request(&mut to, &from);
            keep_mark(&mut to, &from);
        }
        _ => {}
    }
    for pointer in owned_fields(desired, in_cluster) {
        keep(&mut to, &from, &pointer);
    }
    (from, to)
}

/// The object without the fields that differ for each creation of it, and without the owners of its fields.
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
            // A map that only this made empty is no difference.
            if map.is_empty() && from.pointer(parent).is_none() {
                keep(to, from, parent);
            }
        }
    }
}

/// Does not give a pod back the finalizer of the job controller, which takes it off pods that it does not know, such as
/// restored ones.
fn keep_job_tracking(to: &mut Value, from: &Value) {
    const HOLD: &str = "batch.kubernetes.io/job-tracking";
    let is_held = from["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|f| f == HOLD));
    let Some(finalizers) = to.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) else { return };
    if !is_held {
        finalizers.retain(|finalizer| finalizer != HOLD);
        if finalizers.is_empty() {
            keep(to, from, "/metadata/finalizers");
        }
    }
}

/// Lets a claim that comes from a snapshot ask for no more than the one in the cluster: a backup raises the request in
/// its copy to the size that a volume from the snapshot needs.
fn keep_request(to: &mut Value, from: &Value) {
    const REQUEST: &str = "/spec/resources/requests/storage";
    if to["spec"]["dataSource"]["kind"] != "VolumeSnapshot" {
        return;
    }
    let asked = |claim: &Value| claim.pointer(REQUEST).and_then(Value::as_str).and_then(Quantity::parse);
    if asked(to).zip(asked(from)).is_some_and(|(copy, there)| copy.exceeds(there)) {
        keep(to, from, REQUEST);
    }
}

/// Lets a claim wait for its data as it does in the cluster. The mark is put on when a claim is made, for it says that nothing in the claim
/// is worth keeping; one that came to be in the meantime holds data of its own. And only those take it off who have filled the claim.
fn keep_mark(to: &mut Value, from: &Value) {
    let pointer = format!("/metadata/annotations/{}", ANNOTATION_AWAITS_FILES.replace('/', "~1"));
    if to.pointer(&pointer) != from.pointer(&pointer) {
        keep(to, from, &pointer);
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
            let mut out = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": replicas}});
            if let Some(revision) = revision {
                out["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": revision});
            }
            out
        };
        assert_eq!(patch(&deployment(Some("1"), 2), &deployment(Some("5"), 2)), None);
        assert_eq!(patch(&deployment(None, 2), &deployment(Some("5"), 2)), None);
        assert_eq!(patch(&deployment(Some("1"), 2), &deployment(Some("5"), 3)), Some(json!({"spec": {"replicas": 2}})));
        assert_eq!(patch(&deployment(Some("1"), 2), &deployment(None, 2)), None);
    }

    #[test]
    fn what_controllers_fill_in_stays() {
        let pod = |spec: Value| json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
        let held = |finalizers: &[&str]| json!({"kind": "Pod", "metadata": {"name": "p", "finalizers": finalizers}, "spec": {}});
        let claim = |annotations: Value| json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": annotations}});
        let volume = |annotations: Value| json!({"kind": "PersistentVolume", "metadata": {"name": "v", "annotations": annotations}});
        let secret = |of: &str, annotations: Value, data: Value| json!({"kind": "Secret", "type": of, "metadata": {"name": "s", "annotations": annotations}, "data": data});
        let token = |annotations: Value, data: Value| secret("kubernetes.io/service-account-token", annotations, data);
        let role = |aggregation: Value, rules: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "aggregationRule": aggregation, "rules": rules});
        let lease = |holder: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": holder}});
        let of_others = |holder: &str| json!({"apiVersion": "example.com/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": holder}});
        let name = "kubernetes.io/service-account.name";
        for (desired, live, expected) in [
            (pod(json!({})), pod(json!({"priority": 7, "nodeName": "n", "ephemeralContainers": [1]})), None),
            (held(&["batch.kubernetes.io/job-tracking"]), pod(json!({})), None),
            (
                held(&["batch.kubernetes.io/job-tracking", "mine"]),
                pod(json!({})),
                Some(json!({"metadata": {"finalizers": ["mine"]}})),
            ),
            (
                claim(json!({})),
                claim(json!({"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n"})),
                None,
            ),
            (
                claim(json!({"a": "1"})),
                claim(json!({"a": "2", "pv.kubernetes.io/bind-completed": "yes"})),
                Some(json!({"metadata": {"annotations": {"a": "1"}}})),
            ),
            (volume(json!({})), volume(json!({"pv.kubernetes.io/bound-by-controller": "yes"})), None),
            (
                token(json!({name: "web"}), json!({"extra": "eA=="})),
                token(
                    json!({name: "web", "kubernetes.io/service-account.uid": "u"}),
                    json!({"extra": "eA==", "token": "dA==", "ca.crt": "Yw==", "namespace": "bg=="}),
                ),
                None,
            ),
            (
                secret("Opaque", json!({}), json!({"token": "YQ=="})),
                secret("Opaque", json!({}), json!({"token": "Yg=="})),
                Some(json!({"data": {"token": "YQ=="}})),
            ),
            (
                role(json!({"clusterRoleSelectors": []}), json!([1])),
                role(json!({"clusterRoleSelectors": []}), json!([2])),
                None,
            ),
            (role(Value::Null, json!([1])), role(Value::Null, json!([2])), Some(json!({"rules": [1]}))),
            (lease("was"), lease("is"), None),
            (of_others("was"), of_others("is"), Some(json!({"spec": {"holderIdentity": "was"}}))),
        ] {
            assert_eq!(patch(&desired, &live), expected, "{desired} over {live}");
        }
    }

    #[test]
    fn a_claim_that_came_from_a_snapshot_is_as_in_the_backup() {
        let claim = |spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec});
        let asks = |storage: &str| json!({"requests": {"storage": storage}});
        let source = |name: &str| json!({"kind": "VolumeSnapshot", "name": name});
        let restored =
            claim(json!({"volumeName": "pv-2", "dataSource": source("velero-x"), "dataSourceRef": source("velero-x"),
            "selector": {}, "resources": asks("10Gi")}));
        for (desired, expected) in [
            // Its copy, bound to the volume that it had, and as it comes from its snapshot.
            (claim(json!({"volumeName": "pv-1", "resources": asks("10Gi")})), None),
            (claim(json!({"dataSource": source("velero-y"), "resources": asks("11Gi")})), None),
            (
                claim(json!({"volumeName": "pv-1", "resources": asks("11Gi")})),
                Some(json!({"spec": {"resources": asks("11Gi")}})),
            ),
        ] {
            assert_eq!(patch(&desired, &restored), expected, "{desired}");
        }
    }

    #[test]
    fn a_claim_waits_for_its_files_as_it_does_in_the_cluster() {
        let claim = |annotations: Value| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": annotations}});
        let bare = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}});
        let mark = "lifeboat.io/awaits-files";
        let waits = claim(json!({mark: "true"}));
        for (desired, in_cluster, expected) in [
            // It was made by somebody else after the restore had looked.
            (&waits, &bare, None),
            (&waits, &claim(json!({"a": "2"})), Some(json!({"metadata": {"annotations": {"a": null}}}))),
            (&claim(json!({mark: "true", "a": "1"})), &bare, Some(json!({"metadata": {"annotations": {"a": "1"}}}))),
            // An earlier restore has made it, and its files have not come.
            (&bare, &waits, None),
            (&claim(json!({"a": "1"})), &waits, Some(json!({"metadata": {"annotations": {"a": "1"}}}))),
        ] {
            assert_eq!(patch(desired, in_cluster), expected, "{desired} over {in_cluster}");
        }
    }

    #[test]
    fn a_status_that_is_data_is_compared_and_any_other_is_not() {
        let object = |status: Value| json!({"apiVersion": "example.com/v1", "kind": "Door", "metadata": {"name": "d"}, "status": status});
        let (open, shut) = (object(json!({"state": "open"})), object(json!({"state": "shut"})));
        assert_eq!(patch(&open, &shut), Some(json!({"status": {"state": "open"}})));
        assert_eq!(patch(&open, &open), None);
        let mut without = open.clone();
        without.as_object_mut().unwrap().remove("status");
        assert_eq!(
            (patch(&without, &shut), patch(&open, &without)),
            (None, Some(json!({"status": {"state": "open"}})))
        );
    }
}
