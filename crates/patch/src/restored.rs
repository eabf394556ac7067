//! Fields of an object that belong to one life of it and never come back by a restore.
//!
//! The list is closed: anything else that differs between an object in a backup and the restored one is a loss.

use crate::{Difference, differences};
use serde_json::{Map, Value};

/// Fields of `metadata` that the API server gives to each life of an object.
pub const OF_ONE_LIFE: [&str; 8] = [
    "generateName",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Owners of the object and of its fields: a restore drops the first and has a way of its own for the second.
const OWNERS: [&str; 2] = ["managedFields", "ownerReferences"];

/// Labels that a restore adds.
const LABELS: [&str; 2] = ["velero.io/backup-name", "velero.io/restore-name"];

/// Labels by which a Job without a selector of its own finds its pods: its uid.
const JOB_UID: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// Annotations by which claims and volumes are bound.
pub const BINDING: [&str; 5] = [
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
];

/// Fields of a claim that say where its data comes from: nothing can change them, a restore gives them what it has made, and a
/// backup leaves them out of its copy of a bound claim.
pub const SOURCES: [&str; 2] = ["dataSource", "dataSourceRef"];

/// The group of an object.
#[must_use]
pub fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

/// Returns true if controllers or the API server make the object themselves in every cluster, so that the object in the
/// backup says nothing about the restored one.
#[must_use]
pub fn is_made_anew(object: &Value) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if written_by_cluster(object).is_some() {
        return true;
    }
    match (group(object), text("/kind")) {
        ("" | "events.k8s.io", "Event") | ("", "Node") => true,
        // Those that a person keeps for a Service without a selector, or for none, bear no mark of a controller.
        ("", "Endpoints") => text("/metadata/labels/endpoints.kubernetes.io~1managed-by") == "endpoint-controller",
        ("discovery.k8s.io", "EndpointSlice") => SLICE_MAKERS.contains(&text(SLICE_MAKER)),
        _ => false,
    }
}

/// Explains that controllers, nodes or API servers write this object in every cluster, with what is true of that
/// cluster alone, so that a restore neither makes nor changes it; `None` for all other objects.
#[must_use]
pub fn written_by_cluster(object: &Value) -> Option<&'static str> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    match (group(object), text("/kind")) {
        ("", "ConfigMap") => match (namespace, name) {
            (_, "kube-root-ca.crt") => Some("controllers make it in every namespace"),
            (
                "kube-system",
                "extension-apiserver-authentication" | "kube-apiserver-legacy-service-account-token-tracking",
            ) => Some("the API server of each cluster writes it"),
            ("kube-public", "cluster-info") => Some("it says how the cluster of the backup is reached and trusted"),
            _ => None,
        },
        ("", "Endpoints") | ("discovery.k8s.io", "EndpointSlice") if (namespace, name) == ("default", "kubernetes") => {
            Some("the API servers of each cluster write their addresses into it")
        }
        ("resource.k8s.io", "ResourceSlice") => Some("drivers write what the nodes of each cluster have"),
        ("storage.k8s.io", "CSIStorageCapacity") => Some("drivers write what the storage of each cluster has"),
        // One that somebody has reserved by hand bears no mark of the allocator.
        ("networking.k8s.io", "IPAddress")
            if text("/metadata/labels/ipaddress.kubernetes.io~1managed-by") == "ipallocator.k8s.io" =>
        {
            Some("the API server of each cluster gives its Services their addresses")
        }
        ("coordination.k8s.io", "Lease") if namespace == "kube-node-lease" => Some("each node writes its own"),
        ("coordination.k8s.io", "Lease")
            if text("/metadata/labels/apiserver.kubernetes.io~1identity") == "kube-apiserver" =>
        {
            Some("each API server writes its own")
        }
        _ => None,
    }
}

/// Names the component that keeps an object of the cluster up to date, so that an older object from a backup is not
/// written over it; `None` for all other objects.
#[must_use]
pub fn kept_up_by_cluster(in_cluster: &Value) -> Option<&'static str> {
    let text = |pointer: &str| in_cluster.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_kept_up = match (group(in_cluster), text("/kind")) {
        ("rbac.authorization.k8s.io", _) => {
            text("/metadata/labels/kubernetes.io~1bootstrapping") == "rbac-defaults"
                && text("/metadata/annotations/rbac.authorization.kubernetes.io~1autoupdate") == "true"
        }
        ("flowcontrol.apiserver.k8s.io", _) => {
            text("/metadata/annotations/apf.kubernetes.io~1autoupdate-spec") == "true"
        }
        ("apiregistration.k8s.io", "APIService") => {
            !text("/metadata/labels/kube-aggregator.kubernetes.io~1automanaged").is_empty()
        }
        ("", "Service") => (text("/metadata/namespace"), text("/metadata/name")) == ("default", "kubernetes"),
        _ => false,
    };
    is_kept_up.then_some("the API server keeps it up to date")
}

/// The label with the controller that keeps an EndpointSlice, and its values for the controllers of Kubernetes.
const SLICE_MAKER: &str = "/metadata/labels/endpointslice.kubernetes.io~1managed-by";
const SLICE_MAKERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

