//! Snapshots of volumes in the repositories of movers, as the files of a backup of Velero's name them.

use crate::volume_info::BackupVolumeInfo;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A snapshot in a repository whose backup was deleted, as long as nothing has deleted it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositorySnapshot {
    /// The folder of the repository in the storage location, such as `kopia/shop`.
    pub repository: String,
    /// Its ID there.
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

/// The snapshots that a backup has in repositories, in order, without those of movers of others: by its pod volume backups and its volume
/// information.
#[must_use]
pub fn repository_snapshots(
    backup: &str,
    pod_volumes: &[Value],
    infos: &[BackupVolumeInfo],
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
    let text = |object: &Value, pointer: &str| -> String {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let by_files = pod_volumes.iter().map(|one| {
        let uploader = match text(one, "/spec/uploaderType").as_str() {
            // Before there was a choice, restic was all there was; its repositories have an identifier.
            "" if !text(one, "/spec/repoIdentifier").is_empty() => "restic".to_owned(),
            "" => "kopia".to_owned(),
            uploader => uploader.to_owned(),
        };
        of(&text(one, "/spec/pod/namespace"), &text(one, "/status/snapshotID"), &uploader)
    });
    let moved = infos.iter().filter(|info| info.snapshot_data_moved).filter_map(|info| {
        let movement = info.other.get("snapshotDataMovementInfo")?;
        let is_veleros = matches!(text(movement, "/dataMover").as_str(), "" | "velero" | "velero-fs" | "velero-block");
        is_veleros.then(|| of(&info.pvc_namespace, &text(movement, "/snapshotHandle"), "kopia"))
    });
    let mut all: Vec<RepositorySnapshot> = by_files.chain(moved).filter(|one| !one.snapshot_id.is_empty()).collect();
    all.sort();
    all.dedup();
    all
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
        let found = repository_snapshots("b", &pod_volumes, &infos, Timestamp::UNIX_EPOCH);
        let found: Vec<(&str, &str)> =
            found.iter().map(|one| (one.repository.as_str(), one.snapshot_id.as_str())).collect();
        assert_eq!(
            found,
            [
                ("kopia/bank", "m-1"),
                ("kopia/bank", "m-3"),
                ("kopia/shop", "k-0"),
                ("kopia/shop", "k-1"),
                ("restic/shop", "r-1")
            ]
        );
    }
}
