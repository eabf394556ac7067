//! What becomes of persistent volumes and their claims (restore.md 2.9, 2.10). Pure.
//!
//! This version restores no volume data. A volume whose data the backup holds elsewhere is not made again on its old
//! storage: its claim is left to be provisioned anew, and the user is told.

use lifeboat_archive::sidecar::{BackupVolumeInfo, RestoreVolumeInfo};
use lifeboat_object::ObjectKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What the backup's files say of its volumes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// Method by volume, from the volume information; empty for skipped ones.
    pub(crate) methods: BTreeMap<String, String>,
    /// Volumes with a native snapshot.
    pub(crate) native: BTreeSet<String>,
    /// Claims (`namespace`, `name`) with a completed pod volume backup.
    pub(crate) pod_volumes: BTreeSet<(String, String)>,
}

impl Recorded {
    /// Gathers the facts from the volume information, the native snapshots and the pod volume backups of a backup.
    pub(crate) fn of(
        infos: Option<Vec<BackupVolumeInfo>>,
        native: Option<Vec<Value>>,
        pod_volumes: Option<Vec<Value>>,
    ) -> Self {
        let text = |v: &Value, p: &str| v.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
        let infos = infos.unwrap_or_default().into_iter().filter(|i| !i.pv_name.is_empty());
        let completed =
            |v: &&Value| text(v, "/status/phase") == "Completed" && !text(v, "/status/snapshotID").is_empty();
        Self {
            methods: infos.map(|i| (i.pv_name, i.backup_method)).collect(),
            native: native.unwrap_or_default().iter().map(|v| text(v, "/spec/persistentVolumeName")).collect(),
            pod_volumes: pod_volumes
                .unwrap_or_default()
                .iter()
                .filter(completed)
                .map(|v| (text(v, "/spec/pod/namespace"), text(v, "/metadata/annotations/velero.io~1pvc-name")))
                .collect(),
        }
    }
}

/// What to do with a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Make it again as it is.
    AsIs,
    /// Do not; its claim gets a new one from its storage class.
    Provision {
        /// What the user must know; `None` when nothing is lost by it.
        lost: Option<String>,
    },
}

/// Decides about one volume of the backup.
pub(crate) fn decide(name: &str, volume: &Value, recorded: &Recorded) -> Verdict {
    let text = |p: &str| volume.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
    let lost = |how: &str| Verdict::Provision {
        lost: Some(format!(
            "the data of volume {name} is not restored: it is in a {how}, which this version cannot read; its claim will be provisioned anew and empty"
        )),
    };
    let by_policy = || match text("/spec/persistentVolumeReclaimPolicy").as_str() {
        // The storage was deleted with the volume.
        "Delete" => Verdict::Provision { lost: None },
        _ => Verdict::AsIs,
    };
    match recorded.methods.get(name).map(String::as_str) {
        Some("NativeSnapshot") => lost("native snapshot"),
        Some("PodVolumeBackup") => lost("pod volume backup"),
        Some("CSISnapshot") => lost("CSI snapshot"),
        Some(_) => by_policy(),
        None if recorded.native.contains(name) => lost("native snapshot"),
        None if recorded.pod_volumes.contains(&(text("/spec/claimRef/namespace"), text("/spec/claimRef/name"))) => {
            lost("pod volume backup")
        }
        None => by_policy(),
    }
}

/// The volumes and claims of a restore, for its volume information file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volumes {
    /// What becomes of each volume, by name.
    volumes: BTreeMap<String, String>,
    /// Claims of the backup with the names of their volumes, in order.
    claims: Vec<(ObjectKey, String)>,
}

impl Volumes {
    /// Adds a volume to restore.
    pub(crate) fn volume(&mut self, name: &str, verdict: &Verdict) {
        let message = match verdict {
            Verdict::AsIs => "the volume is made again on its storage, where its data is",
            Verdict::Provision { lost: Some(lost) } => lost,
            Verdict::Provision { lost: None } => {
                "the volume is not made again: its storage was deleted with it (reclaim policy Delete); its claim is provisioned anew and empty"
            }
        };
        self.volumes.insert(name.to_owned(), message.to_owned());
    }

    /// Adds a claim to restore.
    pub(crate) fn claim(&mut self, key: &ObjectKey, claim: &Value) {
        let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default();
        self.claims.push((key.clone(), volume.to_owned()));
    }

    /// One record for each claim, then one for each volume without a claim in the restore.
    pub(crate) fn records(mut self, mapping: &BTreeMap<String, String>) -> Vec<RestoreVolumeInfo> {
        let mut claimed = BTreeSet::new();
        let mut out = Vec::new();
        self.claims.sort();
        for (key, volume) in self.claims {
            let namespace = key.namespace.unwrap_or_default();
            let message = match self.volumes.get(&volume) {
                Some(message) => message.clone(),
                None if volume.is_empty() => "the claim was not bound".to_owned(),
                None => "its volume is not part of this restore".to_owned(),
            };
            claimed.insert(volume.clone());
            out.push(RestoreVolumeInfo {
                pvc_name: key.name,
                pvc_namespace: mapping.get(&namespace).cloned().unwrap_or(namespace),
                pv_name: volume,
                message,
                ..RestoreVolumeInfo::default()
            });
        }
        let alone = self.volumes.into_iter().filter(|(name, _)| !claimed.contains(name));
        out.extend(alone.map(|(pv_name, message)| RestoreVolumeInfo {
            pv_name,
            message,
            ..RestoreVolumeInfo::default()
        }));
        out
    }
}

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Forgets a volume's binding but not its claim, whose namespace is mapped.
pub(crate) fn reset_volume(volume: &mut Value, mapping: &BTreeMap<String, String>) {
    unbind(volume);
    if let Some(claim) = volume.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
        claim.remove("uid");
        claim.remove("resourceVersion");
        let target = claim.get("namespace").and_then(Value::as_str).and_then(|ns| mapping.get(ns)).cloned();
        if let Some(target) = target {
            claim.insert("namespace".to_owned(), target.into());
        }
    }
}

