//! DataUploads: their names and fields, as Velero's action for claims makes them. Pure.

use crate::method::child::{child_metadata, child_name, upload_settings};
use crate::method::data_movement::progress::MoverState;
use lifeboat_action::OperationProgress;
use lifeboat_api::well_known::{LABEL_ASYNC_OPERATION_ID, LABEL_BACKUP_NAME, LABEL_BACKUP_UID, LABEL_PVC_UID};
use lifeboat_api::{Backup, CsiSnapshotSpec, DataPathPhase, DataUpload, DataUploadSpec, Resource, label_value};

/// A CSI snapshot whose data is to be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotToMove<'a> {
    /// The namespace of the claim, and of the VolumeSnapshot.
    pub(crate) namespace: &'a str,
    /// The claim.
    pub(crate) claim: &'a str,
    /// Its UID.
    pub(crate) claim_uid: &'a str,
    /// Its storage class.
    pub(crate) storage_class: &'a str,
    /// The type of the file system of its volume; empty where nothing says it.
    pub(crate) fs_type: &'a str,
    /// The VolumeSnapshot.
    pub(crate) snapshot: &'a str,
    /// Its class; empty for that of a group.
    pub(crate) snapshot_class: &'a str,
    /// The CSI driver.
    pub(crate) driver: &'a str,
    /// The data mover; empty for the built-in one.
    pub(crate) data_mover: &'a str,
}

/// The name of the operation that moves the data of a claim.
pub(super) fn operation_id(backup_uid: &str, claim_uid: &str) -> String {
    label_value(&format!("du-{backup_uid}.{claim_uid}"))
}

/// The DataUpload of a snapshot. Its name follows from the backup and the claim.
pub(super) fn data_upload(backup: &Backup, of: SnapshotToMove<'_>) -> DataUpload {
    let owner = &backup.metadata;
    let id = operation_id(&owner.uid, of.claim_uid);
    let name = child_name(owner, &["data-upload", &id]);
    let mut metadata = child_metadata::<Backup>(owner, &name, [LABEL_BACKUP_NAME, LABEL_BACKUP_UID]);
    metadata.labels.insert(LABEL_PVC_UID.to_owned(), of.claim_uid.to_owned());
    metadata.labels.insert(LABEL_ASYNC_OPERATION_ID.to_owned(), id);
    let csi_snapshot = CsiSnapshotSpec {
        volume_snapshot: of.snapshot.to_owned(),
        storage_class: of.storage_class.to_owned(),
        snapshot_class: of.snapshot_class.to_owned(),
        driver: of.driver.to_owned(),
        ..CsiSnapshotSpec::default()
    };
    let spec = DataUploadSpec {
        snapshot_type: "CSI".to_owned(),
        csi_snapshot: Some(csi_snapshot),
        source_pvc: of.claim.to_owned(),
        source_namespace: of.namespace.to_owned(),
        data_mover: of.data_mover.to_owned(),
        backup_storage_location: backup.spec.storage_location.clone(),
        data_mover_config: upload_settings(backup),
        operation_timeout: backup.spec.csi_snapshot_timeout,
        source_fs_type: of.fs_type.to_owned(),
        ..DataUploadSpec::default()
    };
    DataUpload { metadata, spec, ..DataUpload::default() }
}

/// Returns true if a DataUpload of an earlier attempt can be taken up: it goes on, or has ended well.
#[must_use]
pub fn goes_well(found: &DataUpload) -> bool {
    let has_failed =
        matches!(found.status.phase, Some(DataPathPhase::Failed | DataPathPhase::Canceled | DataPathPhase::Canceling));
    !has_failed && !found.spec.cancel && found.metadata.deletion_timestamp.is_none()
}

/// Returns true if a DataUpload is of the same snapshot of the same claim as another one.
pub(super) fn is_same(found: &DataUpload, wanted: &DataUpload) -> bool {
    let claim = |upload: &DataUpload| upload.metadata.labels.get(LABEL_PVC_UID).cloned();
    claim(found) == claim(wanted) && snapshot_of(found) == snapshot_of(wanted)
}

