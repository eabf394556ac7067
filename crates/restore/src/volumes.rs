//! What becomes of persistent volumes and their claims (restore.md 2.9, 2.10). Pure.
//!
//! This version restores no volume data. A volume whose data is not on its old storage any more is not made again there:
//! its claim is left to be provisioned anew, and the user is told that it comes back empty.

use crate::action::Action;
use crate::actions::known;
use lifeboat_archive::volume_info::{BackupVolumeInfo, RestoreVolumeInfo};
use lifeboat_object::{ObjectKey, first_names};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What the backup's files say of its volumes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// Method by volume, from the volume information; empty for skipped ones.
    pub(crate) methods: BTreeMap<String, String>,
    /// Volumes with a native snapshot.
    pub(crate) native: BTreeSet<String>,
    /// Claims with a completed pod volume backup.
    pub(crate) pod_volumes: BTreeSet<ObjectKey>,
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
                .map(|v| {
                    let name = text(v, "/metadata/annotations/velero.io~1pvc-name");
                    known::claim(&text(v, "/spec/pod/namespace"), &name)
                })
                .collect(),
        }
    }
}

/// What to do with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Make it again as it is.
    AsIs,
    /// Do not; its claim gets a new one from its storage class, which is empty.
    Provision(Loss),
}

/// Why the data of a volume does not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// It was not saved, and its storage was deleted with the volume.
    NotSaved,
    /// It was saved in a way that this version cannot read: in a snapshot of this sort.
    Unreadable(&'static str),
}

/// Decides about one volume of the backup.
pub(crate) fn decide(name: &str, volume: &Value, recorded: &Recorded) -> Verdict {
    let text = |p: &str| volume.pointer(p).and_then(Value::as_str).unwrap_or_default().to_owned();
    let unreadable = |how| Verdict::Provision(Loss::Unreadable(how));
    let by_policy = || match text("/spec/persistentVolumeReclaimPolicy").as_str() {
        "Delete" => Verdict::Provision(Loss::NotSaved),
        _ => Verdict::AsIs,
    };
    let claim = known::claim(&text("/spec/claimRef/namespace"), &text("/spec/claimRef/name"));
    match recorded.methods.get(name).map(String::as_str) {
        Some("NativeSnapshot") => unreadable("native snapshot"),
        Some("PodVolumeBackup") => unreadable("pod volume backup"),
        Some("CSISnapshot") => unreadable("CSI snapshot"),
        Some(_) => by_policy(),
        None if recorded.native.contains(name) => unreadable("native snapshot"),
        None if recorded.pod_volumes.contains(&claim) => unreadable("pod volume backup"),
        None => by_policy(),
    }
}

/// The volumes and claims of a restore, for its volume information file and its warning.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeFates {
    /// The volumes of the archive, by name.
    volumes: BTreeMap<String, Volume>,
    /// Claims to restore with the names of their volumes.
    claims: Vec<(ObjectKey, String)>,
}

#[derive(Clone, Copy, Debug)]
struct Volume {
    verdict: Verdict,
    /// Whether it is part of the restore.
    included: bool,
}

/// What is told of the volumes of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// One record for each claim, then one for each volume without a claim in the restore.
    pub(crate) records: Vec<RestoreVolumeInfo>,
    /// One warning for all data that does not come back.
    pub(crate) warning: Option<String>,
}

impl VolumeFates {
    /// Adds a volume of the archive. A claim is provisioned anew also when its volume is not part of the restore.
    pub(crate) fn volume(&mut self, name: &str, verdict: Verdict, included: bool) {
        self.volumes.insert(name.to_owned(), Volume { verdict, included });
    }

    /// Adds a claim to restore.
    pub(crate) fn claim(&mut self, key: &ObjectKey, claim: &Value) {
        let volume = claim.pointer("/spec/volumeName").and_then(Value::as_str).unwrap_or_default();
        self.claims.push((key.clone(), volume.to_owned()));
    }

