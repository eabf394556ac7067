//! Facts about the volumes of a pod.

use super::source::SourceView;
use super::volume_claim::VolumeClaim;
use lifeboat_object::{Item, Text, view};
use lifeboat_select::VolumeFacts;
use serde::Deserialize;
use std::borrow::Cow;

/// A pod, and those of its volumes whose files can be saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// True when it has a node and the phase `Running`, and is not being deleted.
    pub is_running: bool,
    /// Its volumes, without those whose data is elsewhere anyway: of Secrets, ConfigMaps, the downward API, projected ones, and
    /// paths of the node.
    pub volumes: Vec<PodVolume>,
}

/// A volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: String,
    /// Its claim, in the pod's namespace.
    pub claim: Option<String>,
    /// True for a generic ephemeral volume, whose claim comes and goes with the pod.
    pub is_ephemeral: bool,
    /// The facts for policies about a volume that names no claim; boxed, because few have it.
    pub facts: Option<Box<VolumeFacts>>,
    /// True when the annotation `backup.velero.io/backup-volumes` lists it.
    pub is_opted_in: bool,
    /// True when the annotation `backup.velero.io/backup-volumes-excludes` lists it.
    pub is_opted_out: bool,
    /// True when a container that is no init container mounts it.
    pub is_mounted: bool,
    /// True when a container that is no init container uses it as a block device.
    pub is_device: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodView {
    metadata: Option<PodMetadataView>,
    spec: Option<PodSpecView>,
    status: Option<PodStatusView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodMetadataView {
    annotations: Option<AnnotationsView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationsView {
    #[serde(rename = "backup.velero.io/backup-volumes")]
    backup_volumes: Text,
    #[serde(rename = "backup.velero.io/backup-volumes-excludes")]
    excludes: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpecView {
    node_name: Text,
    volumes: Option<Vec<SourceView>>,
    containers: Option<Vec<ContainerView>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerView {
    volume_mounts: Option<Vec<NameView>>,
    volume_devices: Option<Vec<NameView>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NameView {
    name: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatusView {
    phase: Text,
}

/// Volumes whose files are never saved (velero: internal/volumehelper).
const ELSEWHERE: [&str; 5] = ["hostPath", "secret", "configMap", "projected", "downwardAPI"];

impl Pod {
    /// Reads a pod; a pod of another shape has no volumes.
    #[must_use]
    pub fn of(item: &Item) -> Self {
        let PodView { metadata, spec, status } = view(&item.body).unwrap_or_default();
        let annotations = metadata.and_then(|metadata| metadata.annotations).unwrap_or_default();
        let PodSpecView { node_name, volumes, containers } = spec.unwrap_or_default();
        let containers = containers.unwrap_or_default();
        let uses = |of: fn(&ContainerView) -> &Option<Vec<NameView>>, name: &str| {
            containers.iter().flat_map(|container| of(container).iter().flatten()).any(|used| used.name.0 == name)
        };
        let has_files =
            |volume: &SourceView| !ELSEWHERE.contains(&volume.volume_type) && !volume.name.starts_with("default-token");
        let volumes = volumes.unwrap_or_default().into_iter().filter(has_files);
        let claim_of = |volume: &SourceView| {
            let SourceView { name, claim, is_ephemeral, .. } = volume;
            let claim_name = claim.as_deref().unwrap_or_default();
            let claim = VolumeClaim { volume: name, claim_name, is_ephemeral: *is_ephemeral };
            claim.name(&item.head.name).map(Cow::into_owned)
        };
        let volumes = volumes.map(|volume| PodVolume {
            claim: claim_of(&volume),
            is_ephemeral: volume.is_ephemeral,
            facts: volume.claim.is_none().then(|| Box::new(volume.facts())),
            is_opted_in: lists(&annotations.backup_volumes.0, &volume.name),
            is_opted_out: lists(&annotations.excludes.0, &volume.name),
            is_mounted: uses(|container| &container.volume_mounts, &volume.name),
            is_device: uses(|container| &container.volume_devices, &volume.name),
            name: volume.name,
        });
        Self {
            namespace: item.head.namespace.clone().unwrap_or_default(),
            name: item.head.name.clone(),
            is_running: !item.head.deleting
                && !node_name.0.is_empty()
                && status.is_some_and(|status| status.phase.0 == "Running"),
            volumes: volumes.collect(),
        }
    }
}

/// compat: the names of an annotation are not trimmed.
fn lists(annotation: &str, name: &str) -> bool {
    !annotation.is_empty() && annotation.split(',').any(|listed| listed == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ApiResource;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn of(pod: &Value) -> Pod {
        let resource = ApiResource::new("", "v1", "pods", "Pod");
        Pod::of(&Item::parse(Arc::new(resource), pod.to_string().into()).unwrap())
    }

    #[test]
    fn a_pod_has_the_volumes_whose_files_can_be_saved() {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "annotations": {
                "backup.velero.io/backup-volumes": "a, b", "backup.velero.io/backup-volumes-excludes": "e"}},
            "spec": {"nodeName": "n1",
                "initContainers": [{"volumeMounts": [{"name": "e"}]}],
                "containers": [{"volumeMounts": [{"name": "a"}]}, {"volumeDevices": [{"name": "b"}]}],
                "volumes": [
                    {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "persistentVolumeClaim": {"claimName": "raw"}},
                    {"name": "e", "emptyDir": {}}, {"name": "n", "nfs": {"server": "s", "path": "/p"}},
                    {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}},
                    {"name": "h", "hostPath": {}}, {"name": "s", "secret": {}}, {"name": "c", "configMap": {}},
                    {"name": "p", "projected": {}}, {"name": "d", "downwardAPI": {}}, {"name": "default-token-x", "emptyDir": {}}]},
            "status": {"phase": "Running"}});
        let volume = |name: &str, claim: Option<&str>| PodVolume {
            name: name.into(),
            claim: claim.map(str::to_owned),
            ..PodVolume::default()
        };
        let nfs = VolumeFacts { volume_type: "nfs", nfs: Some(("s".into(), "/p".into())), ..VolumeFacts::default() };
        let empty = VolumeFacts { volume_type: "emptyDir", ..VolumeFacts::default() };
        let ephemeral = VolumeFacts { volume_type: "ephemeral", ..VolumeFacts::default() };
        let expected = Pod {
            namespace: "n".into(),
            name: "p".into(),
            is_running: true,
            volumes: vec![
                PodVolume { is_opted_in: true, is_mounted: true, ..volume("a", Some("data")) },
                PodVolume { is_device: true, ..volume("b", Some("raw")) },
                PodVolume { is_opted_out: true, facts: Some(Box::new(empty)), ..volume("e", None) },
                PodVolume { facts: Some(Box::new(nfs)), ..volume("n", None) },
                PodVolume { is_ephemeral: true, facts: Some(Box::new(ephemeral)), ..volume("own", Some("p-own")) },
            ],
        };
        assert_eq!(of(&pod), expected);
    }

    #[test]
    fn a_pod_runs_with_a_node_and_the_phase_running_until_it_is_deleted() {
        for (node, phase, deleted, expected) in [
            ("n", "Running", Value::Null, true),
            ("", "Running", Value::Null, false),
            ("n", "Pending", Value::Null, false),
            ("n", "Running", json!("2026-11-21T00:00:00Z"), false),
        ] {
            let pod = json!({"metadata": {"name": "p", "deletionTimestamp": deleted}, "spec": {"nodeName": node},
                "status": {"phase": phase}});
            assert_eq!(of(&pod).is_running, expected, "{pod}");
        }
        assert_eq!(of(&json!({"metadata": {"name": "p"}, "spec": 1})), Pod { name: "p".into(), ..Pod::default() });
    }
}
