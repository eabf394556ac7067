//! The pod in which a mover runs. Pure.

use crate::attempts::killed_movers;
use crate::config::NodeAgentConfig;
use crate::exposer::mover_user::MoverUser;
use crate::exposer::placement::{AllowedNodes, Placement, place};
use crate::template::Template;
use crate::transfer::{Transfer, TransferKind};
use lifeboat_api::well_known::{
    ANNOTATION_IAM_ROLE, LABEL_AZURE_WORKLOAD_IDENTITY, LABEL_EXPOSER_POD_GROUP, SCRATCH_FOLDER,
    VARIABLE_MOVER_ATTEMPT, VARIABLE_SCRATCH,
};
use lifeboat_api::{Duration, NodeOs};
use lifeboat_volume::mover_pod::{BACKUP_CAPABILITIES, GRACE_SECONDS, RESTORE_CAPABILITIES, container_security};
use serde_json::{Value, json};

/// The mount of the cache volume, and its name.
const CACHE_AT: &str = "/cachedir";
const CACHE: &str = "cachedir";
/// The volume for what memory cannot hold.
const SCRATCH: &str = "scratch";
/// The program in the image.
const PROGRAM: &str = "/velero";
/// Tolerations of the template that movers inherit.
const TOLERATED: [&str; 2] = ["kubernetes.azure.com/scalesetpriority", "CriticalAddonsOnly"];
/// The volume that a mover works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MoverVolume {
    /// A directory of the node.
    HostPath(String),
    /// A claim in the namespace of the pod.
    Claim {
        name: String,
        is_block: bool,
        /// It can be mounted only so.
        is_read_only: bool,
        /// Its files keep their SELinux labels.
        without_relabeling: bool,
    },
}

impl MoverVolume {
    /// A claim into which can be written.
    pub(crate) fn claim(name: &str, is_block: bool) -> Self {
        Self::Claim { name: name.to_owned(), is_block, is_read_only: false, without_relabeling: false }
    }
}

/// Everything that a pod is made of.
#[derive(Clone, Debug)]
pub(crate) struct PodParts<'a> {
    pub(crate) transfer: &'a Transfer,
    pub(crate) template: &'a Template,
    pub(crate) config: &'a NodeAgentConfig,
    /// The operating system of its node.
    pub(crate) os: NodeOs,
    pub(crate) volume: MoverVolume,
    pub(crate) placement: Placement,
    /// The claim of the cache.
    pub(crate) cache: Option<String>,
    /// The user as which it runs, with no more rights than that user has; `None` for user 0.
    pub(crate) user: Option<MoverUser>,
    pub(crate) resource_timeout: Duration,
}

