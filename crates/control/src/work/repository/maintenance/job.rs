//! The Job that maintains a repository, as Velero's server makes it (velero: pkg/repository/maintenance). Pure.

use super::settings::JobSettings;
use super::template::PodTemplate;
use jiff::Timestamp;
use lifeboat_api::well_known::{ANNOTATION_IAM_ROLE, LABEL_AZURE_WORKLOAD_IDENTITY, LABEL_DEPLOY, LABEL_REPO_NAME};
use lifeboat_api::{BackupRepository, GROUP, Resource, is_label_key, is_label_value};
use serde_json::{Map, Value, json};
use sha3::{Digest, Sha3_224};
use std::collections::BTreeMap;

/// The longest name of a Job, and value of a label.
const LONGEST: usize = 63;
/// The names of the pod in the template, and of its container.
const POD: &str = "velero-repo-maintenance-pod";
const CONTAINER: &str = "velero-repo-maintenance-container";
/// The program in the image.
const PROGRAM: &str = "/velero";
/// Seconds after which a Job is ended, whatever it does.
const DEADLINE: u32 = 24 * 3600;
/// Fields of the server's pod that the Jobs have too.
const POD_FIELDS: [&str; 9] = [
    "serviceAccountName",
    "automountServiceAccountToken",
    "securityContext",
    "imagePullSecrets",
    "hostNetwork",
    "hostAliases",
    "dnsPolicy",
    "dnsConfig",
    "runtimeClassName",
];
/// Fields of the server's container that the Jobs have too.
const CONTAINER_FIELDS: [&str; 4] = ["image", "env", "envFrom", "securityContext"];

/// Everything that a Job is made of.
pub(super) struct JobParts<'a> {
    pub(super) repository: &'a BackupRepository,
    pub(super) template: &'a PodTemplate,
    pub(super) settings: &'a JobSettings,
    /// Arguments that say how to log.
    pub(super) log_arguments: &'a [String],
    pub(super) now: Timestamp,
}

/// The value of the label by which the Jobs of a repository are found: its name, or a hash of a long one.
pub(super) fn repository_label(name: &str) -> String {
    if name.len() <= LONGEST { name.to_owned() } else { hex::encode(Sha3_224::digest(name.as_bytes())) }
}

/// The Job, and warnings about labels and annotations that no pod can have.
pub(super) fn job(parts: &JobParts<'_>) -> (Value, Vec<String>) {
    let JobParts { repository, template, settings, .. } = parts;
    let meta = &repository.metadata;
    let mut warnings = Vec::new();
    let label = json!({LABEL_REPO_NAME: repository_label(&meta.name)});
    let mut labels = match &settings.labels {
        Some(given) => accepted("label", given, &mut warnings),
        None => inherited(LABEL_AZURE_WORKLOAD_IDENTITY, template.label(LABEL_AZURE_WORKLOAD_IDENTITY)),
    };
    labels.insert(LABEL_REPO_NAME.to_owned(), label[LABEL_REPO_NAME].clone());
    let annotations = match &settings.annotations {
        Some(given) => accepted("annotation", given, &mut warnings),
        None => inherited(ANNOTATION_IAM_ROLE, template.annotation(ANNOTATION_IAM_ROLE)),
    };
    let mut pod_metadata = json!({"name": POD, "labels": labels});
    if !annotations.is_empty() {
        pod_metadata["annotations"] = Value::Object(annotations);
    }
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": job_name(&meta.name, parts.now), "namespace": meta.namespace, "labels": label,
            // A repository that is deleted takes them along.
            "ownerReferences": [{
                "apiVersion": format!("{GROUP}/{}", BackupRepository::VERSION), "kind": BackupRepository::KIND,
                "name": meta.name, "uid": meta.uid,
            }],
        },
        "spec": {
            "backoffLimit": 0, "activeDeadlineSeconds": DEADLINE,
            "template": {"metadata": pod_metadata, "spec": pod_spec(parts)},
        },
    });
    (job, warnings)
}

fn job_name(repository: &str, now: Timestamp) -> String {
    let suffix = format!("maintain-job-{}", now.as_millisecond());
    let name = format!("{repository}-{suffix}");
    if name.len() <= LONGEST { name } else { format!("repo-{suffix}") }
}

