//! The four resources of movers, as far as their pods look at them.

use super::source::{RestoreSource, VolumeSource};
use lifeboat_api::well_known::{
    ANNOTATION_BY_READER_POD, ANNOTATION_KILLED_MOVERS, ANNOTATION_PVC_NAME, LABEL_ASYNC_OPERATION_ID,
    LABEL_RESTORE_UID,
};
use lifeboat_api::{
    DataDownload, DataMover, DataPathPhase, DataUpload, ObjectMeta, PodVolumeBackup, PodVolumeRestore, UploaderType,
};
use lifeboat_client::Object;
use lifeboat_mover::protocol::attempt_of;
use std::collections::BTreeMap;

/// A resource for which a mover runs.
pub trait MoverResource: Object {
    /// Its metadata.
    fn meta(&self) -> &ObjectMeta;
    /// Its phase; `New` where it has none.
    fn phase(&self) -> DataPathPhase;
    /// True when the transfer is to stop.
    fn is_canceled(&self) -> bool;

    /// The number of the attempt that it is at, counted from 1.
    fn attempt(&self) -> usize {
        attempt_of(self.meta().annotations.get(ANNOTATION_KILLED_MOVERS).map(String::as_str))
    }
}

/// A resource that asks for the bytes of a volume to be brought back.
pub trait RestoreResource: MoverResource {
    /// The snapshot, and the settings.
    fn source(&self) -> RestoreSource;
    /// The Restore whose pod waits for the mark in the volume; `None` where no pod waits for one.
    fn marked_restore(&self) -> Option<String>;
}

/// A resource that asks for the bytes of a volume to be saved.
pub trait BackupResource: MoverResource {
    /// The volume as the repository knows it, and the settings.
    fn source(&self) -> VolumeSource;
}

macro_rules! mover_resource {
    ($($kind:ident),*) => {$(
        impl MoverResource for $kind {
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn phase(&self) -> DataPathPhase {
                self.status.phase.unwrap_or(DataPathPhase::New)
            }

            fn is_canceled(&self) -> bool {
                self.spec.cancel
            }
        }
    )*};
}

mover_resource!(PodVolumeRestore, DataDownload, PodVolumeBackup, DataUpload);

impl RestoreResource for PodVolumeRestore {
    fn source(&self) -> RestoreSource {
        RestoreSource {
            location: self.spec.backup_storage_location.clone(),
            namespace: self.spec.source_namespace.clone(),
            snapshot: self.spec.snapshot_id.clone(),
            is_restic: self.spec.uploader_type == UploaderType::Restic,
            settings: self.spec.uploader_settings.clone(),
        }
    }

    fn marked_restore(&self) -> Option<String> {
        let owner = self.metadata.owner_references.first().map(|owner| owner.uid.clone());
        Some(owner.or_else(|| self.metadata.labels.get(LABEL_RESTORE_UID).cloned()).unwrap_or_default())
    }
}

impl RestoreResource for DataDownload {
    fn source(&self) -> RestoreSource {
        RestoreSource {
            location: self.spec.backup_storage_location.clone(),
            namespace: self.spec.source_namespace.clone(),
            snapshot: self.spec.snapshot_id.clone(),
            is_restic: false,
            settings: self.spec.data_mover_config.clone(),
        }
    }

    fn marked_restore(&self) -> Option<String> {
        None
    }
}

/// The part of a source's path for all reader pods, in the place of the name of a pod.
const READER_POD: &str = "reader-pod";