/// Forgets a claim's binding, and its volume when that is provisioned anew.
pub(crate) fn reset_claim(claim: &mut Value, provisioned: &BTreeSet<String>) {
    let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default().to_owned();
    if volume.is_empty() {
        return;
    }
    unbind(claim);
    if provisioned.contains(&volume)
        && let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("volumeName");
    }
}

fn unbind(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(BIND_COMPLETED);
        annotations.remove(BOUND_BY_CONTROLLER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_volume_with_data_elsewhere_is_never_made_on_its_old_storage() {
        let info = |name: &str, method: &str| BackupVolumeInfo {
            pv_name: name.into(),
            backup_method: method.into(),
            ..BackupVolumeInfo::default()
        };
        let recorded = Recorded::of(
            Some(vec![
                info("csi", "CSISnapshot"),
                info("fs", "PodVolumeBackup"),
                info("nat", "NativeSnapshot"),
                info("skip", ""),
            ]),
            Some(vec![json!({"spec": {"persistentVolumeName": "oldnat"}})]),
            Some(vec![
                json!({"metadata": {"annotations": {"velero.io/pvc-name": "c"}}, "spec": {"pod": {"namespace": "n"}}, "status": {"phase": "Completed", "snapshotID": "s"}}),
                json!({"metadata": {"annotations": {"velero.io/pvc-name": "failed"}}, "spec": {"pod": {"namespace": "n"}}, "status": {"phase": "Failed"}}),
            ]),
        );
        let volume = |policy: &str, claim: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"namespace": "n", "name": claim}}});
        let kind = |name: &str, policy: &str, claim: &str| match decide(name, &volume(policy, claim), &recorded) {
            Verdict::AsIs => "as is",
            Verdict::Provision { lost: None } => "provision",
            Verdict::Provision { lost: Some(_) } => "lost",
        };
        for (name, policy, claim, expected) in [
            ("csi", "Retain", "x", "lost"),
            ("fs", "Retain", "x", "lost"),
            ("nat", "Delete", "x", "lost"),
            ("skip", "Retain", "x", "as is"),
            ("skip", "Delete", "x", "provision"),
            ("oldnat", "Retain", "x", "lost"),
            ("unknown", "Retain", "c", "lost"),
            ("unknown", "Retain", "failed", "as is"),
            ("unknown", "Delete", "x", "provision"),
        ] {
            assert_eq!(kind(name, policy, claim), expected, "{name} {policy} {claim}");
        }
    }

    #[test]
    fn every_claim_and_volume_is_recorded() {
        let key = |name: &str| {
            ObjectKey::new(lifeboat_object::GroupResource::new("", "persistentvolumeclaims"), Some("old"), name)
        };
        let mut volumes = Volumes::default();
        volumes.volume("kept", &Verdict::AsIs);
        volumes.volume("lost", &Verdict::Provision { lost: Some("its data is lost".into()) });
        volumes.claim(&key("b"), &json!({"spec": {"volumeName": "lost"}}));
        volumes.claim(&key("a"), &json!({"spec": {}}));
        volumes.claim(&key("c"), &json!({"spec": {"volumeName": "elsewhere"}}));
        let record = |claim: &str, volume: &str, message: &str| RestoreVolumeInfo {
            pvc_name: claim.into(),
            pvc_namespace: if claim.is_empty() { "" } else { "new" }.into(),
            pv_name: volume.into(),
            message: message.into(),
            ..RestoreVolumeInfo::default()
        };
        assert_eq!(
            volumes.records(&BTreeMap::from([("old".to_owned(), "new".to_owned())])),
            [
                record("a", "", "the claim was not bound"),
                record("b", "lost", "its data is lost"),
                record("c", "elsewhere", "its volume is not part of this restore"),
                record("", "kept", "the volume is made again on its storage, where its data is"),
            ]
        );
    }

    #[test]
    fn bindings_are_forgotten() {
        let mut volume = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes", "a": "b"}},
            "spec": {"claimRef": {"namespace": "old", "name": "c", "uid": "u", "resourceVersion": "1"}}});
        reset_volume(&mut volume, &BTreeMap::from([("old".to_owned(), "new".to_owned())]));
        assert_eq!(
            volume,
            json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"claimRef": {"namespace": "new", "name": "c"}}})
        );
        let claim = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}});
        let mut kept = claim.clone();
        reset_claim(&mut kept, &BTreeSet::new());
        assert_eq!(kept, json!({"metadata": {"annotations": {}}, "spec": {"volumeName": "pv"}}));
        let mut provisioned = claim;
        reset_claim(&mut provisioned, &BTreeSet::from(["pv".to_owned()]));
        assert_eq!(provisioned, json!({"metadata": {"annotations": {}}, "spec": {}}));
    }
}
