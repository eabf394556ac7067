//! Snapshots of volumes in the repositories of movers, as the files of a backup of Velero's name them.

use crate::volume_info::{BackupVolumeInfo, PVB_INFO};
use jiff::Timestamp;
use lifeboat_api::DataMover;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// A snapshot in a repository whose backup was deleted, as long as nothing has deleted it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositorySnapshot {
    /// The folder of the repository in the storage location, such as `kopia/shop`.
    pub repository: String,
    /// Its ID there; empty for all snapshots whose tags have the UID of the backup, where no record names one.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// The program that has written it: `kopia` or `restic`.
    pub uploader: String,
    /// The namespace of the volume.
    pub volume_namespace: String,
    /// The backup.
    pub backup: String,
    /// The time when the deletion of the backup began.
    pub deleted_at: Timestamp,
}

/// The records of a backup that name snapshots in repositories.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotRecords<'a> {
    /// Its pod volume backups.
    pub pod_volumes: &'a [Value],
    /// Its volume information.
    pub infos: &'a [BackupVolumeInfo],
    /// The DataUploads in its archive: backups of Velero 1.12 have no volume information.
    pub uploads: &'a [Value],
    /// The data of the ConfigMaps in which a Velero that was deleting it has noted its moved snapshots.
    pub notes: &'a [Value],
}

/// The snapshots that a backup has in repositories, in order, without those of movers of others. A repository into which movers have
/// worked for it, and of which no record names a snapshot, has one entry without an ID: what was replaced, or was cut off before it could
/// be recorded, is known by its tags alone.
#[must_use]
pub fn repository_snapshots(
    backup: &str,
    records: SnapshotRecords<'_>,
    deleted_at: Timestamp,
) -> Vec<RepositorySnapshot> {
    let of = |namespace: &str, id: &str, uploader: &str| RepositorySnapshot {
        repository: format!("{uploader}/{namespace}"),
        snapshot_id: id.to_owned(),
        uploader: uploader.to_owned(),
        volume_namespace: namespace.to_owned(),
        backup: backup.to_owned(),
        deleted_at,
    };
    let by_files = records.pod_volumes.iter().map(|one| {
        let uploader = match text(one, "/spec/uploaderType") {
            // Before there was a choice, restic was all there was; its repositories have an identifier.
            "" if !text(one, "/spec/repoIdentifier").is_empty() => "restic",
            "" => KOPIA,
            uploader => uploader,
        };
        of(text(one, "/spec/pod/namespace"), text(one, "/status/snapshotID"), uploader)
    });
    let moved = records.infos.iter().filter(|info| info.snapshot_data_moved).filter_map(|info| {
        let movement = info.other.get("snapshotDataMovementInfo")?;
        DataMover::of(text(movement, "/dataMover"))
            .is_of_velero()
            .then(|| of(&info.pvc_namespace, text(movement, "/snapshotHandle"), KOPIA))
    });
    let uploaded = records.uploads.iter().filter(|one| DataMover::of(text(one, "/spec/datamover")).is_of_velero());
    let uploaded = uploaded.map(|one| of(text(one, "/spec/sourceNamespace"), text(one, "/status/snapshotID"), KOPIA));
    let noted = records.notes.iter().filter(|one| matches!(text(one, "/repositoryType"), "" | KOPIA));
    let noted = noted.map(|one| of(text(one, "/volumeNamespace"), text(one, "/snapshotID"), KOPIA));
    let all = by_files.chain(moved).chain(uploaded).chain(noted);
    let by_pods = records.infos.iter().filter_map(|info| info.other.get(PVB_INFO));
    let by_pods = by_pods.map(|info| {
        let uploader = Some(text(info, "/uploaderType")).filter(|uploader| !uploader.is_empty()).unwrap_or(KOPIA);
        of(text(info, "/podNamespace"), text(info, "/snapshotHandle"), uploader)
    });
    let mut all: Vec<RepositorySnapshot> = all.chain(by_pods).filter(|one| !one.volume_namespace.is_empty()).collect();
    all.sort();
    all.dedup();
    let named: BTreeSet<String> =
        all.iter().filter(|one| !one.is_by_tags()).map(|one| one.repository.clone()).collect();
    all.retain(|one| !one.is_by_tags() || (one.is_of_kopia() && !named.contains(&one.repository)));
    all
}

impl RepositorySnapshot {
    /// Returns true if it stands for all snapshots with the tags of the backup.
    #[must_use]
    pub fn is_by_tags(&self) -> bool {
        self.snapshot_id.is_empty()
    }

    /// Returns true if it lies in the repository of its namespace, in the format of kopia.
    #[must_use]
    pub fn is_of_kopia(&self) -> bool {
        let namespace = &self.volume_namespace;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let is_namespace =
            namespace.starts_with(|c: char| c.is_ascii_alphanumeric()) && namespace.chars().all(is_allowed);
        is_namespace && self.uploader == KOPIA && self.repository == format!("{KOPIA}/{namespace}")
    }
}

