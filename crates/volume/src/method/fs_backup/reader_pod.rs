//! The reader pod of a claim: its name, the object, and its state. Pure.
//!
//! It only holds the volume on a node with a node agent: it mounts the claim and sleeps. It has no credentials and no rights, so that it
//! passes the strictest level of the namespace's admission, and it changes nothing in the volume: no `fsGroup`, by which Kubernetes
//! would change the owners of all files.

use crate::facts::Claim;
use crate::method::child::child_name;
use crate::method::mover_pod::{container_security, has_ended, reason_not_started};
use lifeboat_api::well_known::{
    LABEL_BACKUP_NAME, LABEL_BACKUP_UID, LABEL_EXCLUDE_FROM_BACKUP, LABEL_READER_OF_BACKUP, NODE_AGENT,
};
use lifeboat_api::{Backup, NamespacedName, label_value};
use serde_json::{Value, json};
use std::time::Duration;

/// The name of the volume in a reader pod.
pub const READER_VOLUME: &str = "data";
/// The program in the image.
const PROGRAM: &str = "/velero";
/// The folder in which the container has the volume.
const MOUNT: &str = "/data";
/// The user and the group of the container, which own nothing.
const NOBODY: u32 = 65532;
/// The seconds that the container has to end.
const GRACE: u32 = 5;

/// The name of the reader pod of a claim, which follows from the backup and the claim: an attempt after this one finds it.
#[must_use]
pub fn reader_pod_name(backup: &Backup, claim: &NamespacedName) -> String {
    child_name(&backup.metadata, &["reader", &claim.namespace, &claim.name])
}

/// The parts of a reader pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReaderPod<'a> {
    pub(super) backup: &'a Backup,
    pub(super) claim: &'a Claim,
    /// The image of the server.
    pub(super) image: &'a str,
    /// The tolerations of node agents: it can run where one of them does.
    pub(super) tolerations: &'a Value,
    /// The time after which it ends by itself.
    pub(super) lifetime: Duration,
}

impl ReaderPod<'_> {
    /// The object.
    pub(super) fn object(self) -> Value {
        let (of, claim) = (&self.backup.metadata, &self.claim.key);
        let seconds = self.lifetime.as_secs();
        let agents = json!({"labelSelector": {"matchLabels": {"name": NODE_AGENT}}, "namespaces": [of.namespace],
            "topologyKey": "kubernetes.io/hostname"});
        let container = json!({
            "name": "reader", "image": self.image, "imagePullPolicy": "IfNotPresent", "command": [PROGRAM],
            "args": ["pod-volume", "wait", format!("--seconds={seconds}")],
            "volumeMounts": [{"name": READER_VOLUME, "mountPath": MOUNT, "readOnly": true}],
            // A quota of the namespace may ask for both.
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
            "securityContext": container_security(&[]),
        });
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": reader_pod_name(self.backup, claim), "namespace": claim.namespace,
            "labels": {LABEL_BACKUP_NAME: label_value(&of.name), LABEL_BACKUP_UID: of.uid,
                LABEL_READER_OF_BACKUP: label_value(&of.name), LABEL_EXCLUDE_FROM_BACKUP: "true"},
            "annotations": {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.name, "uid": self.claim.uid}],
        },
        "spec": {
            "containers": [container], "restartPolicy": "Never", "activeDeadlineSeconds": seconds,
            "terminationGracePeriodSeconds": GRACE, "automountServiceAccountToken": false, "enableServiceLinks": false,
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [agents]}},
            "securityContext": {"runAsNonRoot": true, "runAsUser": NOBODY, "runAsGroup": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": READER_VOLUME, "persistentVolumeClaim": {"claimName": claim.name}}],
        }});
        if self.tolerations.as_array().is_some_and(|all| !all.is_empty()) {
            pod["spec"]["tolerations"] = self.tolerations.clone();
        }
        pod
    }

    /// Returns true if a pod of this name can be taken up: an earlier attempt at this backup has made it for this very claim, and it has
    /// not ended.
    pub(super) fn is_this(self, found: &Value) -> bool {
        let metadata = &found["metadata"];
        metadata["labels"][LABEL_BACKUP_UID] == self.backup.metadata.uid
            && metadata["ownerReferences"][0]["uid"] == self.claim.uid
            && metadata["deletionTimestamp"].is_null()
            && !has_ended(found)
    }
}

/// The state of a reader pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReaderState {
    /// It does not run yet, for this reason as far as its status says one.
    Starting(String),
    /// It runs: its volume is mounted.
    Running,
    /// It never will, for this reason.
    Lost(String),
}