/// The tags by which Velero tells its own snapshots of one source from others.
fn tags(requester: &str, uploader: &str) -> BTreeMap<String, String> {
    let tags = [("snapshot-requester", requester), ("snapshot-uploader", uploader)];
    tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

impl BackupResource for PodVolumeBackup {
    fn source(&self) -> VolumeSource {
        const REQUESTER: &str = "snapshot-pod-volume";
        let spec = &self.spec;
        let claim = self.metadata.annotations.get(ANNOTATION_PVC_NAME).filter(|claim| !claim.is_empty());
        let volume = claim.unwrap_or(&spec.volume);
        // Each backup has a reader pod of its own, and what one has saved is the parent of the next.
        let pod = if self.metadata.says_true(ANNOTATION_BY_READER_POD) { READER_POD } else { &spec.pod.name };
        let mut tags = tags(REQUESTER, "kopia");
        tags.extend(spec.tags.clone());
        VolumeSource {
            location: spec.backup_storage_location.clone(),
            namespace: spec.pod.namespace.clone(),
            path: format!("{REQUESTER}/kopia/{}/{pod}/{volume}", spec.pod.namespace),
            device_name: None,
            tags,
            parent: spec.parent_snapshot.clone(),
            settings: spec.uploader_settings.clone(),
        }
    }
}

impl BackupResource for DataUpload {
    fn source(&self) -> VolumeSource {
        const REQUESTER: &str = "snapshot-data-upload-download";
        let spec = &self.spec;
        let is_in_blocks = DataMover::of(&spec.data_mover) == DataMover::Blocks;
        let uploader = if is_in_blocks { "velero-block" } else { "kopia" };
        let volume = format!("{}/{}", spec.source_namespace, spec.source_pvc);
        let mut tags = tags(REQUESTER, uploader);
        if let Some(operation) = self.metadata.labels.get(LABEL_ASYNC_OPERATION_ID) {
            tags.insert(LABEL_ASYNC_OPERATION_ID.to_owned(), operation.clone());
        }
        VolumeSource {
            location: spec.backup_storage_location.clone(),
            namespace: spec.source_namespace.clone(),
            path: format!("{REQUESTER}/{uploader}/{volume}"),
            device_name: is_in_blocks.then_some(volume),
            tags,
            parent: spec.parent_snapshot.clone(),
            settings: spec.data_mover_config.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read<T: MoverResource>(mut object: serde_json::Value) -> T {
        object["apiVersion"] = T::api_version().into();
        object["kind"] = T::KIND.into();
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn the_sources_of_snapshots_are_named_as_velero_names_them() {
        let backup = json!({
            "metadata": {"name": "b-1", "annotations": {"velero.io/pvc-name": "data-web-0"}},
            "spec": {"node": "n", "volume": "data", "backupStorageLocation": "l", "repoIdentifier": "",
                "pod": {"namespace": "shop", "name": "web-0"}, "tags": {"backup": "b"}},
        });
        let mut backup: PodVolumeBackup = read(backup);
        let tags = |more: (&str, &str), requester: &str| {
            let tags = [("snapshot-requester", requester), ("snapshot-uploader", "kopia"), more];
            tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect()
        };
        let expected = VolumeSource {
            location: "l".into(),
            namespace: "shop".into(),
            path: "snapshot-pod-volume/kopia/shop/web-0/data-web-0".into(),
            device_name: None,
            tags: tags(("backup", "b"), "snapshot-pod-volume"),
            parent: String::new(),
            settings: BTreeMap::new(),
        };
        assert_eq!(backup.source(), expected);
        backup.metadata.annotations.clear();
        assert_eq!(backup.source().path, "snapshot-pod-volume/kopia/shop/web-0/data");
        let by_reader = [("lifeboat.io/by-reader-pod", "true"), ("velero.io/pvc-name", "archive")];
        backup.metadata.annotations.extend(by_reader.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(backup.source().path, "snapshot-pod-volume/kopia/shop/reader-pod/archive");

        let mut upload: DataUpload = read(json!({
            "metadata": {"name": "d-1", "labels": {"velero.io/async-operation-id": "du-1"}},
            "spec": {"snapshotType": "CSI", "sourcePVC": "data", "sourceNamespace": "shop", "backupStorageLocation": "l",
                "operationTimeout": "10m", "parentSnapshot": "none"},
        }));
        let expected = VolumeSource {
            path: "snapshot-data-upload-download/kopia/shop/data".into(),
            tags: tags(("velero.io/async-operation-id", "du-1"), "snapshot-data-upload-download"),
            parent: "none".into(),
            ..expected
        };
        assert_eq!(upload.source(), expected);
        upload.spec.data_mover = "velero-block".into();
        let mut tags = expected.tags.clone();
        tags.insert("snapshot-uploader".into(), "velero-block".into());
        let path = "snapshot-data-upload-download/velero-block/shop/data".into();
        let expected = VolumeSource { path, device_name: Some("shop/data".into()), tags, ..expected };
        assert_eq!(upload.source(), expected);
    }

    #[test]
    fn a_pod_waits_for_the_mark_of_the_restore_that_owns_the_resource() {
        let object = |metadata: serde_json::Value| -> PodVolumeRestore {
            read(json!({"metadata": metadata, "spec": {"pod": {}, "volume": "v", "backupStorageLocation": "l",
                "repoIdentifier": "", "snapshotID": "k", "sourceNamespace": "shop"}}))
        };
        let owner = json!([{"apiVersion": "velero.io/v1", "kind": "Restore", "name": "r", "uid": "owner"}]);
        let labels = json!({"velero.io/restore-uid": "label"});
        let marked = |metadata| object(metadata).marked_restore().unwrap();
        assert_eq!(marked(json!({"ownerReferences": owner, "labels": labels})), "owner");
        assert_eq!(marked(json!({"labels": labels})), "label");
        assert_eq!(marked(json!({})), "");
    }
}
