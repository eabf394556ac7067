//! What happened to each volume in scope. Pure.
//!
//! This version saves no volume data: every claim and volume is recorded as skipped, with the reason, and a warning
//! says so. A reason has Velero's form, `approach: reason;` for each way in which the data could have been saved
//! (backup.md 2.4), and says why it was not.

use crate::actions::pv::Claim;
use lifeboat_archive::volume_info::{BackupVolumeInfo, PvInfo};
use lifeboat_object::{Item, Text, first_names, view};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Claims and volumes that were saved, and the pods that mount them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volumes {
    claims: BTreeMap<(String, String), Claim>,
    volumes: BTreeMap<String, VolumeFacts>,
    /// The pod that mounts a claim, by the namespace and name of the claim.
    mounts: BTreeMap<(String, String), Mount>,
}

/// A pod that mounts a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// Whether it asks for the files of that volume to be saved.
    asks: bool,
    pod: String,
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
    /// What is read of a volume; one that is shaped otherwise has nothing.
    pub(crate) fn of(item: &Item) -> Self {
        let VolumeView { metadata, spec } = view(&item.body).unwrap_or_default();
        let SpecView { persistent_volume_reclaim_policy, claim_ref } = spec.unwrap_or_default();
        let ClaimRefView { namespace, name } = claim_ref.unwrap_or_default();
        let labels = metadata.and_then(|metadata| metadata.labels);
        Self {
            reclaim_policy: persistent_volume_reclaim_policy.0,
            labels: labels.map(|labels| labels.into_iter().map(|(label, value)| (label, value.0)).collect()),
            claim: (!name.0.is_empty()).then_some((namespace.0, name.0)),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeView {
    metadata: Option<MetadataView>,
    spec: Option<SpecView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MetadataView {
    labels: Option<BTreeMap<String, Text>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecView {
    persistent_volume_reclaim_policy: Text,
    claim_ref: Option<ClaimRefView>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimRefView {
    namespace: Text,
    name: Text,
}

const NO_SNAPSHOTS: &str = "volumeSnapshot: this version takes no snapshots and moves no data;";
const NOT_WANTED: &str = "volumeSnapshot: the backup asks for no snapshots (snapshotVolumes is false);";
const NO_CLAIM: &str = "any: no claim is bound to it;";

impl Mount {
    /// Those that ask come first, then they are in the order of their names.
    fn comes_before(&self, other: &Self) -> bool {
        (!self.asks, &self.pod) < (!other.asks, &other.pod)
    }

    fn reason(&self) -> String {
        let Self { asks, pod } = self;
        if *asks {
            format!("podvolume: pod {pod} asks for file system backup, which this version does not support;")
        } else {
            format!("podvolume: pod {pod} does not ask for file system backup, which this version does not support;")
        }
    }
}

impl Volumes {
    /// Notes that a pod mounts a claim, and whether it asks for its files to be saved.
    pub(crate) fn mounted(&mut self, namespace: &str, claim: &str, pod: &str, asks: bool) {
        self.mount((namespace.to_owned(), claim.to_owned()), Mount { asks, pod: pod.to_owned() });
    }

    fn mount(&mut self, claim: (String, String), mount: Mount) {
        let first = self.mounts.entry(claim).or_insert_with(|| mount.clone());
        if mount.comes_before(first) {
            *first = mount;
        }
    }

    /// Adds what was noted elsewhere.
    pub(crate) fn add(&mut self, other: Self) {
        self.claims.extend(other.claims);
        self.volumes.extend(other.volumes);
        other.mounts.into_iter().for_each(|(claim, mount)| self.mount(claim, mount));
    }

    pub(crate) fn claim(&mut self, claim: &Claim) {
        self.claims.insert((claim.namespace.clone(), claim.name.clone()), claim.clone());
    }

    pub(crate) fn volume(&mut self, name: &str, facts: VolumeFacts) {
        self.volumes.insert(name.to_owned(), facts);
    }

    /// The records: volumes by name, then the claims that have none in the backup.
    pub(crate) fn records(&self, snapshots_wanted: bool) -> Vec<BackupVolumeInfo> {
        let snapshot = if snapshots_wanted { NO_SNAPSHOTS } else { NOT_WANTED };
        let mounted = |claim: &(String, String)| self.mounts.get(claim).map(Mount::reason).unwrap_or_default();
        let mut out: Vec<BackupVolumeInfo> = self
            .volumes
            .iter()
            .map(|(name, facts)| {
                let first = facts.claim.as_ref().map_or_else(|| NO_CLAIM.to_owned(), mounted);
                let (namespace, claim) = facts.claim.clone().unwrap_or_default();
                BackupVolumeInfo {
                    pvc_name: claim,
                    pvc_namespace: namespace,
                    pv_name: name.clone(),
                    skipped: true,
                    skipped_reason: format!("{first}{snapshot}"),
                    pv_info: Some(PvInfo {
                        reclaim_policy: facts.reclaim_policy.clone(),
                        labels: facts.labels.clone(),
                    }),
                    ..BackupVolumeInfo::default()
                }
            })
            .collect();
        out.extend(self.without_volume().map(|(key, claim)| BackupVolumeInfo {
            pvc_name: claim.name.clone(),
            pvc_namespace: claim.namespace.clone(),
            pv_name: claim.volume.clone().unwrap_or_default(),
            skipped: true,
            skipped_reason: match &claim.volume {
                Some(volume) => format!("any: its volume {volume} is not in the backup;{}{snapshot}", mounted(key)),
                None => {
                    let phase = if claim.phase.is_empty() { "Pending" } else { &claim.phase };
                    format!("any: the claim is not bound, it is {phase};")
                }
            },
            ..BackupVolumeInfo::default()
        }));
        out
    }

    /// The claims whose volumes are not in the backup.
    fn without_volume(&self) -> impl Iterator<Item = (&(String, String), &Claim)> {
        self.claims.iter().filter(|(_, claim)| claim.volume.as_ref().is_none_or(|v| !self.volumes.contains_key(v)))
    }

    /// What a person must know: one line for all volumes. A claim that is not bound has no data.
    pub(crate) fn warning(&self) -> Option<String> {
        let name = |(namespace, claim): &(String, String)| format!("{namespace}/{claim}");
        let volumes = self.volumes.iter().map(|(volume, facts)| facts.claim.as_ref().map_or(volume.clone(), name));
        let claims = self.without_volume().filter(|(_, claim)| claim.volume.is_some()).map(|(key, _)| name(key));
        let mut names: Vec<String> = volumes.chain(claims).collect();
        names.sort();
        let (count, s, their) = match names.len() {
            0 => return None,
            1 => (1, "", "its object"),
            count => (count, "s", "their objects"),
        };
        Some(format!(
            "the data of {count} volume{s} is not in this backup, only {their}, because this version saves no volume \
             data: {}; describe --details and the volume information file list all with the reasons",
            first_names(&names)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ApiResource;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn facts(volume: &Value) -> VolumeFacts {
        let resource = ApiResource::new("", "v1", "persistentvolumes", "PersistentVolume");
        VolumeFacts::of(&Item::parse(Arc::new(resource), volume.to_string().into()).unwrap())
    }

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
        volumes.mounted("app1", "data", "web-b", false);
        volumes.mounted("app1", "data", "web-a", false);
        volumes.mounted("app1", "far", "a", false);
        volumes.mounted("app1", "far", "c", true);
        volumes.mounted("app1", "far", "b", true);
        volumes.mounted("app1", "far", "a", false);
        volumes.claim(&claim("data", Some("pv-data"), "Bound"));
        volumes.claim(&claim("pgdata", None, "Pending"));
        volumes.claim(&claim("far", Some("pv-far"), "Bound"));
        let bound = json!({"metadata": {"name": "v", "labels": {"disk": "data"}}, "spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "app1", "name": "data"}}});
        volumes.volume("pv-data", facts(&bound));
        volumes.claim(&claim("lost", None, "Lost"));
        let other = json!({"metadata": {"name": "o"}, "spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "app1", "name": "other"}}});
        volumes.volume("pv-other", facts(&other));
        volumes.volume(
            "pv-free",
            facts(&json!({"metadata": {"name": "pv-free"}, "spec": {"persistentVolumeReclaimPolicy": "Delete"}})),
        );
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
        let none = "volumeSnapshot: this version takes no snapshots and moves no data;";
        let unwanted = "volumeSnapshot: the backup asks for no snapshots (snapshotVolumes is false);";
        for (wanted, snapshot) in [(true, none), (false, unwanted)] {
            let mounted = format!(
                "podvolume: pod web-a does not ask for file system backup, which this version does not support;{snapshot}"
            );
            let far = format!(
                "any: its volume pv-far is not in the backup;podvolume: pod b asks for file system backup, which this \
                 version does not support;{snapshot}"
            );
            let free = format!("any: no claim is bound to it;{snapshot}");
            let expected = vec![
                record("data", "app1", "pv-data", &mounted, Some(("Retain", Some("data")))),
                record("", "", "pv-free", &free, Some(("Delete", None))),
                record("other", "app1", "pv-other", snapshot, Some(("Retain", None))),
                record("far", "app1", "pv-far", &far, None),
                record("lost", "app1", "", "any: the claim is not bound, it is Lost;", None),
                record("pgdata", "app1", "", "any: the claim is not bound, it is Pending;", None),
            ];
            assert_eq!(volumes.records(wanted), expected);
        }
        let warning = "the data of 4 volumes is not in this backup, only their objects, because this version saves no \
                       volume data: app1/data, app1/far, app1/other, pv-free; describe --details and the volume \
                       information file list all with the reasons";
        assert_eq!(volumes.warning().as_deref(), Some(warning), "claims that are not bound have no data");
    }

    #[test]
    fn the_warning_counts_volumes_with_data() {
        let mut volumes = Volumes::default();
        assert_eq!(volumes.warning(), None);
        volumes.claim(&claim("pgdata", None, "Pending"));
        assert_eq!(volumes.warning(), None, "a claim that is not bound has no data");
        volumes.volume("pv", VolumeFacts::default());
        let warning = "the data of 1 volume is not in this backup, only its object, because this version saves no volume \
                       data: pv; describe --details and the volume information file list all with the reasons";
        assert_eq!(volumes.warning().as_deref(), Some(warning));
        for n in 0..300 {
            volumes.volume(&format!("pv-{n:03}"), VolumeFacts::default());
        }
        let warning = volumes.warning().unwrap();
        assert!(warning.contains("the data of 301 volumes ") && warning.contains(": pv, pv-000, "), "{warning}");
        assert!(warning.contains("pv-008 and 291 more; "), "{warning}");
    }
}