impl ReaderState {
    /// The state of the pod with this UID.
    pub(super) fn of(pod: Option<&Value>, uid: &str) -> Self {
        let Some(pod) = pod.filter(|pod| pod["metadata"]["uid"] == uid) else {
            return Self::Lost("it was deleted".to_owned());
        };
        let status = &pod["status"];
        let text = |field: &str| status[field].as_str().unwrap_or_default();
        if has_ended(pod) {
            let told: Vec<&str> = ["reason", "message"].map(text).into_iter().filter(|part| !part.is_empty()).collect();
            let why = if told.is_empty() { text("phase").to_owned() } else { told.join(": ") };
            return Self::Lost(format!("it has ended: {why}"));
        }
        match text("phase") {
            "Running" => Self::Running,
            _ => Self::Starting(reason_not_started(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> Backup {
        let mut backup = Backup::default();
        (backup.metadata.name, backup.metadata.namespace) = ("nightly".to_owned(), "velero".to_owned());
        "bu".clone_into(&mut backup.metadata.uid);
        backup
    }

    fn claim() -> Claim {
        let key = NamespacedName { namespace: "shop".into(), name: "archive".into() };
        Claim { key, uid: "cu".into(), ..Claim::default() }
    }

    #[test]
    fn a_reader_pod_passes_the_restricted_level_and_holds_only_its_volume() {
        let (backup, claim, tolerations) = (backup(), claim(), json!([{"operator": "Exists"}]));
        let lifetime = Duration::from_secs(600);
        let parts =
            ReaderPod { backup: &backup, claim: &claim, image: "r/lifeboat:1", tolerations: &tolerations, lifetime };
        let expected = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": reader_pod_name(&backup, &claim.key), "namespace": "shop",
                "labels": {"velero.io/backup-name": "nightly", "velero.io/backup-uid": "bu", "lifeboat.io/reader-of-backup": "nightly",
                    "velero.io/exclude-from-backup": "true"},
                "annotations": {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "archive", "uid": "cu"}]},
            "spec": {
                "containers": [{"name": "reader", "image": "r/lifeboat:1", "imagePullPolicy": "IfNotPresent", "command": ["/velero"],
                    "args": ["pod-volume", "wait", "--seconds=600"],
                    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}],
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true,
                        "capabilities": {"drop": ["ALL"]}}}],
                "restartPolicy": "Never", "activeDeadlineSeconds": 600, "terminationGracePeriodSeconds": 5,
                "automountServiceAccountToken": false, "enableServiceLinks": false,
                "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                    "labelSelector": {"matchLabels": {"name": "node-agent"}}, "namespaces": ["velero"],
                    "topologyKey": "kubernetes.io/hostname"}]}},
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"}},
                "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "archive"}}]}});
        assert_eq!(parts.object(), expected);
        let untolerating = ReaderPod { tolerations: &Value::Null, ..parts }.object();
        assert_eq!(untolerating["spec"].get("tolerations"), None);
    }

    #[test]
    fn a_reader_pod_of_an_earlier_attempt_is_taken_up_while_it_goes_on() {
        let (backup, claim) = (backup(), claim());
        let parts = ReaderPod {
            backup: &backup,
            claim: &claim,
            image: "i",
            tolerations: &Value::Null,
            lifetime: Duration::from_secs(1),
        };
        let with = |change: &dyn Fn(&mut Value)| {
            let mut pod = parts.object();
            change(&mut pod);
            parts.is_this(&pod)
        };
        assert!(with(&|_| {}) && with(&|pod| pod["status"]["phase"] = json!("Running")));
        assert!(!with(&|pod| pod["status"]["phase"] = json!("Failed")));
        assert!(!with(&|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-28T00:00:00Z")));
        assert!(!with(&|pod| pod["metadata"]["ownerReferences"][0]["uid"] = json!("before")));
        assert!(!with(&|pod| pod["metadata"]["labels"][LABEL_BACKUP_UID] = json!("other")));
    }

    #[test]
    fn a_reader_pod_says_what_it_waits_for_and_why_it_ended() {
        let lost = |why: &str| ReaderState::Lost(why.to_owned());
        let unscheduled = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}]});
        for (status, expected) in [
            (json!({}), ReaderState::Starting(String::new())),
            (unscheduled, ReaderState::Starting("Unschedulable: no node".into())),
            (json!({"phase": "Running"}), ReaderState::Running),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                lost("it has ended: Evicted: low on memory"),
            ),
            (json!({"phase": "Succeeded"}), lost("it has ended: Succeeded")),
        ] {
            let pod = json!({"metadata": {"uid": "u"}, "status": status});
            assert_eq!(ReaderState::of(Some(&pod), "u"), expected, "{pod}");
        }
        assert_eq!(ReaderState::of(None, "u"), lost("it was deleted"));
    }
}