    /// Says what became of every claim and volume. `done` knows what was done with a claim of the backup: one that was
    /// there before keeps what it holds.
    pub(crate) fn tell(&self, mapping: &BTreeMap<String, String>, done: impl Fn(&ObjectKey) -> Option<Action>) -> Told {
        let mut claims: Vec<&(ObjectKey, String)> = self.claims.iter().collect();
        claims.sort();
        let (mut records, mut empty) = (Vec::with_capacity(claims.len()), Lost::default());
        let mut claimed = BTreeSet::new();
        for (key, volume) in claims {
            claimed.insert(volume.as_str());
            let namespace = key.namespace.clone().unwrap_or_default();
            let namespace = mapping.get(&namespace).cloned().unwrap_or(namespace);
            let message = match self.volumes.get(volume) {
                None if volume.is_empty() => "the claim was not bound: it had no data".to_owned(),
                None => "its volume is not in the backup: the claim asks for the one of that name".to_owned(),
                Some(Volume { verdict: Verdict::AsIs, included: true }) => KEPT.to_owned(),
                Some(Volume { verdict: Verdict::AsIs, .. }) => "its volume is not part of this restore".to_owned(),
                Some(Volume { verdict: Verdict::Provision(loss), .. }) => match done(key) {
                    Some(Action::Created | Action::Recreated) => {
                        empty.add(format!("{namespace}/{}", key.name), *loss);
                        format!("{}: the claim is provisioned anew and comes back empty", loss.why())
                    }
                    Some(Action::Updated | Action::Skipped) => {
                        "the claim was not made by this restore: what is there keeps what it holds".to_owned()
                    }
                    Some(Action::Failed | Action::Removed) | None => "the claim was not restored".to_owned(),
                },
            };
            records.push(RestoreVolumeInfo {
                pvc_name: key.name.clone(),
                pvc_namespace: namespace,
                pv_name: volume.clone(),
                message,
                ..RestoreVolumeInfo::default()
            });
        }
        let mut unmade = Lost::default();
        let alone = self.volumes.iter().filter(|(name, volume)| volume.included && !claimed.contains(name.as_str()));
        for (name, volume) in alone {
            let message = match volume.verdict {
                Verdict::AsIs => KEPT.to_owned(),
                Verdict::Provision(loss) => {
                    unmade.add(name.clone(), loss);
                    format!("{}: the volume is not made again", loss.why())
                }
            };
            records.push(RestoreVolumeInfo { pv_name: name.clone(), message, ..RestoreVolumeInfo::default() });
        }
        Told { records, warning: warning(&empty, &unmade) }
    }
}

const KEPT: &str = "the volume is made again on its storage, where its data is";

impl Loss {
    /// What happened to the data of one volume.
    fn why(self) -> String {
        match self {
            Self::NotSaved => {
                "its data was not saved, and its storage was deleted with it (reclaim policy Delete)".to_owned()
            }
            Self::Unreadable(how) => format!("its data is in a {how}, which this version cannot read"),
        }
    }
}

/// Names of claims or volumes whose data does not come back.
#[derive(Debug, Default)]
struct Lost {
    names: Vec<String>,
    losses: BTreeSet<Loss>,
}

impl Lost {
    fn add(&mut self, name: String, loss: Loss) {
        self.names.push(name);
        self.losses.insert(loss);
    }

    /// A sentence such as `2 claims come back empty, because their data was not saved: a/x, a/y`, of words for one and for
    /// many.
    fn sentence(&self, what: [&str; 2]) -> Option<String> {
        if self.names.is_empty() {
            return None;
        }
        let (what, whose) = if self.names.len() == 1 { (what[0], "its") } else { (what[1], "their") };
        let unsaved = self.losses.contains(&Loss::NotSaved);
        let unreadable = self.losses.iter().any(|loss| matches!(loss, Loss::Unreadable(_)));
        let why = match (unsaved, unreadable) {
            (true, true) => "was not saved, or is in a form that this version cannot read",
            (false, true) => "is in a form that this version cannot read",
            _ => "was not saved",
        };
        Some(format!("{} {what}, because {whose} data {why}: {}", self.names.len(), first_names(&self.names)))
    }
}