const KOPIA: &str = "kopia";

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_snapshot_in_a_repository_is_known_by_where_it_lies_and_its_id() {
        let pod_volume = |spec: Value, id: &str| {
            let mut spec = spec;
            spec["pod"] = json!({"namespace": "shop"});
            json!({"spec": spec, "status": {"snapshotID": id, "phase": "Failed"}})
        };
        let pod_volumes = [
            pod_volume(json!({"uploaderType": "kopia"}), "k-1"),
            pod_volume(json!({"repoIdentifier": "s3:host/bucket/restic/shop"}), "r-1"),
            pod_volume(json!({}), "k-0"),
            pod_volume(json!({"uploaderType": "kopia"}), ""),
        ];
        let moved = |mover: &str, id: &str| {
            let info = json!({"pvcNamespace": "bank", "pvcName": "c", "backupMethod": "CSISnapshot", "snapshotDataMoved": true,
                "snapshotDataMovementInfo": {"dataMover": mover, "snapshotHandle": id}});
            serde_json::from_value::<BackupVolumeInfo>(info).unwrap()
        };
        let infos = [
            moved("velero", "m-1"),
            moved("theirs", "m-2"),
            moved("velero-fs", "m-3"),
            moved("", ""),
            BackupVolumeInfo::default(),
        ];
        let upload = |mover: &str, id: &str| json!({"spec": {"datamover": mover, "sourceNamespace": "bank"}, "status": {"snapshotID": id}});
        let uploads = [upload("velero", "m-1"), upload("", "u-1"), upload("theirs", "u-2"), upload("", "")];
        let notes = [
            json!({"volumeNamespace": "bank", "snapshotID": "n-1", "repositoryType": "kopia", "uploaderType": "kopia"}),
        ];
        let records = SnapshotRecords { pod_volumes: &pod_volumes, infos: &infos, uploads: &uploads, notes: &notes };
        let found = repository_snapshots("b", records, Timestamp::UNIX_EPOCH);
        let found: Vec<(&str, &str, bool)> =
            found.iter().map(|one| (&*one.repository, &*one.snapshot_id, one.is_of_kopia())).collect();
        assert_eq!(
            found,
            [
                ("kopia/bank", "m-1", true),
                ("kopia/bank", "m-3", true),
                ("kopia/bank", "n-1", true),
                ("kopia/bank", "u-1", true),
                ("kopia/shop", "k-0", true),
                ("kopia/shop", "k-1", true),
                ("restic/shop", "r-1", false)
            ]
        );
        let notes =
            [json!({"volumeNamespace": "../backups", "snapshotID": "x"}), json!({"volumeNamespace": "../backups"})];
        let strange = repository_snapshots(
            "b",
            SnapshotRecords { notes: &notes, ..SnapshotRecords::default() },
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(strange.iter().map(RepositorySnapshot::is_of_kopia).collect::<Vec<_>>(), [false]);
    }

    #[test]
    fn a_repository_of_which_no_record_names_a_snapshot_is_searched_by_tags() {
        let pod_volume = |namespace: &str, uploader: &str, id: &str| json!({"spec": {"pod": {"namespace": namespace}, "uploaderType": uploader}, "status": {"snapshotID": id}});
        let pod_volumes = [
            pod_volume("shop", "kopia", ""),
            pod_volume("shop", "kopia", ""),
            pod_volume("bank", "kopia", ""),
            pod_volume("bank", "kopia", "k-1"),
            pod_volume("old", "restic", ""),
        ];
        let uploads = [
            json!({"spec": {"sourceNamespace": "moved"}}),
            json!({"spec": {"sourceNamespace": "x", "datamover": "theirs"}}),
        ];
        let info = |value: Value| serde_json::from_value::<BackupVolumeInfo>(value).unwrap();
        let infos = [
            info(
                json!({"backupMethod": "PodVolumeBackup", "pvbInfo": {"podNamespace": "files", "snapshotHandle": "", "uploaderType": "kopia"}}),
            ),
            info(
                json!({"pvcNamespace": "failed", "snapshotDataMoved": true, "snapshotDataMovementInfo": {"dataMover": "velero"}}),
            ),
            info(json!({"pvcNamespace": "kept", "backupMethod": "CSISnapshot"})),
        ];
        let records = SnapshotRecords { pod_volumes: &pod_volumes, infos: &infos, uploads: &uploads, notes: &[] };
        let found = repository_snapshots("b", records, Timestamp::UNIX_EPOCH);
        let found: Vec<(&str, &str)> = found.iter().map(|one| (&*one.repository, &*one.snapshot_id)).collect();
        let by_tags = ["failed", "files", "moved", "shop"].map(|namespace| (format!("kopia/{namespace}"), ""));
        let mut expected: Vec<(&str, &str)> =
            by_tags.iter().map(|(repository, id)| (repository.as_str(), *id)).collect();
        expected.insert(0, ("kopia/bank", "k-1"));
        assert_eq!(found, expected);
    }
}
