//! The types that the API server in memory serves.

use serde_json::{Value, json};

/// A type that is served.
pub(super) struct Type {
    group: &'static str,
    version: &'static str,
    pub(super) plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    has_status: bool,
}

const fn served(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> Type {
    Type { group, version, plural, kind, namespaced: true, has_status: true }
}

const fn of_cluster(all: Type) -> Type {
    Type { namespaced: false, ..all }
}

/// Whose status is data, as all the rest of it.
const fn without_status(all: Type) -> Type {
    Type { has_status: false, ..all }
}

/// Of one group and version after the other, and of each group the preferred version first.
pub(super) const TYPES: [Type; 21] = [
    of_cluster(served("", "v1", "namespaces", "Namespace")),
    served("", "v1", "configmaps", "ConfigMap"),
    served("", "v1", "pods", "Pod"),
    served("", "v1", "serviceaccounts", "ServiceAccount"),
    served("", "v1", "services", "Service"),
    of_cluster(served("", "v1", "persistentvolumes", "PersistentVolume")),
    served("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    of_cluster(served("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")),
    served("apps", "v1", "daemonsets", "DaemonSet"),
    served("batch", "v1", "jobs", "Job"),
    served("example.com", "v2", "widgets", "Widget"),
    served("example.com", "v2", "gadgets", "Gadget"),
    without_status(served("example.com", "v2", "doors", "Door")),
    served("example.com", "v1", "widgets", "Widget"),
    of_cluster(served("networking.k8s.io", "v1", "ipaddresses", "IPAddress")),
    without_status(served("velero.io", "v1", "schedules", "Schedule")),
    without_status(served("velero.io", "v1", "restores", "Restore")),
    without_status(served("velero.io", "v1", "backups", "Backup")),
    without_status(served("velero.io", "v1", "podvolumerestores", "PodVolumeRestore")),
    without_status(served("velero.io", "v1", "backuprepositories", "BackupRepository")),
    without_status(served("velero.io", "v2alpha1", "datadownloads", "DataDownload")),
];

impl Type {
    pub(super) fn of(object: &Value) -> Option<&'static Self> {
        let (group, version) = group_version(object);
        TYPES
            .iter()
            .find(|one| (one.group, one.version, one.kind) == (group, version, object["kind"].as_str().unwrap()))
    }

    pub(super) fn path(&self, object: &Value) -> String {
        let root = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let namespace = if self.namespaced { format!("namespaces/{}/", text("namespace")) } else { String::new() };
        format!("{root}/{}/{namespace}{}/{}", self.version, self.plural, text("name"))
    }

    fn discovered(&self) -> Value {
        let scope = if self.namespaced { "Namespaced" } else { "Cluster" };
        let subresources = if self.has_status { json!([{"subresource": "status"}]) } else { json!([]) };
        json!({"resource": self.plural, "responseKind": {"kind": self.kind}, "scope": scope,
            "verbs": ["get", "list", "create", "patch", "delete"], "subresources": subresources})
    }
}

fn group_version(object: &Value) -> (&str, &str) {
    let api_version = object["apiVersion"].as_str().unwrap();
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The answer of the discovery of groups, aggregated.
pub(super) fn discovered(is_wanted: impl Fn(&str) -> bool) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for of_version in TYPES.chunk_by(|a, b| (a.group, a.version) == (b.group, b.version)) {
        let Type { group, version, .. } = of_version[0];
        if !is_wanted(group) {
            continue;
        }
        let resources: Vec<Value> = of_version.iter().map(Type::discovered).collect();
        let version = json!({"version": version, "resources": resources});
        match items.last_mut().filter(|last| last["metadata"]["name"] == group) {
            Some(last) => last["versions"].as_array_mut().unwrap().push(version),
            None => items.push(json!({"metadata": {"name": group}, "versions": [version]})),
        }
    }
    json!({"kind": "APIGroupDiscoveryList", "items": items})
}
