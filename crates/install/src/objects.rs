//! The objects of an installation, in the order in which they are sent (velero: pkg/install). Pure.

use crate::installation::{Credentials, Installation};
use crate::names::{SECRET, SECRET_KEY, metadata};
use crate::{node_agent, rights, workload};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_api::{API_VERSION, GROUP};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The profile that pods are held to, and where a namespace says it.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce";
const RESTRICTED: &str = "restricted";

/// The CustomResourceDefinitions, those of v1 first, as Velero sends them. They are the same for every installation.
#[must_use]
pub fn definitions() -> Vec<Value> {
    let (first, last): (Vec<Value>, Vec<Value>) =
        lifeboat_api::crds().into_iter().partition(|crd| crd["spec"]["versions"][0]["name"] == "v1");
    first.into_iter().chain(last).collect()
}

/// All other objects of an installation, in the order in which they are sent: those that others refer to come first.
///
/// It refuses nothing, so that a user can also look at the objects of an installation that [`check`](crate::check) refuses.
#[must_use]
pub fn objects(installation: &Installation) -> Vec<Value> {
    let own = Some(installation.namespace.as_str());
    let mut out = vec![namespace(installation)];
    if installation.service_account.is_none() {
        out.extend(rights::objects(installation));
    }
    if let Some(Credentials(secret)) = &installation.secret {
        let data = json!({SECRET_KEY: STANDARD.encode(secret)});
        let metadata = metadata(SECRET, own);
        out.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}));
    }
    if installation.storage_location {
        out.push(storage_location(installation));
    }
    if installation.snapshot_location {
        let mut spec = json!({"provider": installation.provider});
        add_config(&mut spec, &installation.snapshot_config);
        out.push(custom_resource(installation, "VolumeSnapshotLocation", &spec));
    }
    out.push(workload::deployment(installation));
    if installation.replicas > 1 {
        out.push(workload::disruption_budget(installation));
    }
    out.extend(node_agent::daemon_sets(installation));
    out
}

/// Puts these objects into a `v1` List, as `kubectl apply` takes it.
#[must_use]
pub fn list(objects: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects})
}

/// Returns true if an object holds its namespace to the restricted profile.
pub(crate) fn is_restricting(object: &Value) -> bool {
    object["kind"] == "Namespace" && object["metadata"]["labels"][ENFORCED] == RESTRICTED
}

/// The profile that a namespace holds its pods to, when that refuses those of a node agent.
pub(crate) fn refusing_profile(namespace: &Value) -> Option<&str> {
    namespace["metadata"]["labels"][ENFORCED].as_str().filter(|profile| [RESTRICTED, "baseline"].contains(profile))
}

fn namespace(installation: &Installation) -> Value {
    let level = if installation.is_restricted() { RESTRICTED } else { "privileged" };
    let mut metadata = metadata(&installation.namespace, None);
    for mode in ["enforce", "audit", "warn"] {
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}")] = json!(level);
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}-version")] = json!("latest");
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {}})
}

fn storage_location(installation: &Installation) -> Value {
    let mut storage = json!({"bucket": installation.bucket});
    if let Some(prefix) = &installation.prefix {
        storage["prefix"] = json!(prefix);
    }
    if let Some(pem) = &installation.authority {
        storage["caCert"] = json!(STANDARD.encode(pem));
    }
    let mut spec = json!({"provider": installation.provider, "objectStorage": storage, "default": true});
    add_config(&mut spec, &installation.storage_config);
    if installation.directory.is_some() {
        spec["config"]["path"] = json!(workload::DIRECTORY_AT);
    }
    custom_resource(installation, "BackupStorageLocation", &spec)
}

fn add_config(spec: &mut Value, config: &BTreeMap<String, String>) {
    if !config.is_empty() {
        spec["config"] = json!(config);
    }
}

fn custom_resource(installation: &Installation, kind: &str, spec: &Value) -> Value {
    let metadata = metadata("default", Some(&installation.namespace));
    json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
}

/// Returns true for objects of our own types, which are served only some time after their definition was created.
pub(crate) fn is_custom(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with(GROUP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(installation: Installation) -> Vec<String> {
        let all = objects(&Installation { secret: Some(Credentials(b"x".to_vec())), ..installation });
        all.iter().map(|o| format!("{} {}", o["kind"], o["metadata"]["name"]).replace('"', "")).collect()
    }

    #[test]
    fn definitions_are_in_the_order_of_velero() {
        let names: Vec<String> =
            definitions().iter().map(|crd| crd["spec"]["names"]["plural"].as_str().unwrap().to_owned()).collect();
        assert_eq!(
            names,
            [
                "backuprepositories",
                "backups",
                "backupstoragelocations",
                "deletebackuprequests",
                "downloadrequests",
                "podvolumebackups",
                "podvolumerestores",
                "restores",
                "schedules",
                "serverstatusrequests",
                "volumesnapshotlocations",
                "datadownloads",
                "datauploads",
            ]
        );
    }

    #[test]
    fn objects_are_in_the_order_of_velero() {
        assert_eq!(
            names(Installation { replicas: 2, ..Installation::default() }),
            [
                "Namespace velero",
                "ClusterRoleBinding velero",
                "ServiceAccount velero",
                "Secret cloud-credentials",
                "BackupStorageLocation default",
                "VolumeSnapshotLocation default",
                "Deployment velero",
                "PodDisruptionBudget velero",
            ]
        );
        assert_eq!(
            names(Installation {
                namespace: "other".into(),
                least_privilege: true,
                snapshot_location: false,
                node_agent: true,
                node_agent_windows: true,
                ..Installation::default()
            }),
            [
                "Namespace other",
                "ClusterRole velero-other",
                "Role velero",
                "ClusterRoleBinding velero-other",
                "RoleBinding velero",
                "ServiceAccount velero",
                "Secret cloud-credentials",
                "BackupStorageLocation default",
                "Deployment velero",
                "DaemonSet node-agent",
                "DaemonSet node-agent-windows",
            ]
        );
    }

    #[test]
    fn a_certificate_travels_in_the_location() {
        let location = storage_location(&Installation {
            bucket: "b".into(),
            authority: Some(b"PEM".to_vec()),
            ..Installation::default()
        });
        assert_eq!(location["spec"]["objectStorage"], json!({"bucket": "b", "caCert": "UEVN"}));
    }

    #[test]
    fn the_namespace_is_restricted_when_everything_in_it_can_be() {
        let level = |least_privilege: bool, node_agent: bool| {
            let namespace = namespace(&Installation { least_privilege, node_agent, ..Installation::default() });
            namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].clone()
        };
        assert_eq!(level(true, false), "restricted");
        assert_eq!(level(true, true), "privileged");
        assert_eq!(level(false, false), "privileged");
    }
}