/// The object without what belongs to one life of it.
#[must_use]
pub fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    remove(&mut object, &[], &["status"]);
    remove(&mut object, &["metadata"], &OF_ONE_LIFE);
    remove(&mut object, &["metadata"], &OWNERS);
    remove(&mut object, &["metadata", "labels"], &LABELS);
    match kind.as_str() {
        "PersistentVolumeClaim" => remove(&mut object, &["metadata", "annotations"], &BINDING),
        "PersistentVolume" => {
            remove(&mut object, &["metadata", "annotations"], &BINDING);
            remove(&mut object, &["spec", "claimRef"], &["uid", "resourceVersion"]);
        }
        "Job" => {
            remove(&mut object, &["metadata", "labels"], &JOB_UID);
            remove(&mut object, &["spec", "selector", "matchLabels"], &JOB_UID);
            remove(&mut object, &["spec", "template", "metadata", "labels"], &JOB_UID);
        }
        // Addresses are given by the cluster; headless services keep `None`.
        "Service" if object["spec"]["clusterIP"] != "None" => {
            remove(&mut object, &["spec"], &["clusterIP", "clusterIPs"]);
        }
        "Secret" if object["type"] == "kubernetes.io/service-account-token" => {
            remove(&mut object, &["metadata", "annotations"], &["kubernetes.io/service-account.uid"]);
            remove(&mut object, &["data"], &["token", "ca.crt", "namespace"]);
            drop_empty(&mut object, &[], "data");
        }
        _ => {}
    }
    drop_empty(&mut object, &["metadata"], "labels");
    drop_empty(&mut object, &["metadata"], "annotations");
    object
}

/// The differences between a restored object and the one in the backup that are losses.
#[must_use]
pub fn losses(in_backup: &Value, restored: &Value) -> Vec<Difference> {
    differences(&comparable(in_backup), &comparable(restored))
}

fn at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    path.iter().try_fold(value, |value, key| value.get_mut(*key))?.as_object_mut()
}

fn remove(value: &mut Value, path: &[&str], keys: &[&str]) {
    if let Some(map) = at(value, path) {
        for key in keys {
            map.remove(*key);
        }
    }
}

