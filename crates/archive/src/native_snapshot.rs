//! `<backup>-volumesnapshots.json.gz`: the native snapshots of a backup (velero: internal/volume). The file holds a
//! list of [`NativeSnapshot`], or `null` when there are none.

use serde::{Deserialize, Serialize};

/// [`NativeSnapshotStatus::phase`] of a snapshot that was taken.
pub const COMPLETED: &str = "Completed";
/// [`NativeSnapshotStatus::phase`] of a snapshot that was not.
pub const FAILED: &str = "Failed";

/// A snapshot of the volume behind a PersistentVolume, taken by the API of its storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NativeSnapshot {
    /// The volume that was snapshotted.
    pub spec: NativeSnapshotSpec,
    /// The result.
    pub status: NativeSnapshotStatus,
}

/// The volume of a snapshot, and the backup that it was taken for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSnapshotSpec {
    /// The name of the backup.
    pub backup_name: String,
    /// The UID of the backup.
    #[serde(rename = "backupUID")]
    pub backup_uid: String,
    /// The name of the VolumeSnapshotLocation whose snapshotter has taken it.
    pub location: String,
    /// The name of the PersistentVolume. Empty in a record of a snapshot that only waits to be deleted with its backup: no
    /// restore finds it.
    pub persistent_volume_name: String,
    /// The provider's name of the volume.
    #[serde(rename = "providerVolumeID")]
    pub provider_volume_id: String,
    /// The provider's type of the volume.
    pub volume_type: String,
    /// Its zone.
    #[serde(rename = "volumeAZ", skip_serializing_if = "String::is_empty")]
    pub volume_az: String,
    /// Its I/O operations per second, when they are provisioned.
    #[serde(rename = "volumeIOPS", skip_serializing_if = "Option::is_none")]
    pub volume_iops: Option<i64>,
}

/// The result of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NativeSnapshotStatus {
    /// The provider's name of it; empty when it was not taken.
    #[serde(rename = "providerSnapshotID", skip_serializing_if = "String::is_empty")]
    pub provider_snapshot_id: String,
    /// [`COMPLETED`] or [`FAILED`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

impl NativeSnapshot {
    /// Returns true if a volume can be made from it.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.status.phase == COMPLETED && !self.status.provider_snapshot_id.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{gzip, sidecar};

    /// A snapshot in the order of the fields of Velero's own type, with what it leaves out.
    const VELERO: &str = concat!(
        r#"[{"spec":{"backupName":"b","backupUID":"u","location":"default","persistentVolumeName":"pv-1","#,
        r#""providerVolumeID":"vol-1","volumeType":"io1","volumeAZ":"eu-central-1a","volumeIOPS":500},"#,
        r#""status":{"providerSnapshotID":"snap-1","phase":"Completed"}},"#,
        r#"{"spec":{"backupName":"b","backupUID":"u","location":"default","persistentVolumeName":"pv-2","#,
        r#""providerVolumeID":"vol-2","volumeType":""},"status":{"phase":"Failed"}}]"#,
        "\n"
    );

    #[test]
    fn a_file_of_velero_is_read_and_written_byte_for_byte() {
        let gzipped = gzip::pack(VELERO.as_bytes());
        let read: Option<Vec<NativeSnapshot>> = sidecar::decode(&gzipped, 1 << 20).unwrap();
        let read = read.unwrap();
        assert_eq!([read[0].is_taken(), read[1].is_taken()], [true, false]);
        assert_eq!((read[0].spec.volume_iops, read[1].spec.volume_iops), (Some(500), None));
        let written = gzip::unpack(&sidecar::encode(&read).unwrap(), 1 << 20).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), VELERO);
    }

    #[test]
    fn a_backup_without_native_snapshots_has_no_list() {
        let none: Option<Vec<NativeSnapshot>> = sidecar::decode(&sidecar::encode_nil(), 1 << 20).unwrap();
        assert_eq!(none, None);
    }
}