fn warning(empty: &Lost, unmade: &Lost) -> Option<String> {
    let empty = empty.sentence(["claim comes back empty", "claims come back empty"]);
    let unmade = unmade.sentence(["volume is not made again", "volumes are not made again"]);
    let sentences: Vec<String> = [empty, unmade].into_iter().flatten().collect();
    (!sentences.is_empty())
        .then(|| format!("{}; describe --details and the volume information file list all", sentences.join("; ")))
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
            Verdict::Provision(Loss::NotSaved) => "provision",
            Verdict::Provision(Loss::Unreadable(_)) => "lost",
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

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(lifeboat_object::GroupResource::new("", "persistentvolumeclaims"), Some("old"), name)
    }

    const NOT_SAVED: Verdict = Verdict::Provision(Loss::NotSaved);
    const IN_CSI: Verdict = Verdict::Provision(Loss::Unreadable("CSI snapshot"));

    #[test]
    fn every_claim_and_volume_is_recorded_with_what_became_of_it() {
        let mut volumes = VolumeFates::default();
        for (name, verdict, included) in [
            ("kept", Verdict::AsIs, true),
            ("filtered", Verdict::AsIs, false),
            ("alone", Verdict::AsIs, true),
            ("gone", NOT_SAVED, true),
            ("gone-filtered", NOT_SAVED, false),
            ("csi", IN_CSI, true),
            ("csi-alone", IN_CSI, true),
            ("unwanted", NOT_SAVED, false),
        ] {
            volumes.volume(name, verdict, included);
        }
        let mut expected = Vec::new();
        for (claim, volume, action, message) in [
            ("a", "", Some(Action::Created), "the claim was not bound: it had no data"),
            ("b", "kept", Some(Action::Created), "the volume is made again on its storage, where its data is"),
            (
                "c",
                "elsewhere",
                Some(Action::Created),
                "its volume is not in the backup: the claim asks for the one of that name",
            ),
            ("d", "filtered", Some(Action::Created), "its volume is not part of this restore"),
            (
                "e",
                "gone",
                Some(Action::Created),
                "its data was not saved, and its storage was deleted with it (reclaim policy Delete): the claim is provisioned anew and comes back empty",
            ),
            (
                "f",
                "gone-filtered",
                Some(Action::Created),
                "its data was not saved, and its storage was deleted with it (reclaim policy Delete): the claim is provisioned anew and comes back empty",
            ),
            (
                "g",
                "csi",
                Some(Action::Created),
                "its data is in a CSI snapshot, which this version cannot read: the claim is provisioned anew and comes back empty",
            ),
            (
                "h",
                "gone",
                Some(Action::Skipped),
                "the claim was not made by this restore: what is there keeps what it holds",
            ),
            (
                "i",
                "gone",
                Some(Action::Updated),
                "the claim was not made by this restore: what is there keeps what it holds",
            ),
            ("j", "gone", Some(Action::Failed), "the claim was not restored"),
            ("k", "gone", None, "the claim was not restored"),
            ("", "alone", None, "the volume is made again on its storage, where its data is"),
            (
                "",
                "csi-alone",
                None,
                "its data is in a CSI snapshot, which this version cannot read: the volume is not made again",
            ),
        ] {
            if !claim.is_empty() {
                volumes.claim(&key(claim), &json!({"spec": {"volumeName": volume}}));
            }
            let record = RestoreVolumeInfo {
                pvc_name: claim.into(),
                pvc_namespace: if claim.is_empty() { "" } else { "new" }.into(),
                pv_name: volume.into(),
                message: message.into(),
                ..RestoreVolumeInfo::default()
            };
            expected.push((record, action));
        }
        let done = |key: &ObjectKey| expected.iter().find(|(record, _)| record.pvc_name == key.name)?.1;
        let told = volumes.tell(&BTreeMap::from([("old".to_owned(), "new".to_owned())]), done);
        assert_eq!(told.records, expected.iter().map(|(record, _)| record.clone()).collect::<Vec<_>>());
        let warning = "3 claims come back empty, because their data was not saved, or is in a form that this version cannot \
                       read: new/e, new/f, new/g; 1 volume is not made again, because its data is in a form that this \
                       version cannot read: csi-alone; describe --details and the volume information file list all";
        assert_eq!(told.warning.as_deref(), Some(warning));
    }

    #[test]
    fn one_warning_counts_the_claims_that_come_back_empty() {
        let told = |claims: usize, verdict: Verdict, action: Action| {
            let mut volumes = VolumeFates::default();
            for n in 0..claims {
                volumes.volume(&format!("pv-{n}"), verdict, true);
                volumes.claim(&key(&format!("c-{n}")), &json!({"spec": {"volumeName": format!("pv-{n}")}}));
            }
            volumes.tell(&BTreeMap::new(), |_| Some(action)).warning
        };
        let all = "; describe --details and the volume information file list all";
        for (claims, verdict, action, expected) in [
            (0, NOT_SAVED, Action::Created, None),
            (2, Verdict::AsIs, Action::Created, None),
            (2, NOT_SAVED, Action::Skipped, None),
            (1, NOT_SAVED, Action::Created, Some("1 claim comes back empty, because its data was not saved: old/c-0")),
            (
                2,
                NOT_SAVED,
                Action::Created,
                Some("2 claims come back empty, because their data was not saved: old/c-0, old/c-1"),
            ),
            (
                300,
                IN_CSI,
                Action::Created,
                Some(
                    "300 claims come back empty, because their data is in a form that this version cannot read: old/c-0, old/c-1, old/c-10, old/c-100, old/c-101, old/c-102, old/c-103, old/c-104, old/c-105, old/c-106 and 290 more",
                ),
            ),
        ] {
            assert_eq!(
                told(claims, verdict, action),
                expected.map(|text| format!("{text}{all}")),
                "{claims} {verdict:?}"
            );
        }
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
