//! The rights of the server in the cluster. Pure.
//!
//! A program that can restore every object can create every object: roles, bindings, pods with any service account. So even
//! the smaller rights do not stop an attacker who holds the token; they keep mistakes and lesser weaknesses from deleting,
//! impersonating and watching. The wildcards cannot be narrowed, because a backup may hold objects of any type. They include
//! subresources, so that `create` evicts pods and `patch` scales.

use crate::installation::Installation;
use crate::names::{SERVICE_ACCOUNT, cluster_name, component, metadata};
use lifeboat_api::GROUP;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The objects that give the server its rights, and its service account.
pub(crate) fn objects(installation: &Installation) -> Vec<Value> {
    let namespace = installation.namespace.as_str();
    let everywhere = cluster_name(namespace);
    let mut out = Vec::new();
    if installation.least_privilege {
        let (mut cluster_rules, mut own_rules) = (cluster_rules(), own_rules());
        if installation.has_node_agent() {
            cluster_rules.extend(cluster_rules_of_node_agents());
            own_rules.extend(own_rules_of_node_agents());
        }
        out.push(role("ClusterRole", &metadata(&everywhere, None), &cluster_rules));
        out.push(role("Role", &metadata(SERVICE_ACCOUNT, Some(namespace)), &own_rules));
        out.push(binding(namespace, "ClusterRoleBinding", &metadata(&everywhere, None), "ClusterRole", &everywhere));
        let own = metadata(SERVICE_ACCOUNT, Some(namespace));
        out.push(binding(namespace, "RoleBinding", &own, "Role", SERVICE_ACCOUNT));
    } else {
        out.push(binding(
            namespace,
            "ClusterRoleBinding",
            &metadata(&everywhere, None),
            "ClusterRole",
            "cluster-admin",
        ));
    }
    let mut account = json!({"name": SERVICE_ACCOUNT, "namespace": namespace, "labels": component()});
    if !installation.service_account_annotations.is_empty() {
        account["annotations"] = json!(installation.service_account_annotations);
    }
    out.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}));
    out
}

fn role(kind: &str, metadata: &Value, rules: &[Value]) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules})
}

fn binding(namespace: &str, kind: &str, metadata: &Value, role_kind: &str, role: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": namespace}],
    })
}

/// The rights to read for backups and to write for restores, in all namespaces.
fn cluster_rules() -> Vec<Value> {
    rules(json!([
        // A backup lists all types and fetches what belongs together; a restore creates, compares, and patches.
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create", "patch"]},
        // Hooks run commands in containers.
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
        // A restore waits for the containers in which its hooks run.
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch"]},
        // A backup waits for its snapshots, and takes their objects out of the cluster when it ends.
        {"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots", "volumesnapshotcontents"],
            "verbs": ["watch", "delete"]},
        {"apiGroups": ["groupsnapshot.storage.k8s.io"], "resources": ["volumegroupsnapshots", "volumegroupsnapshotcontents"],
            "verbs": ["watch", "delete"]},
        // A restored object that blocks the deletion of its owner, where that is checked at admission.
        {"apiGroups": ["*"], "resources": ["*/finalizers"], "verbs": ["update"]},
        // Restored roles and bindings hold rights that the server has not.
        {"apiGroups": [RBAC], "resources": ["roles", "clusterroles"], "verbs": ["escalate", "bind"]},
        // What there is, and of which version.
        {"nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/version"], "verbs": ["get"]},
    ]))
}

/// The rights that node agents need in all namespaces besides: volumes are handed from a mover's claim to the claim of an
/// application, and snapshots to the namespace of the movers, with the rights that backups have. With them, backups make and remove
/// reader pods.
fn cluster_rules_of_node_agents() -> Vec<Value> {
    rules(json!([
        // The reader pod of a claim that no running pod mounts runs in the namespace of the claim.
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
        // A claim whose first pod was given a node; the labels of nodes.
        {"apiGroups": [""], "resources": ["persistentvolumeclaims", "nodes"], "verbs": ["watch"]},
        // A volume that is bound to another claim, and one that is made anew for a claim of another mode.
        {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["watch", "delete"]},
        {"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments"], "verbs": ["watch"]},
    ]))
}

/// The rights that node agents need in the namespace of the installation besides, where movers run.
fn own_rules_of_node_agents() -> Vec<Value> {
    rules(json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch", "create", "delete"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        // Copies of Secrets that a driver wants beside a claim; those of ConfigMaps may be deleted as others.
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["delete"]},
        // Movers tell their progress by events of their resource.
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["get", "list", "watch"]},
        // The pods of movers are made after that of the node agent.
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
    ]))
}

/// The rules of a list.
fn rules(list: Value) -> Vec<Value> {
    match list {
        Value::Array(rules) => rules,
        _ => Vec::new(),
    }
}

/// The rights that the server needs in its own namespace, also where the cluster-wide ones are narrowed.
fn own_rules() -> Vec<Value> {
    rules(json!([
        {"apiGroups": [GROUP], "resources": ["*"],
            "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"]},
        // Who leads.
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "patch"]},
        // Checkpoints of restores; settings of restores.
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "patch", "delete"]},
        // Credentials of storage locations; the password of repositories, which is made where there is none.
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]},
        // Whether a server of Velero runs; what became of the pods of Jobs.
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        // Repositories are maintained by Jobs, which inherit from the server's own pod.
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "create", "delete"]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]))
}