/// The pod of a transfer.
pub(crate) fn mover_pod(parts: &PodParts<'_>) -> Value {
    let PodParts { transfer, template, config, .. } = parts;
    let is_host_path = matches!(parts.volume, MoverVolume::HostPath(_));
    let is_windows = parts.os == NodeOs::Windows;
    let (mut volumes, mut mounts) = template.volumes(is_host_path);
    let mut env = template.container("env").as_array().cloned().unwrap_or_default();
    add_folders(&mut volumes, &mut mounts, &mut env);
    env.retain(|variable| variable["name"] != VARIABLE_MOVER_ATTEMPT);
    // By it the mover sees when another one is to go on in its place. A variable, because a mover of another version takes no flag for it.
    let attempt = killed_movers(transfer).len() + 1;
    env.push(json!({"name": VARIABLE_MOVER_ATTEMPT, "value": attempt.to_string()}));
    let mut container = json!({
        "name": transfer.meta.uid, "image": template.container("image"), "imagePullPolicy": "Never",
        "command": [PROGRAM], "args": arguments(parts), "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": security_of_container(parts, is_windows),
    });
    add_volume(parts, &mut volumes, &mut mounts, &mut container);
    if let Some(cache) = &parts.cache {
        volumes.push(json!({"name": CACHE, "persistentVolumeClaim": {"claimName": cache}}));
        mounts.push(json!({"name": CACHE, "mountPath": CACHE_AT}));
    }
    container["env"] = Value::Array(env);
    container["volumeMounts"] = Value::Array(mounts);
    copy(&mut container, "envFrom", template.container("envFrom"));
    if let Some(resources) = &config.resources {
        container["resources"] = resources.clone();
    }
    let mut spec = json!({
        "containers": [container], "volumes": volumes, "restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": pod_security(parts, is_windows), "os": {"name": if is_windows { "windows" } else { "linux" }},
    });
    if has_own_users(parts, is_windows) {
        spec["hostUsers"] = json!(false);
    }
    for field in ["serviceAccountName", "dnsPolicy", "dnsConfig", "imagePullSecrets"] {
        copy(&mut spec, field, template.spec(field));
    }
    if !config.priority_class.is_empty() {
        spec["priorityClassName"] = json!(config.priority_class);
    }
    let mut tolerations = tolerations(template, is_windows);
    if let Placement::Any(AllowedNodes { of_pod, .. }) = &parts.placement {
        tolerations.extend(of_pod.tolerations().iter().cloned());
    }
    if !tolerations.is_empty() {
        spec["tolerations"] = Value::Array(tolerations);
    }
    place(&parts.placement, pod_group(transfer.kind), is_windows, &mut spec);
    let mut metadata = json!({
        "name": transfer.meta.name, "namespace": transfer.meta.namespace, "labels": labels(parts),
        "ownerReferences": [transfer.owner_reference()],
    });
    let annotations = match &config.pod_annotations {
        Some(annotations) => json!(annotations),
        None => inherited(ANNOTATION_IAM_ROLE, template.annotation(ANNOTATION_IAM_ROLE)),
    };
    if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
        metadata["annotations"] = annotations;
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn inherited(key: &str, value: Option<&str>) -> Value {
    value.map_or_else(|| json!({}), |value| json!({key: value}))
}

fn labels(parts: &PodParts<'_>) -> Value {
    let transfer = parts.transfer;
    let mut labels = match &parts.config.pod_labels {
        Some(labels) => json!(labels),
        None => inherited(LABEL_AZURE_WORKLOAD_IDENTITY, parts.template.label(LABEL_AZURE_WORKLOAD_IDENTITY)),
    };
    labels[transfer.kind.pod_label()] = json!(transfer.meta.name);
    if let Some(group) = pod_group(transfer.kind) {
        labels[LABEL_EXPOSER_POD_GROUP] = json!(group);
    }
    labels
}

/// The group of pods that are spread over the nodes.
fn pod_group(kind: TransferKind) -> Option<&'static str> {
    match kind {
        TransferKind::DataDownload => Some("generic-restore-exposer"),
        TransferKind::DataUpload => Some("snapshot-exposer"),
        TransferKind::PodVolumeRestore | TransferKind::PodVolumeBackup => None,
    }
}

fn arguments(parts: &PodParts<'_>) -> Vec<String> {
    let transfer = parts.transfer;
    let path = volume_path(transfer);
    let name = &transfer.meta.name;
    let timeout = parts.resource_timeout;
    let cache = parts.cache.as_ref().map_or("", |_| CACHE_AT);
    let mode = match parts.volume {
        MoverVolume::Claim { is_block: true, .. } => "Block",
        _ => "Filesystem",
    };
    let mut arguments = match transfer.kind {
        TransferKind::PodVolumeRestore => vec![
            "pod-volume".to_owned(),
            "restore".to_owned(),
            format!("--volume-path={path}"),
            format!("--pod-volume-restore={name}"),
            format!("--resource-timeout={timeout}"),
            format!("--cache-volume-path={cache}"),
        ],
        TransferKind::DataDownload => vec![
            "data-mover".to_owned(),
            "restore".to_owned(),
            format!("--volume-path={path}"),
            format!("--volume-mode={mode}"),
            format!("--data-download={name}"),
            format!("--resource-timeout={timeout}"),
            format!("--cache-volume-path={cache}"),
        ],
        TransferKind::PodVolumeBackup => vec![
            "pod-volume".to_owned(),
            "backup".to_owned(),
            format!("--volume-path={path}"),
            format!("--pod-volume-backup={name}"),
            format!("--resource-timeout={timeout}"),
        ],
        TransferKind::DataUpload => vec![
            "data-mover".to_owned(),
            "backup".to_owned(),
            format!("--volume-path={path}"),
            format!("--volume-mode={mode}"),
            format!("--data-upload={name}"),
            format!("--resource-timeout={timeout}"),
        ],
    };
    arguments.extend(parts.template.log_arguments());
    arguments
}

/// The volume's path in the pod.
fn volume_path(transfer: &Transfer) -> String {
    format!("/{}", transfer.meta.uid)
}

