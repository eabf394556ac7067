//! `velero.io/pod`: what belongs to a pod (velero: pkg/backup/itemblock.go, pkg/backup/actions).

use crate::actions::read::{key, text};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput};
use lifeboat_api::Backup;
use lifeboat_object::{Head, Item, ObjectKey, Text, view};
use lifeboat_volume::facts::VolumeClaim;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// The fields of a pod that backups read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodView {
    metadata: Option<PodMetadataView>,
    spec: Option<PodSpecView>,
    status: Option<PodStatusView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodMetadataView {
    name: Text,
    annotations: Option<AnnotationsView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationsView {
    #[serde(rename = "backup.velero.io/backup-volumes")]
    backup_volumes: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpecView {
    node_name: Text,
    priority_class_name: Text,
    volumes: Option<Vec<VolumeView>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeView {
    name: Text,
    persistent_volume_claim: Option<ClaimOfVolumeView>,
    ephemeral: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimOfVolumeView {
    claim_name: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatusView {
    phase: Text,
}

impl VolumeView {
    fn claim(&self) -> VolumeClaim<'_> {
        let claim_name = self.persistent_volume_claim.as_ref().map_or("", |claim| claim.claim_name.0.as_str());
        VolumeClaim { volume: &self.name.0, claim_name, is_ephemeral: self.ephemeral.is_some() }
    }
}

impl PodView {
    /// Names of the claims that it mounts.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.mounts().map(|(claim, _)| claim)
    }

    /// The claims that it mounts, and whether its annotation asks for the files of each to be saved.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = (Cow<'_, str>, bool)> {
        let metadata = self.metadata.as_ref();
        let pod_name = metadata.map_or("", |metadata| metadata.name.0.as_str());
        let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
        let asked = annotations.map_or("", |annotations| annotations.backup_volumes.0.as_str());
        let volumes = self.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        volumes.iter().filter_map(move |volume| {
            let claim = volume.claim().name(pod_name)?;
            Some((claim, asked.split(',').any(|name| name == volume.name.0)))
        })
    }

    /// True for a pod that runs: it has a node and the phase Running, and is not being deleted, which its head says.
    pub(crate) fn is_running(&self, head: &Head) -> bool {
        !head.deleting
            && self.spec.as_ref().is_some_and(|spec| !spec.node_name.0.is_empty())
            && self.status.as_ref().is_some_and(|status| status.phase.0 == "Running")
    }

    /// The keys of the objects that the pod needs: its claims, and its priority class.
    pub(crate) fn needs(&self, namespace: &str) -> Vec<ObjectKey> {
        let mut out: Vec<ObjectKey> =
            self.claims().map(|name| key("", "persistentvolumeclaims", Some(namespace), &name)).collect();
        let class = self.spec.as_ref().map_or("", |spec| spec.priority_class_name.0.as_str());
        if !class.is_empty() {
            out.push(key("scheduling.k8s.io", "priorityclasses", None, class));
        }
        out
    }
}

/// Names the claims and the priority class of a pod; the pod stays as it is.
pub(crate) struct Pod;

#[async_trait]
impl BackupItemAction for Pod {
    fn name(&self) -> &str {
        "velero.io/pod"
    }

    fn applies_to(&self) -> ActionScope {
        ActionScope::resources(&["pods"])
    }

    async fn execute(&self, input: BackupItemInput<'_>) -> Result<BackupItemOutput, ActionError> {
        let namespace = text(&input.item, "/metadata/namespace");
        let additional_items = PodView::deserialize(&input.item).unwrap_or_default().needs(namespace);
        Ok(BackupItemOutput { additional_items, ..BackupItemOutput::unchanged(input.item) })
    }

    fn named_if_unchanged(&self, item: &Item, _: &Backup) -> Option<Vec<ObjectKey>> {
        Some(view::<PodView>(&item.body)?.needs(item.head.namespace.as_deref().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod_view(pod: &Value) -> PodView {
        view(pod.to_string().as_bytes()).unwrap_or_default()
    }

    fn names(keys: &[ObjectKey]) -> Vec<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_needs_its_claims_and_its_priority_class() {
        let pod = json!({"metadata": {"name": "web"}, "spec": {"priorityClassName": "high", "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "logs"}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}}, {"name": "e", "ephemeral": null}]}});
        assert_eq!(
            names(&pod_view(&pod).needs("shop")),
            [
                "persistentvolumeclaims/shop/data",
                "persistentvolumeclaims/shop/logs",
                "persistentvolumeclaims/shop/web-d",
                "priorityclasses.scheduling.k8s.io/high"
            ]
        );
        assert_eq!(names(&pod_view(&json!({"spec": {"volumes": "odd"}})).needs("shop")), [""; 0]);
    }

    #[test]
    fn a_pod_runs_with_a_node_and_the_phase_running_unless_being_deleted() {
        let pod = |node: Value, phase: &str, deleted: Value| json!({"metadata": {"name": "p", "deletionTimestamp": deleted}, "spec": {"nodeName": node}, "status": {"phase": phase}});
        for (pod, expected) in [
            (pod(json!("n"), "Running", Value::Null), true),
            (pod(Value::Null, "Running", Value::Null), false),
            (pod(json!(""), "Running", Value::Null), false),
            (pod(json!("n"), "Pending", Value::Null), false),
            (pod(json!("n"), "Succeeded", Value::Null), false),
            (pod(json!("n"), "Running", json!("2026-01-01T00:00:00Z")), false),
            (json!({"metadata": {"name": "p"}}), false),
        ] {
            let head = Head::parse(pod.to_string().as_bytes()).unwrap();
            assert_eq!(pod_view(&pod).is_running(&head), expected, "{pod}");
        }
    }

    #[test]
    fn a_pod_asks_for_the_files_of_the_volumes_that_it_lists() {
        let pod = |annotations: Value| {
            json!({"metadata": {"name": "web", "annotations": annotations}, "spec": {"volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "logs"}}, {"name": "own", "ephemeral": {}}]}})
        };
        for (annotations, data, logs, own) in [
            (json!({"backup.velero.io/backup-volumes": "b,c"}), false, true, false),
            (json!({"backup.velero.io/backup-volumes": "a, c"}), true, false, false),
            (json!({"backup.velero.io/backup-volumes": "own"}), false, false, true),
            (json!({"backup.velero.io/backup-volumes": ["a"]}), false, false, false),
            (json!({"backup.velero.io/backup-volumes-excludes": "a"}), false, false, false),
            (Value::Null, false, false, false),
        ] {
            let view = pod_view(&pod(annotations.clone()));
            let expected =
                [("data", data), ("logs", logs), ("web-own", own)].map(|(name, asked)| (Cow::from(name), asked));
            assert_eq!(view.mounts().collect::<Vec<_>>(), expected, "{annotations}");
        }
    }
}
