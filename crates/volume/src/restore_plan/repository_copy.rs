//! The snapshot in a repository that holds the data of one volume of a backup, for those who read it without a cluster. Pure.

use crate::restore_plan::recorded::{FileFormat, MovedSnapshot, RecordedVolumes, VolumeFiles, claim, was_empty};
use lifeboat_api::{NamespacedName, UnsupportedPart};
use lifeboat_archive::volume_info::{BackupVolumeInfo, CSI_SNAPSHOT, FAILED, NATIVE_SNAPSHOT, PVB_INFO};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The most volumes that a message names.
const NAMED: usize = 8;

/// A volume as a user names it: `[NAMESPACE/]CLAIM`, or `[NAMESPACE/]POD:VOLUME` for a volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeName {
    /// The namespace; `None` when the text has none.
    pub namespace: Option<String>,
    /// The claim, or the pod and its volume.
    pub of: VolumeOwner,
}

/// The object that a volume is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeOwner {
    /// The claim of this name.
    Claim(String),
    /// A pod.
    Pod {
        /// The name of the pod.
        pod: String,
        /// The name of the volume in it.
        volume: String,
    },
}

impl FromStr for VolumeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = text.split_once('/').map_or((None, text), |(namespace, name)| (Some(namespace), name));
        let of = match name.split_once(':') {
            Some((pod, volume)) => VolumeOwner::Pod { pod: pod.to_owned(), volume: volume.to_owned() },
            None => VolumeOwner::Claim(name.to_owned()),
        };
        let is_name = |part: &str| !part.is_empty() && !part.contains(['/', ':']);
        let is_whole = match &of {
            VolumeOwner::Claim(claim) => is_name(claim),
            VolumeOwner::Pod { pod, volume } => is_name(pod) && is_name(volume),
        };
        match is_whole && namespace.is_none_or(is_name) {
            true => Ok(Self { namespace: namespace.map(str::to_owned), of }),
            false => Err("a volume is named as NAMESPACE/CLAIM, or as NAMESPACE/POD:VOLUME".to_owned()),
        }
    }
}

impl fmt::Display for VolumeOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(claim) => f.write_str(claim),
            Self::Pod { pod, volume } => write!(f, "{pod}:{volume}"),
        }
    }
}

/// The copy of a volume's data in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryCopy {
    /// The namespace whose repository holds it.
    pub namespace: String,
    /// The snapshot in the repository.
    pub snapshot_id: String,
}

/// The reason why a volume of a backup cannot be read from a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingCopy {
    /// The backup has no record of it. The volumes that can be read are named.
    Unknown(Vec<String>),
    /// Nothing of it was saved, for this reason.
    Skipped(String),
    /// Its data was to be saved, and was not, for this reason.
    Failed(String),
    /// It has a CSI snapshot, which is in the storage of the cluster.
    CsiSnapshot,
    /// It has a snapshot that the API of its storage has taken.
    NativeSnapshot,
    /// Nothing was in it.
    Empty,
    /// Its files are in a repository of restic.
    Restic,
    /// The program of this name has moved its data, to a place that it alone knows.
    Foreign(String),
}

impl fmt::Display for MissingCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = |why: &str| if why.is_empty() { String::new() } else { format!(": {why}") };
        match self {
            Self::Unknown(readable) if readable.is_empty() => {
                f.write_str("the backup has no record of it, and none of its volumes is in a repository")
            }
            Self::Unknown(readable) => {
                let more = readable.len().saturating_sub(NAMED);
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                let named = readable.get(..NAMED).unwrap_or(readable).join(", ");
                write!(f, "the backup has no record of it; the volumes that it has in repositories are {named}{more}")
            }
            Self::Skipped(why) => {
                write!(f, "it was not saved{}; volume explain says what would have to change", because(why))
            }
            Self::Failed(why) => write!(f, "it was to be saved, and was not{}; look at another backup", because(why)),
            Self::CsiSnapshot => f.write_str(
                "its data is in a CSI snapshot in the storage of the cluster, which only a restore brings back; backups with \
                 --snapshot-move-data have it in a repository",
            ),
            Self::NativeSnapshot => f.write_str(
                "its data is in a snapshot that the API of its storage has taken, which only a restore brings back",
            ),
            Self::Empty => f.write_str("it was empty when it was saved: there is nothing to read"),
            Self::Restic => {
                write!(f, "its files are in a repository of restic: {}", UnsupportedPart::Restic.next_of_restore())
            }
            Self::Foreign(data_mover) => {
                write!(f, "the data mover {data_mover} has moved its data, and it alone can read it: use a restore")
            }
        }
    }
}

