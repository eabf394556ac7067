//! What an installation consists of, in the order in which it is sent (cli-and-install.md 3.3). Pure.

use super::flags::InstallArgs;
use super::{rights, workload};
use crate::flags;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lifeboat_api::{API_VERSION, GROUP};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What to install, files read.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) args: &'a InstallArgs,
    pub(crate) namespace: &'a str,
    /// What `--secret-file` holds.
    pub(crate) secret: Option<Vec<u8>>,
    /// What `--cacert` holds.
    pub(crate) authority: Option<Vec<u8>>,
}

/// The Secret with the credentials for the provider, and its key.
pub(super) const SECRET: &str = "cloud-credentials";
pub(super) const SECRET_KEY: &str = "cloud";
/// The profile that pods are held to, and where a namespace says it.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce";
const RESTRICTED: &str = "restricted";
/// The server's Deployment.
pub(crate) const DEPLOYMENT: &str = "velero";

/// The definitions, those of v1 first, as Velero sends them.
pub(super) fn definitions() -> Vec<Value> {
    let (first, last): (Vec<Value>, Vec<Value>) =
        lifeboat_api::crds().into_iter().partition(|crd| crd["spec"]["versions"][0]["name"] == "v1");
    first.into_iter().chain(last).collect()
}

/// Everything else.
pub(super) fn objects(plan: &Plan<'_>) -> Vec<Value> {
    let args = plan.args;
    let mut out = vec![namespace(plan)];
    if args.service_account_name.is_empty() {
        out.extend(rights::objects(plan));
    }
    if let Some(secret) = &plan.secret {
        let data = json!({SECRET_KEY: STANDARD.encode(secret)});
        let metadata = metadata(SECRET, Some(plan.namespace));
        out.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}));
    }
    if !args.no_default_backup_location {
        out.push(storage_location(plan));
    }
    if args.use_volume_snapshots {
        let mut spec = json!({"provider": args.provider});
        add_config(&mut spec, &flags::merged(&args.snapshot_location_config));
        out.push(custom_resource(plan, "VolumeSnapshotLocation", &spec));
    }
    out.push(workload::deployment(plan));
    if args.replicas > 1 {
        out.push(workload::disruption_budget(plan));
    }
    out
}

/// One `v1` List of all of them, as it is printed.
pub(super) fn list(objects: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects})
}

pub(super) fn metadata(name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({"name": name, "labels": component()});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

/// The label by which everything of an installation is found.
pub(super) fn component() -> Map<String, Value> {
    Map::from_iter([(lifeboat_api::well_known::LABEL_COMPONENT.to_owned(), json!("velero"))])
}

/// The name of the rights of the server in this namespace, which are cluster-wide.
pub(crate) fn cluster_name(namespace: &str) -> String {
    if namespace == "velero" { namespace.to_owned() } else { format!("velero-{namespace}") }
}

/// With nothing but what the restricted profile allows in the namespace, it is held to it. A node agent needs more: who
/// asks for one may have Velero's there already, whose pods are left alone.
pub(super) fn is_restricted(args: &InstallArgs) -> bool {
    args.least_privilege && !args.use_node_agent && !args.use_node_agent_windows
}

/// Whether an object holds its namespace to the restricted profile.
pub(super) fn is_restricting(object: &Value) -> bool {
    object["kind"] == "Namespace" && object["metadata"]["labels"][ENFORCED] == RESTRICTED
}

fn namespace(plan: &Plan<'_>) -> Value {
    let level = if is_restricted(plan.args) { RESTRICTED } else { "privileged" };
    let mut metadata = metadata(plan.namespace, None);
    for mode in ["enforce", "audit", "warn"] {
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}")] = json!(level);
        metadata["labels"][format!("pod-security.kubernetes.io/{mode}-version")] = json!("latest");
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {}})
}

fn storage_location(plan: &Plan<'_>) -> Value {
    let args = plan.args;
    let mut storage = json!({"bucket": args.bucket});
    if !args.prefix.is_empty() {
        storage["prefix"] = json!(args.prefix);
    }
    if let Some(pem) = &plan.authority {
        storage["caCert"] = json!(STANDARD.encode(pem));
    }
    let mut spec = json!({"provider": args.provider, "objectStorage": storage, "default": true});
    add_config(&mut spec, &flags::merged(&args.backup_location_config));
    custom_resource(plan, "BackupStorageLocation", &spec)
}

fn add_config(spec: &mut Value, config: &BTreeMap<String, String>) {
    if !config.is_empty() {
        spec["config"] = json!(config);
    }
}

fn custom_resource(plan: &Plan<'_>, kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": kind, "metadata": metadata("default", Some(plan.namespace)), "spec": spec,
    })
}

/// Whether a type is ours, so that it is served only some time after its definition was created.
pub(super) fn is_custom(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with(GROUP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::tests::parse;

    fn names(flags: &str, namespace: &str) -> Vec<String> {
        let args = parse(flags);
        let plan = Plan { args: &args, namespace, secret: Some(b"x".to_vec()), authority: None };
        objects(&plan).iter().map(|o| format!("{} {}", o["kind"], o["metadata"]["name"]).replace('"', "")).collect()
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
            names("--provider aws --bucket b --replicas 2", "velero"),
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
            names(
                "--provider aws --bucket b --least-privilege --use-volume-snapshots=false --use-node-agent \
                 --use-node-agent-windows",
                "other"
            ),
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
            ]
        );
    }

    #[test]
    fn a_certificate_travels_in_the_location() {
        let args = parse("--provider aws --bucket b");
        let plan = Plan { args: &args, namespace: "n", secret: None, authority: Some(b"PEM".to_vec()) };
        let location = storage_location(&plan);
        assert_eq!(location["spec"]["objectStorage"], json!({"bucket": "b", "caCert": "UEVN"}));
    }

    #[test]
    fn the_namespace_is_restricted_when_everything_in_it_can_be() {
        let level = |flags: &str| {
            let args = parse(flags);
            let plan = Plan { args: &args, namespace: "n", secret: None, authority: None };
            namespace(&plan)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"].clone()
        };
        assert_eq!(level("--least-privilege"), "restricted");
        assert_eq!(level("--least-privilege --use-node-agent"), "privileged");
        assert_eq!(level(""), "privileged");
    }
}
