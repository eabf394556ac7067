//! What happened to each volume in scope. Pure.
//!
//! This version saves no volume data: every claim and volume is recorded as skipped, with the reason, and a warning
//! says so. The reasons are Velero's where Velero has one (backup.md 2.4).

use crate::relate::Claim;
use lifeboat_archive::sidecar::{BackupVolumeInfo, PvInfo};
use serde_json::Value;
use std::collections::BTreeMap;

/// Claims and volumes that were saved, and who mounts them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volumes {
    claims: BTreeMap<(String, String), Claim>,
    volumes: BTreeMap<String, VolumeFacts>,
    /// The first pod, by name, that mounts a claim.
    mounts: BTreeMap<(String, String), String>,
}

/// What the record says of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumeFacts {
    reclaim_policy: String,
    labels: Option<BTreeMap<String, String>>,
    /// Namespace and name of the claim it is bound to.
    claim: Option<(String, String)>,
}

impl VolumeFacts {
    pub(crate) fn of(volume: &Value) -> Self {
        let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
        let labels = volume
            .pointer("/metadata/labels")
            .and_then(Value::as_object)
            .map(|map| map.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect());
        Self {
            reclaim_policy: text("/spec/persistentVolumeReclaimPolicy"),
            labels,
            claim: (!name.is_empty()).then_some((namespace, name)),
        }
    }
}

const NO_SNAPSHOTTER: &str = "volumeSnapshot: no applicable volumesnapshotter found;";
const NOT_WANTED: &str = "volumeSnapshot: not satisfy the criteria for VolumePolicy or the legacy snapshot way;";

impl Volumes {
    pub(crate) fn mounted(&mut self, namespace: &str, claim: &str, pod: &str) {
        let first = self.mounts.entry((namespace.to_owned(), claim.to_owned())).or_insert_with(|| pod.to_owned());
        if pod < first.as_str() {
            pod.clone_into(first);
        }
    }

    pub(crate) fn claim(&mut self, claim: &Claim) {
        self.claims.insert((claim.namespace.clone(), claim.name.clone()), claim.clone());
    }

    pub(crate) fn volume(&mut self, name: &str, facts: VolumeFacts) {
        self.volumes.insert(name.to_owned(), facts);
    }

    /// The records: volumes by name, then the claims that have none in the backup.
    pub(crate) fn records(&self, snapshots_wanted: bool) -> Vec<BackupVolumeInfo> {
        let snapshot = if snapshots_wanted { NO_SNAPSHOTTER } else { NOT_WANTED };
        let mut out: Vec<BackupVolumeInfo> = self
            .volumes
            .iter()
            .map(|(name, facts)| {
                let mounted =
                    facts.claim.as_ref().and_then(|claim| self.mounts.get(claim)).map_or_else(String::new, |pod| {
                        format!("podvolume: opted out due to annotation in pod {pod};")
                    });
                let (namespace, claim) = facts.claim.clone().unwrap_or_default();
                BackupVolumeInfo {
                    pvc_name: claim,
                    pvc_namespace: namespace,
                    pv_name: name.clone(),
                    skipped: true,
                    skipped_reason: format!("{mounted}{snapshot}"),
                    pv_info: Some(PvInfo {
                        reclaim_policy: facts.reclaim_policy.clone(),
                        labels: facts.labels.clone(),
                    }),
                    ..BackupVolumeInfo::default()
                }
            })
            .collect();
        let without_volume = |c: &&Claim| c.volume.as_ref().is_none_or(|v| !self.volumes.contains_key(v));
        out.extend(self.claims.values().filter(without_volume).map(|claim| BackupVolumeInfo {
            pvc_name: claim.name.clone(),
            pvc_namespace: claim.namespace.clone(),
            pv_name: claim.volume.clone().unwrap_or_default(),
            skipped: true,
            skipped_reason: match &claim.volume {
                Some(volume) => format!("its volume {volume} is not in the backup"),
                None => {
                    format!("not bound: the claim is {}", if claim.phase.is_empty() { "Pending" } else { &claim.phase })
                }
            },
            ..BackupVolumeInfo::default()
        }));
        out
    }

    /// What a person must know: one line for all volumes.
    pub(crate) fn warning(&self) -> Option<String> {
        let records = self.records(true).len();
        (records > 0).then(|| {
            format!(
                "the data of {records} volumes is not in this backup, only their objects: this version saves no volume data (see the volume information file)"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(name: &str, volume: Option<&str>, phase: &str) -> Claim {
        Claim {
            namespace: "app1".into(),
            name: name.into(),
            volume: volume.map(str::to_owned),
            phase: phase.into(),
            group: None,
        }
    }

    #[test]
    fn every_claim_and_volume_is_named_with_its_reason() {
        let mut volumes = Volumes::default();
        volumes.mounted("app1", "data", "web-b");
        volumes.mounted("app1", "data", "web-a");
        volumes.claim(&claim("data", Some("pv-data"), "Bound"));
        volumes.claim(&claim("pgdata", None, "Pending"));
        volumes.claim(&claim("far", Some("pv-far"), "Bound"));
        let bound = json!({"metadata": {"labels": {"disk": "data"}}, "spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "app1", "name": "data"}}});
        volumes.volume("pv-data", VolumeFacts::of(&bound));
        volumes.volume("pv-free", VolumeFacts::of(&json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}})));
        let record =
            |pvc: &str, ns: &str, pv: &str, reason: &str, info: Option<(&str, Option<&str>)>| BackupVolumeInfo {
                pvc_name: pvc.into(),
                pvc_namespace: ns.into(),
                pv_name: pv.into(),
                skipped: true,
                skipped_reason: reason.into(),
                pv_info: info.map(|(policy, disk)| PvInfo {
                    reclaim_policy: policy.into(),
                    labels: disk.map(|d| BTreeMap::from([("disk".to_owned(), d.to_owned())])),
                }),
                ..BackupVolumeInfo::default()
            };
        assert_eq!(
            volumes.records(true),
            vec![
                record(
                    "data",
                    "app1",
                    "pv-data",
                    "podvolume: opted out due to annotation in pod web-a;volumeSnapshot: no applicable volumesnapshotter found;",
                    Some(("Retain", Some("data")))
                ),
                record(
                    "",
                    "",
                    "pv-free",
                    "volumeSnapshot: no applicable volumesnapshotter found;",
                    Some(("Delete", None))
                ),
                record("far", "app1", "pv-far", "its volume pv-far is not in the backup", None),
                record("pgdata", "app1", "", "not bound: the claim is Pending", None),
            ]
        );
        assert!(volumes.warning().unwrap().starts_with("the data of 4 volumes"));
        assert_eq!(Volumes::default().warning(), None);
    }
}