/// The records of a backup that tell where the data of its volumes is.
#[derive(Clone, Debug, Default)]
pub struct CopyRecords {
    /// The files of the backup about volumes.
    pub files: VolumeFiles,
    /// The DataUploads of its archive. Backups of Velero before 1.13 have no other record of data that was moved.
    pub uploads: Vec<Value>,
}

impl CopyRecords {
    /// Finds the copy of the data of a volume of this namespace.
    ///
    /// # Errors
    /// [`MissingCopy`].
    pub fn find(&self, namespace: &str, of: &VolumeOwner) -> Result<RepositoryCopy, MissingCopy> {
        let recorded = RecordedVolumes::of(self.files.clone());
        let found = match of {
            VolumeOwner::Claim(name) => self.of_claim(namespace, name, &recorded),
            VolumeOwner::Pod { pod, volume } => self.of_pod(&NamespacedName::new(namespace, pod), volume, &recorded),
        };
        found
            .unwrap_or_else(|| Err(MissingCopy::Unknown(self.readable(&recorded))))
            .map(|snapshot_id| RepositoryCopy { namespace: namespace.to_owned(), snapshot_id })
    }

    fn of_claim(&self, namespace: &str, name: &str, recorded: &RecordedVolumes) -> Option<Result<String, MissingCopy>> {
        let key = claim(namespace, name);
        let is_of =
            |upload: &&Value| upload["spec"]["sourceNamespace"] == namespace && upload["spec"]["sourcePVC"] == name;
        let info = self.files.infos.iter().find(|info| info.pvc_namespace == namespace && info.pvc_name == name);
        let of_upload = || self.uploads.iter().filter(is_of).find_map(MovedSnapshot::of_upload);
        if let Some(moved) = recorded.moved.get(&key).cloned().or_else(of_upload) {
            return Some(match moved.is_foreign() {
                true => Err(MissingCopy::Foreign(moved.data_mover)),
                false => Ok(moved.snapshot_id),
            });
        }
        if let Some(files) = recorded.pod_volumes.get(&key) {
            return Some(readable_files(&files.snapshot_id, files.format));
        }
        let of_backup = |backup: &&Value| {
            text(backup, "/spec/pod/namespace") == namespace
                && text(backup, "/metadata/annotations/velero.io~1pvc-name") == name
        };
        info.map(|info| Err(of_info(info)))
            .or_else(|| self.files.pod_volumes.iter().find(of_backup).map(|backup| Err(without_snapshot(backup))))
            .or_else(|| recorded.snapshots.contains_key(&key).then_some(Err(MissingCopy::CsiSnapshot)))
    }

    fn of_pod(
        &self,
        pod: &NamespacedName,
        volume: &str,
        recorded: &RecordedVolumes,
    ) -> Option<Result<String, MissingCopy>> {
        if let Some(files) = recorded.of_pods.get(pod).and_then(|volumes| volumes.get(volume)) {
            return Some(readable_files(&files.snapshot_id, files.format));
        }
        let (namespace, name) = (&*pod.namespace, &*pod.name);
        let is_of_info = |info: &&BackupVolumeInfo| {
            let of = info.other.get(PVB_INFO).unwrap_or(&Value::Null);
            of["podNamespace"] == namespace && of["podName"] == name && of["volumeName"] == volume
        };
        let is_of = |backup: &&Value| {
            text(backup, "/spec/pod/namespace") == namespace
                && text(backup, "/spec/pod/name") == name
                && text(backup, "/spec/volume") == volume
        };
        let info = self.files.infos.iter().find(is_of_info).map(|info| Err(of_info(info)));
        info.or_else(|| self.files.pod_volumes.iter().find(is_of).map(|backup| Err(without_snapshot(backup))))
    }