fn add_volume(parts: &PodParts<'_>, volumes: &mut Vec<Value>, mounts: &mut Vec<Value>, container: &mut Value) {
    let (name, path) = (&parts.transfer.meta.uid, volume_path(parts.transfer));
    match &parts.volume {
        MoverVolume::HostPath(directory) => {
            volumes.push(json!({"name": name, "hostPath": {"path": directory, "type": "Directory"}}));
            let mut mount = json!({"name": name, "mountPath": path, "mountPropagation": "HostToContainer"});
            if parts.transfer.kind.is_backup() {
                mount["readOnly"] = json!(true);
            }
            mounts.push(mount);
        }
        MoverVolume::Claim { name: claim, is_block, is_read_only, .. } => {
            let mut source = json!({"claimName": claim});
            let mut mount = json!({"name": name, "mountPath": path});
            // A file system that was cut off while it was written to is repaired when it is mounted, which needs the right to write.
            if *is_read_only {
                source["readOnly"] = json!(true);
                mount["readOnly"] = json!(true);
            }
            volumes.push(json!({"name": name, "persistentVolumeClaim": source}));
            match is_block {
                true => container["volumeDevices"] = json!([{"name": name, "devicePath": path}]),
                false => mounts.push(mount),
            }
        }
    }
}

/// Folders that can be written to, where the root file system cannot. A DaemonSet of Velero may have none.
fn add_folders(volumes: &mut Vec<Value>, mounts: &mut Vec<Value>, env: &mut Vec<Value>) {
    for (name, path) in [(SCRATCH, SCRATCH_FOLDER), ("tmp", "/tmp")] {
        if mounts.iter().any(|mount| mount["mountPath"] == path) {
            continue;
        }
        let taken = |name: &str| volumes.iter().any(|volume| volume["name"] == name);
        let name = if taken(name) { format!("mover-{name}") } else { name.to_owned() };
        volumes.push(json!({"name": name, "emptyDir": {}}));
        mounts.push(json!({"name": name, "mountPath": path}));
    }
    if !env.iter().any(|variable| variable["name"] == VARIABLE_SCRATCH) {
        env.push(json!({"name": VARIABLE_SCRATCH, "value": SCRATCH_FOLDER}));
    }
}

fn pod_security(parts: &PodParts<'_>, is_windows: bool) -> Value {
    if is_windows {
        return json!({"windowsOptions": {"runAsUserName": "ContainerAdministrator"}});
    }
    let mut security = json!({"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}});
    if let Some(MoverUser { user, group, groups }) = &parts.user {
        security["runAsUser"] = json!(user);
        security["runAsGroup"] = json!(group);
        security["runAsNonRoot"] = json!(true);
        if !groups.is_empty() {
            security["supplementalGroups"] = json!(groups);
        }
        // The root of a new volume is that of user 0. Of what is read nothing is changed, and Kubernetes would give it to the group.
        if !parts.transfer.kind.is_backup() && matches!(parts.volume, MoverVolume::Claim { .. }) {
            security["fsGroup"] = json!(group);
            security["fsGroupChangePolicy"] = json!("OnRootMismatch");
        }
    }
    if let MoverVolume::Claim { without_relabeling: true, .. } = parts.volume {
        security["seLinuxOptions"] = json!({"type": "spc_t"});
    }
    security
}

/// Returns true if the pod has users of its own. Host paths and devices do not go with them.
fn has_own_users(parts: &PodParts<'_>, is_windows: bool) -> bool {
    let can = matches!(parts.volume, MoverVolume::Claim { is_block: false, .. });
    parts.config.security.has_own_users && can && !is_windows
}

/// Files of any owner are read, or written, by user 0, with no more rights than that takes.
fn security_of_container(parts: &PodParts<'_>, is_windows: bool) -> Value {
    if is_windows {
        return json!({});
    }
    if parts.user.is_some() {
        return container_security(&[]);
    }
    let is_pod_volume = matches!(parts.volume, MoverVolume::HostPath(_));
    if parts.config.is_privileged && is_pod_volume {
        return json!({"privileged": true});
    }
    let needed: &[&str] = if parts.transfer.kind.is_backup() { &BACKUP_CAPABILITIES } else { &RESTORE_CAPABILITIES };
    container_security(needed)
}

fn tolerations(template: &Template, is_windows: bool) -> Vec<Value> {
    let all = template.spec("tolerations").as_array().into_iter().flatten();
    let is_inherited = |toleration: &&Value| TOLERATED.iter().any(|key| toleration["key"] == *key);
    let mut tolerations: Vec<Value> = all.filter(is_inherited).cloned().collect();
    if is_windows {
        for effect in ["NoSchedule", "NoExecute"] {
            tolerations.push(json!({"key": "os", "operator": "Equal", "value": "windows", "effect": effect}));
        }
    }
    tolerations
}

fn copy(into: &mut Value, field: &str, value: &Value) {
    if !value.is_null() {
        into[field] = value.clone();
    }
}