fn inherited(key: &str, value: Option<&str>) -> Map<String, Value> {
    value.map(|value| (key.to_owned(), json!(value))).into_iter().collect()
}

/// The labels or annotations, as far as a pod can have them.
fn accepted(what: &str, given: &BTreeMap<String, String>, warnings: &mut Vec<String>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in given {
        if !is_label_key(key) || (what == "label" && !is_label_value(value)) {
            warnings.push(format!("the {what} {key}: {value} is left out: Kubernetes takes no such {what}"));
        } else if what == "label" && key == LABEL_REPO_NAME {
            warnings.push(format!("the label {key} is left out: by it the Jobs of a repository are found"));
        } else {
            out.insert(key.clone(), json!(value));
        }
    }
    out
}

fn pod_spec(parts: &JobParts<'_>) -> Value {
    let JobParts { template, settings, .. } = parts;
    let (volumes, mounts) = template.volumes();
    let mut container = json!({
        "name": CONTAINER, "imagePullPolicy": "IfNotPresent", "command": [PROGRAM], "args": arguments(parts),
        "terminationMessagePolicy": "FallbackToLogsOnError", "volumeMounts": mounts,
    });
    for field in CONTAINER_FIELDS {
        copy(&mut container, field, template.container(field));
    }
    if let Some(resources) = &settings.resources {
        container["resources"] = resources.clone();
    }
    let mut spec = json!({
        "containers": [container], "restartPolicy": "Never", "volumes": volumes,
        "tolerations": tolerations(template), "affinity": affinity(parts),
    });
    for field in POD_FIELDS {
        copy(&mut spec, field, template.spec(field));
    }
    if settings.nodes.is_empty() {
        copy(&mut spec, "nodeSelector", template.spec("nodeSelector"));
    }
    if !settings.priority_class.is_empty() {
        spec["priorityClassName"] = json!(settings.priority_class);
    }
    spec
}

fn arguments(parts: &JobParts<'_>) -> Vec<String> {
    let spec = &parts.repository.spec;
    let mut arguments = vec![
        "repo-maintenance".to_owned(),
        format!("--repo-name={}", spec.volume_namespace),
        format!("--repo-type={}", spec.repository_type.as_str()),
        format!("--backup-storage-location={}", spec.backup_storage_location),
    ];
    arguments.extend_from_slice(parts.log_arguments);
    // Locations that are directories lie below it.
    arguments.extend(parts.template.argument("--directory-root").map(|root| format!("--directory-root={root}")));
    arguments
}

/// The tolerations of the server: its nodes are good enough for the Jobs. compat: Velero's tolerate nodes of Windows besides.
fn tolerations(template: &PodTemplate) -> Vec<Value> {
    let windows = json!({"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"});
    let own = template.spec("tolerations").as_array().into_iter().flatten().cloned();
    [windows].into_iter().chain(own).collect()
}

/// Nodes of Linux, for which the image is, and of those that the settings ask for.
fn affinity(parts: &JobParts<'_>) -> Value {
    let linux = json!({"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]});
    let term = |mut requirements: Vec<Value>| {
        requirements.push(linux.clone());
        json!({"matchExpressions": requirements})
    };
    let mut terms: Vec<Value> = parts.settings.nodes.iter().map(|nodes| term(nodes.node_requirements())).collect();
    if terms.is_empty() {
        terms.push(term(Vec::new()));
    }
    let mut affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }});
    // A claim may be mounted on one node alone.
    if parts.template.has_claims()
        && let Some(deploy) = parts.template.label(LABEL_DEPLOY)
    {
        let beside =
            json!({"labelSelector": {"matchLabels": {LABEL_DEPLOY: deploy}}, "topologyKey": "kubernetes.io/hostname"});
        affinity["podAffinity"] =
            json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": beside}]});
    }
    affinity
}

fn copy(into: &mut Value, field: &str, value: &Value) {
    if !value.is_null() {
        into[field] = value.clone();
    }
}

#[cfg(test)]
mod tests;