    /// The volumes that can be read, as a user names them.
    fn readable(&self, recorded: &RecordedVolumes) -> Vec<String> {
        let named = |namespace: &str, name: &str| format!("{namespace}/{name}");
        let of_kopia = |format| format == FileFormat::Kopia;
        let uploads = self.uploads.iter().filter(|one| MovedSnapshot::of_upload(one).is_some_and(|m| !m.is_foreign()));
        let uploads = uploads.map(|one| named(text(one, "/spec/sourceNamespace"), text(one, "/spec/sourcePVC")));
        let moved = recorded.moved.iter().filter(|(_, moved)| !moved.is_foreign()).map(|(key, _)| key);
        let files = recorded.pod_volumes.iter().filter(|(_, files)| of_kopia(files.format)).map(|(key, _)| key);
        let claims = moved.chain(files).map(|key| named(key.namespace.as_deref().unwrap_or_default(), &key.name));
        let pods = recorded.of_pods.iter().flat_map(|(pod, volumes)| {
            let own = volumes.iter().filter(|(_, files)| of_kopia(files.format));
            own.map(move |(volume, _)| format!("{pod}:{volume}"))
        });
        uploads.chain(claims).chain(pods).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn readable_files(snapshot_id: &str, format: FileFormat) -> Result<String, MissingCopy> {
    match format {
        FileFormat::Kopia => Ok(snapshot_id.to_owned()),
        FileFormat::Restic => Err(MissingCopy::Restic),
    }
}

/// The reason why a volume with this record is in no repository.
fn of_info(info: &BackupVolumeInfo) -> MissingCopy {
    let has_handle = info.csi_snapshot_info.as_ref().is_some_and(|snapshot| !snapshot.snapshot_handle.is_empty());
    match info.backup_method.as_str() {
        _ if info.skipped => MissingCopy::Skipped(info.skipped_reason.trim_end_matches([';', ' ']).to_owned()),
        _ if was_empty(info) => MissingCopy::Empty,
        CSI_SNAPSHOT if has_handle && !info.snapshot_data_moved => MissingCopy::CsiSnapshot,
        _ if info.result == FAILED => MissingCopy::Failed(info.message.clone()),
        NATIVE_SNAPSHOT => MissingCopy::NativeSnapshot,
        _ => MissingCopy::Failed("the backup names no snapshot of it in a repository".to_owned()),
    }
}

/// The reason why a PodVolumeBackup names no snapshot.
fn without_snapshot(backup: &Value) -> MissingCopy {
    match text(backup, "/status/phase") {
        "Completed" => MissingCopy::Empty,
        _ => MissingCopy::Failed(text(backup, "/status/message").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_archive::volume_info::{CsiSnapshotInfo, POD_VOLUME_BACKUP, SUCCEEDED};
    use serde_json::json;

    fn name(namespace: Option<&str>, of: VolumeOwner) -> VolumeName {
        VolumeName { namespace: namespace.map(str::to_owned), of }
    }

    fn of_pod(pod: &str, volume: &str) -> VolumeOwner {
        VolumeOwner::Pod { pod: pod.into(), volume: volume.into() }
    }

    fn of_claim(name: &str) -> VolumeOwner {
        VolumeOwner::Claim(name.into())
    }

    #[test]
    fn a_volume_is_named_by_its_claim_or_by_pod_and_volume() {
        for (text, expected) in [
            ("data", name(None, of_claim("data"))),
            ("shop/data", name(Some("shop"), of_claim("data"))),
            ("web-0:scratch", name(None, of_pod("web-0", "scratch"))),
            ("shop/web-0:scratch", name(Some("shop"), of_pod("web-0", "scratch"))),
        ] {
            assert_eq!(text.parse::<VolumeName>(), Ok(expected), "{text}");
        }
        for text in ["", "/", "shop/", "/data", "a/b/c", "web:", ":v", "a:b:c", "shop/web:a/b"] {
            assert!(text.parse::<VolumeName>().is_err(), "{text:?}");
        }
    }

    fn backup(claim: &str, volume: &str, status: &Value) -> Value {
        json!({"metadata": {"annotations": {"velero.io/pvc-name": claim}}, "status": status,
            "spec": {"pod": {"namespace": "shop", "name": "web"}, "volume": volume, "uploaderType": "kopia"}})
    }

    fn info(claim: &str, method: &str) -> BackupVolumeInfo {
        BackupVolumeInfo {
            pvc_namespace: "shop".into(),
            pvc_name: claim.into(),
            pv_name: format!("pv-{claim}"),
            backup_method: method.into(),
            result: SUCCEEDED.into(),
            ..BackupVolumeInfo::default()
        }
    }

    fn moved(claim: &str, movement: Value) -> BackupVolumeInfo {
        BackupVolumeInfo {
            snapshot_data_moved: true,
            other: [("snapshotDataMovementInfo".to_owned(), movement)].into_iter().collect(),
            ..info(claim, CSI_SNAPSHOT)
        }
    }

    fn upload(claim: &str, mover: &str) -> Value {
        json!({"spec": {"sourceNamespace": "shop", "sourcePVC": claim, "datamover": mover}, "status": {"snapshotID": "u1"}})
    }

    fn records() -> CopyRecords {
        let snapshot = CsiSnapshotInfo { snapshot_handle: "h".into(), ..CsiSnapshotInfo::default() };
        let in_storage = BackupVolumeInfo { csi_snapshot_info: Some(snapshot), ..info("csi", CSI_SNAPSHOT) };
        let failed =
            |of: BackupVolumeInfo| BackupVolumeInfo { result: FAILED.into(), message: "no space".into(), ..of };
        let skipped = BackupVolumeInfo {
            skipped: true,
            skipped_reason: "by policy;".into(),
            result: String::new(),
            ..info("skip", "")
        };
        let mut restic = backup("old", "old", &json!({"phase": "Completed", "snapshotID": "r1"}));
        restic["spec"]["uploaderType"] = json!("restic");
        CopyRecords {
            files: VolumeFiles {
                infos: vec![
                    info("files", POD_VOLUME_BACKUP),
                    moved("moved", json!({"dataMover": "velero", "snapshotHandle": "m1"})),
                    moved("theirs", json!({"dataMover": "kubevirt", "snapshotHandle": "x"})),
                    moved("hollow", json!({"dataMover": "velero"})),
                    failed(moved("lost", json!({"dataMover": "velero"}))),
                    in_storage,
                    info("native", NATIVE_SNAPSHOT),
                    skipped,
                ],
                pod_volumes: vec![
                    backup("files", "data", &json!({"phase": "Completed", "snapshotID": "f1"})),
                    backup("", "scratch", &json!({"phase": "Completed", "snapshotID": "s1"})),
                    backup("", "empty", &json!({"phase": "Completed"})),
                    backup("", "broken", &json!({"phase": "Failed", "message": "killed"})),
                    restic,
                ],
                ..VolumeFiles::default()
            },
            uploads: vec![upload("early", ""), upload("early-theirs", "kubevirt")],
        }
    }

    #[test]
    fn each_volume_of_a_backup_has_a_snapshot_in_a_repository_or_a_reason() {
        let records = records();
        let unknown = || {
            let readable = ["shop/early", "shop/files", "shop/moved", "shop/web:data", "shop/web:scratch"];
            Err(MissingCopy::Unknown(readable.map(str::to_owned).to_vec()))
        };
        for (of, expected) in [
            (of_claim("files"), Ok("f1")),
            (of_claim("moved"), Ok("m1")),
            (of_claim("early"), Ok("u1")),
            (of_pod("web", "data"), Ok("f1")),
            (of_pod("web", "scratch"), Ok("s1")),
            (of_claim("theirs"), Err(MissingCopy::Foreign("kubevirt".into()))),
            (of_claim("early-theirs"), Err(MissingCopy::Foreign("kubevirt".into()))),
            (of_claim("hollow"), Err(MissingCopy::Empty)),
            (of_claim("lost"), Err(MissingCopy::Failed("no space".into()))),
            (of_claim("csi"), Err(MissingCopy::CsiSnapshot)),
            (of_claim("native"), Err(MissingCopy::NativeSnapshot)),
            (of_claim("skip"), Err(MissingCopy::Skipped("by policy".into()))),
            (of_claim("old"), Err(MissingCopy::Restic)),
            (of_pod("web", "old"), Err(MissingCopy::Restic)),
            (of_pod("web", "empty"), Err(MissingCopy::Empty)),
            (of_pod("web", "broken"), Err(MissingCopy::Failed("killed".into()))),
            (of_claim("none"), unknown()),
            (of_pod("none", "data"), unknown()),
        ] {
            let expected = expected.map(|id| RepositoryCopy { namespace: "shop".into(), snapshot_id: id.to_owned() });
            assert_eq!(records.find("shop", &of), expected, "{of}");
        }
        assert_eq!(
            records.find("other", &of_claim("files")),
            unknown().map(|id: &str| RepositoryCopy { namespace: String::new(), snapshot_id: id.to_owned() })
        );
    }

    #[test]
    fn a_volume_that_cannot_be_read_is_refused_with_the_next_step() {
        let nine = (0..9).map(|n| format!("n/{n}")).collect();
        for (missing, expected) in [
            (MissingCopy::Unknown(Vec::new()), "none of its volumes is in a repository"),
            (MissingCopy::Unknown(nine), "n/6, n/7 and 1 more"),
            (MissingCopy::Skipped("by policy".into()), "not saved: by policy; volume explain"),
            (MissingCopy::Failed(String::new()), "was not; look at another backup"),
            (MissingCopy::CsiSnapshot, "--snapshot-move-data"),
            (MissingCopy::NativeSnapshot, "only a restore"),
            (MissingCopy::Restic, "lifeboat repo restore --format restic"),
            (MissingCopy::Foreign("kubevirt".into()), "kubevirt"),
        ] {
            let told = missing.to_string();
            assert!(told.contains(expected), "{told}");
        }
    }
}
