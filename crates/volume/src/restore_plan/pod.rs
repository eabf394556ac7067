//! The volumes of pods whose files a restore brings back, each claim through one pod (velero: pkg/podvolume).
//!
//! The node agent writes the files of a volume through a pod that mounts it and waits. A claim that several pods mount is filled
//! through the first of them, in the order of their names; the others are made when it is full. So no pod waits for a later one,
//! and none starts on files that come after it.
//!
//! compat: Velero fills a claim once for each pod volume backup of it, also under a pod that runs by then, and the other pods that
//! mount it start before its files are there.

use crate::facts::{claim_of_volume, is_ephemeral};
use crate::restore_plan::loss::UnsupportedMethod;
use crate::restore_plan::method::Movers;
use crate::restore_plan::recorded::{RecordedVolumes, SavedFiles, claim};
use lifeboat_api::NamespacedName;
use lifeboat_api::well_known::ANNOTATION_SNAPSHOT_PREFIX;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A volume of a pod whose files are restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileVolume {
    /// Its name in the pod.
    pub volume: String,
    /// Its claim, in the namespace of the pod.
    pub claim: Option<String>,
    /// Its files in the repository.
    pub files: SavedFiles,
}

/// The volumes of a pod that have files in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFiles {
    /// Volumes that are restored through this pod.
    pub restored: Vec<FileVolume>,
    /// Pods of the same namespace that come before, because claims that this one mounts are filled through them.
    pub after: BTreeSet<String>,
    /// Volumes whose files are recorded of no claim, and that nothing brings back, with the reason.
    pub unread: BTreeMap<String, UnsupportedMethod>,
    /// Volumes whose files are not restored because of their kind.
    pub refused: BTreeSet<String>,
}

/// The files of the pods of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesOfPods {
    pods: BTreeMap<NamespacedName, PodFiles>,
    /// Claims that are filled, with the pod of their namespace through which.
    claims: BTreeMap<NamespacedName, String>,
}

impl FilesOfPods {
    /// Plans these pods of a backup, which are all that the restore makes.
    #[must_use]
    pub fn plan(pods: BTreeMap<NamespacedName, PodFiles>) -> Self {
        let mut out = Self { pods, claims: BTreeMap::new() };
        for (pod, files) in &mut out.pods {
            let (mut after, mut own) = (BTreeSet::new(), BTreeSet::new());
            files.restored.retain(|one| {
                let Some(claim) = &one.claim else { return true };
                let first = out.claims.entry(pod.beside(claim)).or_insert_with(|| pod.name.clone());
                if *first != pod.name {
                    after.insert(first.clone());
                    return false;
                }
                // Two volumes of a pod may be one claim.
                own.insert(claim.clone())
            });
            files.after = after;
        }
        out
    }

    /// Returns true if no files are to be restored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.values().all(|files| files.restored.is_empty())
    }

    /// The volumes of a pod of the backup.
    #[must_use]
    pub fn of(&self, pod: &NamespacedName) -> Option<&PodFiles> {
        self.pods.get(pod)
    }

    /// Returns true if a claim of the backup is filled through a pod.
    #[must_use]
    pub fn is_filled(&self, claim: &NamespacedName) -> bool {
        self.claims.contains_key(claim)
    }
}

