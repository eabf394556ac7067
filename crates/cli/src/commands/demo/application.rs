//! The application of the demo.

use serde_json::{Value, json};

/// The namespaces it lives in.
const NAMESPACES: [&str; 3] = ["demo-shop", "demo-orders", "demo-operator"];
/// The type its operator defines.
const DEFINITION: &str = "stores.demo.lifeboat.io";

/// Objects to delete so that all of the application is lost: group, type, names. Cluster-scoped, in this order.
pub(crate) fn roots() -> [(&'static str, &'static str, Vec<&'static str>); 4] {
    [
        ("", "namespaces", NAMESPACES.to_vec()),
        ("apiextensions.k8s.io", "customresourcedefinitions", vec![DEFINITION]),
        ("rbac.authorization.k8s.io", "clusterroles", vec!["demo-operator"]),
        ("rbac.authorization.k8s.io", "clusterrolebindings", vec!["demo-operator"]),
    ]
}

/// At least this many objects: a shop, its orders, and an operator with custom resources.
pub(crate) fn objects(count: u32) -> Vec<Value> {
    let mut out: Vec<Value> = NAMESPACES
        .iter()
        .map(|n| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n, "labels": {"team": "demo"}}}))
        .collect();
    out.extend(operator());
    let fixed = u32::try_from(out.len()).unwrap_or(u32::MAX);
    let mut made = fixed;
    let mut n = 0;
    while made < count {
        let parts = service(n);
        made += u32::try_from(parts.len()).unwrap_or(1);
        out.extend(parts);
        n += 1;
    }
    out
}

fn operator() -> Vec<Value> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    vec![
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
            "spec": {"group": "demo.lifeboat.io", "scope": "Namespaced",
                "names": {"kind": "Store", "listKind": "StoreList", "plural": "stores", "singular": "store"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}},
                    {"name": "v1beta1", "served": true, "storage": false, "schema": schema}]}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "demo-operator"},
            "rules": [{"apiGroups": ["demo.lifeboat.io"], "resources": ["stores"], "verbs": ["*"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "demo-operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "demo-operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": "demo-operator"}]}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator", "namespace": "demo-operator"}}),
        // As large as one can be, and in many languages.
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "catalogue", "namespace": "demo-shop",
            "annotations": {"note": "café, 漢字, <b>&amp;</b>, line\nbreak \"quoted\""}}, "data": {"large": "x".repeat(900_000)}}),
    ]
}

/// Returns a service of the shop, with the objects that belong to it.
fn service(n: u32) -> Vec<Value> {
    let namespace = if n.is_multiple_of(3) { "demo-orders" } else { "demo-shop" };
    let name = format!("service-{n}");
    let meta = json!({"name": name, "namespace": namespace, "labels": {"app": name, "tier": if n.is_multiple_of(2) { "gold" } else { "silver" }}});
    let labels = json!({"app": name});
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"settings.yaml": format!("port: {n}\nlist: [1, 2, 3]\n")}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": {"password": "c2VjcmV0"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"type": "ClusterIP", "selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": format!("registry.example.com/{name}:1.{n}"),
                "envFrom": [{"configMapRef": {"name": name}}]}]}}}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}),
        json!({"apiVersion": "demo.lifeboat.io/v1", "kind": "Store", "metadata": meta, "spec": {"size": n, "nested": {"list": [{"a": 1}, {"b": null}], "big": 9_007_199_254_740_993_u64}}}),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_least_as_many_as_asked_for() {
        for count in [30, 300, 1001] {
            let found = objects(count).len();
            assert!(found >= count as usize && found < count as usize + 7, "{count}: {found}");
        }
    }
}