fn drop_empty(value: &mut Value, path: &[&str], key: &str) {
    if let Some(map) = at(value, path)
        && map.get(key).and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn objects() -> Vec<Value> {
        vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}, "finalizers": ["f"]}, "data": {"k": "v"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "web"}}, "data": {"extra": "eA=="}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80, "nodePort": 30080}], "selector": {"a": "b"}}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"claimRef": {"name": "c", "namespace": "n"}, "capacity": {"storage": "1Gi"}}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeName": "pv"}}),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"selector": {"matchLabels": {"own": "1"}},
                "template": {"metadata": {"labels": {"own": "1"}}, "spec": {}}}}),
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"list": [{"b": null}], "n": 1.5}}),
        ]
    }

    #[test]
    fn another_life_is_no_loss() {
        for object in objects() {
            let mut live = object.clone();
            for key in OF_ONE_LIFE.into_iter().chain(OWNERS) {
                live["metadata"][key] = json!("of this life");
            }
            live["status"] = json!({"phase": "Active"});
            live["metadata"]["labels"]["velero.io/backup-name"] = json!("b");
            live["metadata"]["labels"]["velero.io/restore-name"] = json!("r");
            match object["kind"].as_str() {
                Some("PersistentVolume") => {
                    live["spec"]["claimRef"]["uid"] = json!("u");
                    live["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = json!("yes");
                }
                Some("PersistentVolumeClaim") => {
                    live["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
                }
                Some("Job") => {
                    for label in JOB_UID {
                        live["metadata"]["labels"][label] = json!("u");
                        live["spec"]["selector"]["matchLabels"][label] = json!("u");
                        live["spec"]["template"]["metadata"]["labels"][label] = json!("u");
                    }
                }
                Some("Secret") => {
                    live["data"]["token"] = json!("x");
                    live["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!("u");
                }
                _ => {}
            }
            assert_eq!(losses(&object, &live), vec![], "{object}");
        }
        let service = |ip: &str| json!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": ip, "clusterIPs": [ip]}});
        assert_eq!(losses(&service("10.0.0.1"), &service("10.0.0.2")), vec![]);
        assert_eq!(losses(&service("None"), &service("10.0.0.2")).len(), 2);
        let secret = |of: &str, token: &str| json!({"kind": "Secret", "type": of, "metadata": {"name": "s"}, "data": {"token": token}});
        assert_eq!(losses(&secret("Opaque", "a"), &secret("Opaque", "b")).len(), 1);
        let of_account = "kubernetes.io/service-account-token";
        assert_eq!(losses(&secret(of_account, "a"), &secret(of_account, "b")), vec![]);
    }

    #[test]
    fn only_what_a_controller_keeps_is_made_anew() {
        let object = |api_version: &str, kind: &str, name: &str, labels: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}});
        let slice = |maker: &str| {
            object(
                "discovery.k8s.io/v1",
                "EndpointSlice",
                "s",
                json!({"endpointslice.kubernetes.io/managed-by": maker}),
            )
        };
        let none = || json!({});
        for (object, expected) in [
            (object("v1", "Event", "e", none()), true),
            (object("events.k8s.io/v1", "Event", "e", none()), true),
            (object("v1", "Node", "n", none()), true),
            (object("networking.k8s.io/v1", "IPAddress", "10.0.0.1", none()), false),
            (
                object(
                    "networking.k8s.io/v1",
                    "IPAddress",
                    "10.0.0.2",
                    json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}),
                ),
                true,
            ),
            (object("v1", "ConfigMap", "kube-root-ca.crt", none()), true),
            (object("v1", "ConfigMap", "mine", none()), false),
            (object("resource.k8s.io/v1", "ResourceSlice", "n-gpu", none()), true),
            (object("storage.k8s.io/v1", "CSIStorageCapacity", "c", none()), true),
            (object("example.org/v1", "Node", "n", none()), false),
            (
                object("v1", "Endpoints", "e", json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"})),
                true,
            ),
            (object("v1", "Endpoints", "e", none()), false),
            (slice("endpointslice-controller.k8s.io"), true),
            (slice("endpointslicemirroring-controller.k8s.io"), true),
            (slice("mesh.example.org"), false),
            (object("discovery.k8s.io/v1", "EndpointSlice", "s", none()), false),
        ] {
            assert_eq!(is_made_anew(&object), expected, "{object}");
        }
    }

    #[test]
    fn what_a_cluster_writes_about_itself_is_known_by_its_place_and_marks() {
        let object = |api_version: &str, kind: &str, place: (&str, &str), rest: Value| {
            let mut object =
                json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": place.0, "name": place.1}});
            crate::merge(&mut object, &json!({ "metadata": rest }));
            object
        };
        let (none, lease) = (json!({}), "coordination.k8s.io/v1");
        let identity = json!({"labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}});
        let role = |update: &str| {
            json!({"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": update}})
        };
        let flow = json!({"annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}});
        let (rbac, flows) = ("rbac.authorization.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1");
        for (object, is_written, is_kept_up) in [
            (
                object("v1", "ConfigMap", ("kube-system", "extension-apiserver-authentication"), none.clone()),
                true,
                false,
            ),
            (object("v1", "ConfigMap", ("shop", "extension-apiserver-authentication"), none.clone()), false, false),
            (object("v1", "ConfigMap", ("kube-public", "cluster-info"), none.clone()), true, false),
            (object("v1", "ConfigMap", ("kube-system", "coredns"), none.clone()), false, false),
            (object("v1", "Endpoints", ("default", "kubernetes"), none.clone()), true, false),
            (object("v1", "Endpoints", ("shop", "kubernetes"), none.clone()), false, false),
            (object("v1", "Service", ("default", "kubernetes"), none.clone()), false, true),
            (object("v1", "Service", ("default", "web"), none.clone()), false, false),
            (object(lease, "Lease", ("kube-node-lease", "node-1"), none.clone()), true, false),
            (object(lease, "Lease", ("kube-system", "apiserver-x"), identity), true, false),
            (object(lease, "Lease", ("kube-system", "mine"), none.clone()), false, false),
            (object(rbac, "ClusterRole", ("", "edit"), role("true")), false, true),
            (object(rbac, "ClusterRole", ("", "edit"), role("false")), false, false),
            (object("example.com/v1", "ClusterRole", ("", "edit"), role("true")), false, false),
            (object(flows, "FlowSchema", ("", "exempt"), flow.clone()), false, true),
            (object(flows, "FlowSchema", ("", "mine"), none.clone()), false, false),
        ] {
            assert_eq!(
                (written_by_cluster(&object).is_some(), kept_up_by_cluster(&object).is_some()),
                (is_written, is_kept_up),
                "{object}"
            );
        }
    }

    /// Every leaf and every branch, removed or changed, one at a time.
    #[test]
    fn any_other_change_is_a_loss() {
        for object in objects() {
            let mut paths = Vec::new();
            collect(&object, String::new(), &mut paths);
            for path in paths {
                let mut changed = object.clone();
                *changed.pointer_mut(&path).unwrap() = json!("changed");
                assert_ne!(losses(&object, &changed), vec![], "changed {path} of {object}");
                let (parent, key) = path.rsplit_once('/').unwrap();
                let mut removed = object.clone();
                match removed.pointer_mut(parent).unwrap() {
                    Value::Object(map) => {
                        map.remove(&key.replace("~1", "/").replace("~0", "~"));
                    }
                    Value::Array(list) => {
                        list.remove(key.parse().unwrap());
                    }
                    _ => unreachable!("a parent holds something"),
                }
                assert_ne!(losses(&object, &removed), vec![], "removed {path} of {object}");
            }
        }
    }

    fn collect(value: &Value, path: String, out: &mut Vec<String>) {
        if !path.is_empty() {
            out.push(path.clone());
        }
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    collect(inner, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), out);
                }
            }
            Value::Array(list) => {
                for (i, inner) in list.iter().enumerate() {
                    collect(inner, format!("{path}/{i}"), out);
                }
            }
            _ => {}
        }
    }
}
