//! Fields that servers and controllers own, by group and kind: a difference there is not the user's.

use crate::restored::{BINDING, SOURCES, group};
use serde_json::Value;

/// Fields as JSON pointers, by the group and the kind of the object. `docs/compatibility/restores.md` has the list for users.
const OWNED: [(&str, &str, &str); 13] = [
    ("", "Service", "/spec/clusterIP"),
    ("", "Service", "/spec/clusterIPs"),
    ("", "Service", "/spec/healthCheckNodePort"),
    ("", "PersistentVolume", "/spec/claimRef"),
    ("", "PersistentVolumeClaim", "/spec/volumeName"),
    ("apps", "Deployment", "/metadata/annotations/deployment.kubernetes.io~1revision"),
    ("", "Pod", "/spec/nodeName"),
    // Computed from the class of the cluster.
    ("", "Pod", "/spec/priority"),
    // `kubectl debug` adds them, by a subresource.
    ("", "Pod", "/spec/ephemeralContainers"),
    // Names the holder. The holder from the backup must not take the lease from a living leader.
    ("coordination.k8s.io", "Lease", "/spec"),
    ("", "Namespace", "/spec/finalizers"),
    ("batch", "Job", "/spec/selector"),
    ("batch", "Job", "/spec/template/metadata/labels"),
];

/// Of a token that a controller fills in.
const OF_A_TOKEN: [&str; 4] =
    ["/metadata/annotations/kubernetes.io~1service-account.uid", "/data/token", "/data/ca.crt", "/data/namespace"];

/// Fields of an object of the cluster, as JSON pointers, that stay as they are there when it is made to match the one of a backup.
#[must_use]
pub fn owned_fields(desired: &Value, in_cluster: &Value) -> Vec<String> {
    let (of, kind) = (group(desired), desired["kind"].as_str().unwrap_or_default());
    let listed = OWNED.iter().filter(|(group, k, _)| (*group, *k) == (of, kind));
    let mut out: Vec<String> = listed.map(|(_, _, pointer)| (*pointer).to_owned()).collect();
    match (of, kind) {
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            out.extend(BINDING.map(|name| format!("/metadata/annotations/{}", name.replace('/', "~1"))));
        }
        ("", "Secret") if desired["type"] == "kubernetes.io/service-account-token" => {
            out.extend(OF_A_TOKEN.map(str::to_owned));
        }
        // A controller gathers them from other roles.
        ("rbac.authorization.k8s.io", "ClusterRole") if !desired["aggregationRule"].is_null() => {
            out.push("/rules".to_owned());
        }
        _ => {}
    }
    if (of, kind) == ("", "PersistentVolumeClaim") {
        out.extend(SOURCES.map(|name| format!("/spec/{name}")));
        if is_bound(in_cluster) {
            out.push("/spec/selector".to_owned());
        }
    }
    out
}

/// Returns true if a claim is bound to a volume. Its selector no longer matters then, and a backup leaves it out.
#[must_use]
pub fn is_bound(claim: &Value) -> bool {
    claim["spec"]["volumeName"].as_str().is_some_and(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_owned_by_group_and_kind() {
        let object = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "spec": {}});
        for (api_version, kind, expected) in [
            ("coordination.k8s.io/v1", "Lease", vec!["/spec"]),
            ("example.com/v1", "Lease", vec![]),
            ("v1", "Namespace", vec!["/spec/finalizers"]),
            ("example.com/v1", "Namespace", vec![]),
            ("serving.knative.dev/v1", "Service", vec![]),
            ("batch/v1", "Job", vec!["/spec/selector", "/spec/template/metadata/labels"]),
            ("batch.volcano.sh/v1alpha1", "Job", vec![]),
            ("example.com/v1", "PersistentVolumeClaim", vec![]),
        ] {
            let object = object(api_version, kind);
            assert_eq!(owned_fields(&object, &object), expected, "{object}");
        }
    }

    #[test]
    fn a_claim_s_source_is_never_changed_nor_its_selector_once_it_is_bound() {
        let claim = |spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec});
        let owned = |live: Value| {
            let all = owned_fields(&claim(json!({})), &claim(live));
            all.into_iter().filter(|field| field.starts_with("/spec/")).collect::<Vec<_>>()
        };
        let always = ["/spec/volumeName", "/spec/dataSource", "/spec/dataSourceRef"];
        assert_eq!(owned(json!({})), always);
        assert_eq!(owned(json!({"volumeName": "v"})), [&always[..], &["/spec/selector"]].concat());
    }
}