/// The VolumeSnapshot that a DataUpload is of.
pub(super) fn snapshot_of(upload: &DataUpload) -> &str {
    upload.spec.csi_snapshot.as_ref().map_or("", |snapshot| &snapshot.volume_snapshot)
}

/// The progress of the operation that a DataUpload stands for.
pub(super) fn progress_of(upload: &DataUpload) -> OperationProgress {
    let status = &upload.status;
    let state = MoverState {
        kind: DataUpload::KIND,
        phase: status.phase,
        message: &status.message,
        progress: &status.progress,
        started: status.start_timestamp,
        ended: status.completion_timestamp,
        annotations: &upload.metadata.annotations,
    };
    state.progress()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{Duration, UploaderConfigForBackup};
    use serde_json::json;

    fn backup() -> Backup {
        let mut backup = Backup::default();
        backup.metadata.name = "dm1".to_owned();
        backup.metadata.namespace = "velero".to_owned();
        backup.metadata.uid = "0f98ac39-0f05-47b6-9e5a-22d0ff890b13".to_owned();
        backup.spec.storage_location = "default".to_owned();
        backup.spec.csi_snapshot_timeout = Duration::from_secs(600);
        backup
    }

    const OF: SnapshotToMove<'_> = SnapshotToMove {
        namespace: "vol",
        claim: "data-web-0",
        claim_uid: "7cea02e7-c5fc-4911-ac28-f7ecc0c084e6",
        storage_class: "csi-testcsi",
        fs_type: "",
        snapshot: "velero-data-web-0-rct5m",
        snapshot_class: "csi-testcsi",
        driver: "test.csi.local",
        data_mover: "",
    };

    #[test]
    fn an_upload_is_the_one_that_velero_makes() {
        let mut made = serde_json::to_value(data_upload(&backup(), OF)).unwrap();
        made.as_object_mut().unwrap().remove("status");
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("dm1-") && name.len() == 20, "{name}");
        // As Velero 1.18.2 made it in a cluster, but for the random end of its name.
        let expected = json!({
            "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
            "metadata": {"name": name, "namespace": "velero",
                "labels": {"velero.io/async-operation-id": "du-0f98ac39-0f05-47b6-9e5a-22d0ff890b13.7cea02e7-c5fc-4913c3441",
                    "velero.io/backup-name": "dm1", "velero.io/backup-uid": "0f98ac39-0f05-47b6-9e5a-22d0ff890b13",
                    "velero.io/pvc-uid": "7cea02e7-c5fc-4911-ac28-f7ecc0c084e6"},
                "ownerReferences": [{"apiVersion": "velero.io/v1", "controller": true, "kind": "Backup", "name": "dm1",
                    "uid": "0f98ac39-0f05-47b6-9e5a-22d0ff890b13"}]},
            "spec": {"backupStorageLocation": "default", "operationTimeout": "10m0s", "snapshotType": "CSI",
                "sourceNamespace": "vol", "sourcePVC": "data-web-0",
                "csiSnapshot": {"driver": "test.csi.local", "snapshotClass": "csi-testcsi", "storageClass": "csi-testcsi",
                    "volumeSnapshot": "velero-data-web-0-rct5m"}},
        });
        assert_eq!(made, expected);
    }

    #[test]
    fn an_upload_names_the_mover_and_the_settings_that_are_asked_for() {
        let mut backup = backup();
        let config = UploaderConfigForBackup { parallel_files_upload: 4, ..UploaderConfigForBackup::default() };
        backup.spec.uploader_config = Some(config);
        let made = serde_json::to_value(data_upload(&backup, SnapshotToMove { data_mover: "kubevirt", ..OF })).unwrap();
        let asked = (&made["spec"]["datamover"], &made["spec"]["dataMoverConfig"]);
        assert_eq!(asked, (&json!("kubevirt"), &json!({"ParallelFilesUpload": "4"})));
        assert_eq!(made["spec"].get("sourceFSType"), None);
        let with_type = data_upload(&backup, SnapshotToMove { fs_type: "xfs", ..OF });
        assert_eq!(serde_json::to_value(with_type).unwrap()["spec"]["sourceFSType"], "xfs");
    }

    #[test]
    fn the_name_of_an_upload_is_the_same_in_all_attempts_and_no_other_claims() {
        let name = |backup: &Backup, of| data_upload(backup, of).metadata.name;
        let mut again = backup();
        again.status.attempt = 2;
        assert_eq!(name(&again, SnapshotToMove { snapshot: "another", ..OF }), name(&backup(), OF));
        assert_ne!(name(&backup(), SnapshotToMove { claim_uid: "another", ..OF }), name(&backup(), OF));
    }

    #[test]
    fn what_an_attempt_before_has_begun_is_taken_up_unless_it_failed() {
        use DataPathPhase as P;
        let found = |phase: Option<P>, cancel: bool| {
            let mut found = DataUpload::default();
            (found.status.phase, found.spec.cancel) = (phase, cancel);
            goes_well(&found)
        };
        let well = [None, Some(P::New), Some(P::Accepted), Some(P::Prepared), Some(P::InProgress), Some(P::Completed)];
        assert!(well.into_iter().all(|phase| found(phase, false) && !found(phase, true)));
        assert!([P::Failed, P::Canceled, P::Canceling].into_iter().all(|phase| !found(Some(phase), false)));
        let wanted = data_upload(&backup(), OF);
        let other = |of| is_same(&data_upload(&backup(), of), &wanted);
        assert!(other(OF));
        assert!(!other(SnapshotToMove { claim_uid: "another", ..OF }));
        assert!(!other(SnapshotToMove { snapshot: "another", ..OF }));
    }

    #[test]
    fn the_progress_of_an_upload_follows_from_its_phase() {
        use DataPathPhase as P;
        let of = |phase: Option<P>, message: &str| {
            let mut upload = DataUpload::default();
            (upload.status.phase, upload.status.message) = (phase, message.to_owned());
            (upload.status.progress.bytes_done, upload.status.progress.total_bytes) = (3, 9);
            progress_of(&upload)
        };
        assert_eq!([None, Some(P::New)].map(|phase| of(phase, "")), [(); 2].map(|()| OperationProgress::default()));
        for (phase, message, completed, error) in [
            (P::Prepared, "", false, ""),
            (P::InProgress, "", false, ""),
            (P::Completed, "", true, ""),
            (P::Canceled, "", true, "DataUpload is canceled"),
            (P::Canceled, "no room", true, "DataUpload is canceled: no room"),
            (P::Failed, "no space", true, "no space"),
        ] {
            let expected = OperationProgress {
                completed,
                error: error.to_owned(),
                n_completed: 3,
                n_total: 9,
                operation_units: "Bytes".to_owned(),
                description: phase.as_str().to_owned(),
                ..OperationProgress::default()
            };
            assert_eq!(of(Some(phase), message), expected, "{phase:?}");
        }
        // Until it has ended it says when bytes were moved last, also between two movers.
        let at = "2026-11-22T12:30:00Z";
        let mut upload = DataUpload::default();
        upload.metadata.annotations.insert("lifeboat.io/moved-at".to_owned(), at.to_owned());
        let updated = [P::InProgress, P::Prepared, P::New].map(|phase| {
            upload.status.phase = Some(phase);
            progress_of(&upload).updated
        });
        let at = at.parse::<jiff::Timestamp>().ok();
        assert_eq!(updated, [at, at, None]);
        // One that only waits goes on as long as others of its node do, and says what it waits for.
        upload.metadata.annotations.insert("lifeboat.io/others-moved-at".to_owned(), "2026-11-22T13:00:00Z".to_owned());
        upload.status.message = "as many run on this node as loadConcurrency allows".to_owned();
        let said = [P::New, P::Prepared].map(|phase| {
            upload.status.phase = Some(phase);
            let OperationProgress { updated, description, .. } = progress_of(&upload);
            (updated, description)
        });
        let later = "2026-11-22T13:00:00Z".parse::<jiff::Timestamp>().ok();
        let waits = |phase: &str| (later, format!("{phase}: as many run on this node as loadConcurrency allows"));
        assert_eq!(said, ["New", "Prepared"].map(waits));
    }
}