impl PodFiles {
    /// Finds the volumes of a pod of the backup that have files in a repository; `None` when it has none.
    #[must_use]
    pub fn of(pod: &Value, recorded: &RecordedVolumes, movers: Movers) -> Option<Self> {
        let metadata = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (metadata("namespace"), metadata("name"));
        let saved = recorded.of_pods.get(&NamespacedName::new(&namespace, &name));
        let annotated = if saved.is_none() { annotated(pod) } else { BTreeMap::new() };
        let saved = saved.unwrap_or(&annotated);
        let mut out = Self::default();
        for one in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let volume = one["name"].as_str().unwrap_or_default();
            let claim_name = claim_of_volume(&name, one);
            let of_claim = claim_name.as_ref().and_then(|name| recorded.pod_volumes.get(&claim(&namespace, name)));
            let Some(files) = saved.get(volume).or(of_claim) else { continue };
            // Of an ephemeral volume the files may be recorded without its claim: so they are by Velero.
            let is_by_claim = if is_ephemeral(one) { of_claim.is_some() } else { claim_name.is_some() };
            let is = |kind: &str| one.get(kind).is_some();
            // Kubernetes writes these itself.
            if ["projected", "downwardAPI", "configMap", "secret"].into_iter().any(is) {
                continue;
            }
            if is("hostPath") {
                out.refused.insert(volume.to_owned());
                continue;
            }
            match movers.read_files(files.format) {
                // A pod of the restore fills the claim before this one is made. It reaches no other volume of a pod.
                Ok(()) if movers == Movers::Pods && is_by_claim => {}
                Ok(()) if movers == Movers::Pods => {
                    out.unread.insert(volume.to_owned(), UnsupportedMethod::FsBackup);
                }
                Ok(()) => out.restored.push(FileVolume {
                    volume: volume.to_owned(),
                    claim: claim_name.map(Cow::into_owned),
                    files: files.clone(),
                }),
                // Its claim is held back.
                Err(_) if is_by_claim => {}
                Err(how) => drop(out.unread.insert(volume.to_owned(), how)),
            }
        }
        (out != Self::default()).then_some(out)
    }
}

