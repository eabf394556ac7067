//! `velero.io/pod`: what belongs to a pod (backup.md 1.11, 2.3).

use crate::actions::read::{key, text};
use async_trait::async_trait;
use lifeboat_action::{ActionError, ActionScope, BackupItemAction, BackupItemInput, BackupItemOutput};
use lifeboat_object::ObjectKey;
use serde_json::Value;

/// Names of the claims that a pod mounts.
pub(crate) fn claims_of_pod(pod: &Value) -> Vec<&str> {
    mounts_of_pod(pod).into_iter().map(|(claim, _)| claim).collect()
}

/// The claims that a pod mounts, and whether its annotation asks for the files of each to be saved.
pub(crate) fn mounts_of_pod(pod: &Value) -> Vec<(&str, bool)> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let asked = text(pod, "/metadata/annotations/backup.velero.io~1backup-volumes");
    volumes
        .iter()
        .map(|v| (text(v, "/persistentVolumeClaim/claimName"), asked.split(',').any(|name| name == text(v, "/name"))))
        .filter(|(claim, _)| !claim.is_empty())
        .collect()
}

/// Whether a pod runs: it has a node, the phase Running, and is not being deleted.
pub(crate) fn is_running(pod: &Value) -> bool {
    !text(pod, "/spec/nodeName").is_empty()
        && text(pod, "/status/phase") == "Running"
        && pod.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null)
}

/// What a pod needs: its claims, and its priority class.
pub(crate) fn of_pod(namespace: &str, pod: &Value) -> Vec<ObjectKey> {
    let mut out: Vec<ObjectKey> =
        claims_of_pod(pod).into_iter().map(|name| key("", "persistentvolumeclaims", Some(namespace), name)).collect();
    let class = text(pod, "/spec/priorityClassName");
    if !class.is_empty() {
        out.push(key("scheduling.k8s.io", "priorityclasses", None, class));
    }
    out
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
        let additional_items = of_pod(namespace, &input.item);
        Ok(BackupItemOutput { additional_items, ..BackupItemOutput::unchanged(input.item) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(keys: &[ObjectKey]) -> Vec<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pod_needs_its_claims_and_its_priority_class() {
        let pod = json!({"spec": {"priorityClassName": "high", "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "logs"}}]}});
        assert_eq!(
            names(&of_pod("shop", &pod)),
            [
                "persistentvolumeclaims/shop/data",
                "persistentvolumeclaims/shop/logs",
                "priorityclasses.scheduling.k8s.io/high"
            ]
        );
        assert_eq!(names(&of_pod("shop", &json!({"spec": {"volumes": "odd"}}))), [""; 0]);
    }

    #[test]
    fn a_pod_asks_for_the_files_of_the_volumes_that_it_lists() {
        let pod = |annotations: Value| {
            json!({"metadata": {"annotations": annotations}, "spec": {"volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "logs"}}]}})
        };
        for (annotations, data, logs) in [
            (json!({"backup.velero.io/backup-volumes": "b,c"}), false, true),
            (json!({"backup.velero.io/backup-volumes": "a, c"}), true, false),
            (json!({"backup.velero.io/backup-volumes": ["a"]}), false, false),
            (json!({"backup.velero.io/backup-volumes-excludes": "a"}), false, false),
            (Value::Null, false, false),
        ] {
            assert_eq!(mounts_of_pod(&pod(annotations.clone())), [("data", data), ("logs", logs)], "{annotations}");
        }
    }
}
