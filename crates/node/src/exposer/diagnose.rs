//! The state of everything that a transfer needs to begin, for the log and the message of one that did not begin in time.

use crate::kube::{Kube, ObjectName, text, uid};
use crate::resources;
use crate::transfer::{Transfer, TransferRequest};
use lifeboat_cluster::ClusterError;
use lifeboat_object::ApiResource;
use serde_json::Value;

/// The newest events of an object that are told.
const EVENTS: usize = 5;
/// The most letters of what is added to the message of a transfer.
const MOST_LETTERS: usize = 1000;

/// A diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// A line for each object and event.
    pub(crate) lines: Vec<String>,
    /// The errors among them.
    pub(crate) errors: Vec<String>,
}

/// The state of the objects of a transfer. An object that cannot be read is told so.
pub(crate) async fn diagnose(kube: &Kube, transfer: &Transfer) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    for (resource, namespace, name) in objects_of(transfer) {
        let of = ObjectName { resource: &resource, namespace: namespace.as_deref(), name: &name };
        match look(kube, of, &mut diagnosis).await {
            Ok(Some(bound)) => {
                let volumes = resources::volumes();
                let of = ObjectName { resource: &volumes, namespace: None, name: &bound };
                if let Err(e) = look(kube, of, &mut diagnosis).await {
                    diagnosis.lines.push(format!("PersistentVolume {bound} cannot be read: {e}"));
                }
            }
            Ok(None) => {}
            Err(e) => diagnosis.lines.push(format!("{} {name} cannot be read: {e}", resource.kind)),
        }
    }
    diagnosis
}

/// The objects of a transfer: types, namespaces and names.
fn objects_of(transfer: &Transfer) -> Vec<(ApiResource, Option<String>, String)> {
    let (own, name) = (Some(transfer.meta.namespace.clone()), transfer.meta.name.clone());
    let mut objects = vec![(resources::pods(), own.clone(), name.clone())];
    match &transfer.request {
        TransferRequest::PodVolumeBackup(_) | TransferRequest::PodVolumeRestore(_) => {}
        TransferRequest::DataDownload(spec) => {
            let target = &spec.target_volume;
            objects.push((resources::claims(), own, name));
            objects.push((resources::claims(), Some(target.namespace.clone()), target.pvc.clone()));
        }
        TransferRequest::DataUpload(spec) => {
            objects.push((resources::claims(), own.clone(), name.clone()));
            objects.push((resources::snapshots(), own, name.clone()));
            objects.push((resources::snapshot_contents(), None, name));
            let source = spec.csi_snapshot.as_ref().map(|snapshot| snapshot.volume_snapshot.clone());
            objects.extend(source.map(|source| (resources::snapshots(), Some(spec.source_namespace.clone()), source)));
        }
    }
    objects
}

/// Tells the state of an object and its events; gives the volume that a claim is bound to.
async fn look(kube: &Kube, of: ObjectName<'_>, diagnosis: &mut Diagnosis) -> Result<Option<String>, ClusterError> {
    let kind = of.resource.kind.as_str();
    let full_name = match of.namespace {
        Some(namespace) => format!("{kind} {namespace}/{}", of.name),
        None => format!("{kind} {}", of.name),
    };
    let Some(object) = kube.get(of).await? else {
        diagnosis.lines.push(format!("{full_name} is not there"));
        return Ok(None);
    };
    diagnosis.lines.push(format!("{full_name}: {}", state_of(kind, &object)));
    if let Some(error) = Some(text(&object, &["status", "error", "message"])).filter(|error| !error.is_empty()) {
        diagnosis.errors.push(format!("{full_name}: {error}"));
    }
    if let Some(namespace) = of.namespace {
        let fields = format!("involvedObject.uid={}", uid(&object));
        let mut events = kube.list(resources::events(), Some(namespace), "", &fields).await?;
        events.sort_by_key(|event| [&["lastTimestamp"][..], &["eventTime"]].map(|at| text(event, at).to_owned()));
        for event in events.iter().rev().take(EVENTS) {
            let (reason, message) = (text(event, &["reason"]), text(event, &["message"]));
            let line = format!("{full_name}: {reason}: {message}");
            if text(event, &["type"]) == "Warning" && !diagnosis.errors.contains(&line) {
                diagnosis.errors.push(line.clone());
            }
            diagnosis.lines.push(format!("  {line}"));
        }
    }
    let bound = if kind == "PersistentVolumeClaim" { text(&object, &["spec", "volumeName"]) } else { "" };
    Ok((!bound.is_empty()).then(|| bound.to_owned()))
}

/// The fields of an object that tell how far it has come.
fn state_of(kind: &str, object: &Value) -> String {
    let status = &object["status"];
    let paths: &[(&str, &[&str])] = match kind {
        "Pod" => &[("node", &["spec", "nodeName"]), ("phase", &["status", "phase"]), ("reason", &["status", "reason"])],
        "PersistentVolumeClaim" => &[
            ("phase", &["status", "phase"]),
            ("class", &["spec", "storageClassName"]),
            ("volume", &["spec", "volumeName"]),
        ],
        "PersistentVolume" => {
            &[("phase", &["status", "phase"]), ("reason", &["status", "reason"]), ("message", &["status", "message"])]
        }
        "VolumeSnapshot" => &[("content", &["status", "boundVolumeSnapshotContentName"])],
        _ => &[("handle", &["status", "snapshotHandle"]), ("policy", &["spec", "deletionPolicy"])],
    };
    let mut told: Vec<String> = paths
        .iter()
        .map(|(name, path)| (name, text(object, path)))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    if let Some(is_ready) = status["readyToUse"].as_bool() {
        told.push(format!("ready {is_ready}"));
    }
    let conditions = status["conditions"].as_array().into_iter().flatten();
    told.extend(conditions.filter(|condition| condition["status"] != "True").map(|condition| {
        let (name, reason) = (text(condition, &["type"]), text(condition, &["reason"]));
        format!("not {name} ({reason}: {})", text(condition, &["message"]))
    }));
    match told.is_empty() {
        true => "no state yet".to_owned(),
        false => told.join(", "),
    }
}

impl Diagnosis {
    /// The message of a transfer with the errors that tell why it did not begin.
    pub(crate) fn added_to(&self, message: &str) -> String {
        let new: Vec<&str> = self.errors.iter().map(String::as_str).filter(|error| !message.contains(error)).collect();
        if new.is_empty() {
            return message.to_owned();
        }
        let errors: String = new.join("; ").chars().take(MOST_LETTERS).collect();
        format!("{message} ({errors})")
    }
}