/// The snapshots that annotations of a pod name, as Velero wrote them before it had PodVolumeBackups.
fn annotated(pod: &Value) -> BTreeMap<String, SavedFiles> {
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let named = annotations.filter_map(|(key, value)| {
        let volume = key.strip_prefix(ANNOTATION_SNAPSHOT_PREFIX)?;
        let snapshot_id = value.as_str().filter(|id| !id.is_empty())?.to_owned();
        Some((volume.to_owned(), SavedFiles { snapshot_id, ..SavedFiles::default() }))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restore_plan::recorded::FileFormat;
    use serde_json::json;

    fn files(id: &str) -> SavedFiles {
        SavedFiles { snapshot_id: id.into(), ..SavedFiles::default() }
    }

    fn volume(volume: &str, claim: Option<&str>, id: &str) -> FileVolume {
        FileVolume { volume: volume.into(), claim: claim.map(str::to_owned), files: files(id) }
    }

    fn recorded() -> RecordedVolumes {
        let restic = SavedFiles { format: FileFormat::Restic, ..files("r") };
        let of_pod = ["cache", "host", "token", "down", "inline", "gone"].map(|name| (name.to_owned(), files(name)));
        let of_pod = of_pod.into_iter().chain([("old".to_owned(), restic.clone())]).collect();
        RecordedVolumes {
            of_pods: [(NamespacedName::new("n", "web"), of_pod)].into(),
            pod_volumes: [(claim("n", "data"), files("d")), (claim("n", "by-restic"), restic)].into(),
            ..RecordedVolumes::default()
        }
    }

    #[test]
    fn each_kind_of_volume_of_a_pod_is_restored_refused_or_left_alone() {
        let pod = json!({"metadata": {"namespace": "n", "name": "web"}, "spec": {"volumes": [
            {"name": "cache", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/x"}}, {"name": "token", "projected": {}},
            {"name": "down", "downwardAPI": {}}, {"name": "inline", "csi": {"driver": "d"}}, {"name": "old", "emptyDir": {}},
            {"name": "pvc", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "unsaved", "emptyDir": {}},
            {"name": "restic", "persistentVolumeClaim": {"claimName": "by-restic"}},
        ]}});
        let with = PodFiles {
            restored: vec![
                volume("cache", None, "cache"),
                volume("inline", None, "inline"),
                volume("pvc", Some("data"), "d"),
            ],
            refused: ["host".to_owned()].into(),
            unread: [("old".to_owned(), UnsupportedMethod::Restic)].into(),
            ..PodFiles::default()
        };
        assert_eq!(PodFiles::of(&pod, &recorded(), Movers::NodeAgent), Some(with.clone()));
        let unread = [
            ("cache", UnsupportedMethod::FsBackup),
            ("inline", UnsupportedMethod::FsBackup),
            ("old", UnsupportedMethod::Restic),
        ];
        let unread = unread.map(|(volume, how)| (volume.to_owned(), how)).into();
        let without = PodFiles { restored: vec![], unread, ..with };
        // Movers of a restore of its own fill claims alone.
        for movers in [Movers::Missing, Movers::Pods] {
            assert_eq!(PodFiles::of(&pod, &recorded(), movers), Some(without.clone()), "{movers:?}");
        }
        let other = json!({"metadata": {"namespace": "n", "name": "other"}, "spec": {"volumes": [{"name": "cache", "emptyDir": {}}]}});
        assert_eq!(PodFiles::of(&other, &recorded(), Movers::NodeAgent), None);
    }

    #[test]
    fn the_files_of_an_ephemeral_volume_are_of_its_claim() {
        let volumes = json!([{"name": "own", "ephemeral": {}}, {"name": "velero", "ephemeral": {}}, {"name": "cache", "emptyDir": {}}]);
        let pod = json!({"metadata": {"namespace": "n", "name": "web"}, "spec": {"volumes": volumes}});
        let of_pod = ["own", "velero"].map(|name| (name.to_owned(), files(name)));
        let recorded = RecordedVolumes {
            of_pods: [(NamespacedName::new("n", "web"), BTreeMap::from(of_pod))].into(),
            pod_volumes: [(claim("n", "web-own"), files("own"))].into(),
            ..RecordedVolumes::default()
        };
        let restored = vec![volume("own", Some("web-own"), "own"), volume("velero", Some("web-velero"), "velero")];
        let by_agent = PodFiles { restored, ..PodFiles::default() };
        // Nothing fills a claim of which the backup records no files.
        let unread = [("velero".to_owned(), UnsupportedMethod::FsBackup)].into();
        let by_pods = PodFiles { unread, ..PodFiles::default() };
        for (movers, expected) in
            [(Movers::NodeAgent, by_agent), (Movers::Pods, by_pods.clone()), (Movers::Missing, by_pods)]
        {
            assert_eq!(PodFiles::of(&pod, &recorded, movers), Some(expected), "{movers:?}");
        }
    }

    #[test]
    fn annotations_of_old_backups_name_the_snapshots_of_a_pod() {
        let pod = json!({"metadata": {"namespace": "n", "name": "old", "annotations": {"snapshot.velero.io/cache": "a1", "x": "y",
            "snapshot.velero.io/gone": "a2"}}, "spec": {"volumes": [{"name": "cache", "emptyDir": {}}]}});
        let expected = PodFiles { restored: vec![volume("cache", None, "a1")], ..PodFiles::default() };
        assert_eq!(PodFiles::of(&pod, &RecordedVolumes::default(), Movers::NodeAgent), Some(expected));
    }

    #[test]
    fn a_claim_of_several_pods_is_filled_once_and_the_others_come_after() {
        let pod = |volumes: &[(&str, Option<&str>)]| PodFiles {
            restored: volumes.iter().map(|(name, claim)| volume(name, *claim, "s")).collect(),
            ..PodFiles::default()
        };
        let name = |name: &str| NamespacedName::new("n", name);
        let pods = [
            (name("b"), pod(&[("y", Some("two")), ("x", Some("one")), ("c", None)])),
            (name("a"), pod(&[("x", Some("one")), ("again", Some("one"))])),
            (name("c"), pod(&[("x", Some("one")), ("y", Some("two"))])),
            (NamespacedName::new("m", "c"), pod(&[("x", Some("one"))])),
        ];
        let planned = FilesOfPods::plan(pods.into());
        let of = |namespace: &str, pod: &str| {
            let files = planned.of(&NamespacedName::new(namespace, pod)).unwrap();
            let restored: Vec<&str> = files.restored.iter().map(|one| one.volume.as_str()).collect();
            (restored, files.after.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert_eq!(of("n", "a"), (vec!["x"], vec![]));
        assert_eq!(of("n", "b"), (vec!["y", "c"], vec!["a"]));
        assert_eq!(of("n", "c"), (vec![], vec!["a", "b"]));
        assert_eq!(of("m", "c"), (vec!["x"], vec![]));
        let claims = [name("one"), name("two"), NamespacedName::new("m", "two")];
        assert_eq!(claims.map(|claim| planned.is_filled(&claim)), [true, true, false]);
    }
}
