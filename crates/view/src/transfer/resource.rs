//! Transfers by the resources that ask for them.

use super::{TransferOwner, VolumeTransfer};
use jiff::Timestamp;
use lifeboat_api::well_known::{
    ANNOTATION_BY_READER_POD, ANNOTATION_KILLED_MOVERS, ANNOTATION_MOVED_AT, ANNOTATION_MOVED_FILES,
    ANNOTATION_PVC_NAME, LABEL_BACKUP_NAME, LABEL_RESTORE_NAME,
};
use lifeboat_api::{
    Backup, DataDownload, DataMoveProgress, DataPathPhase, DataUpload, MovedFiles, ObjectMeta, PodVolumeBackup,
    PodVolumeRestore, Resource, Restore, Time,
};
use serde_json::Value;

/// The fields that the status of each kind has.
struct SharedStatus<'a> {
    phase: Option<DataPathPhase>,
    message: &'a str,
    progress: &'a DataMoveProgress,
    started: Option<Time>,
}

/// The shared fields of a status.
macro_rules! shared {
    ($status:expr) => {
        SharedStatus {
            phase: $status.phase,
            message: &$status.message,
            progress: &$status.progress,
            started: $status.start_timestamp,
        }
    };
}

/// The transfer of a resource, with its average rate.
fn transfer<T: Resource>(meta: &ObjectMeta, volume: String, status: &SharedStatus<'_>) -> VolumeTransfer {
    let annotation = |name: &str| meta.annotations.get(name).map(String::as_str);
    let started = status.started.map(Time::timestamp);
    let moved_at = annotation(ANNOTATION_MOVED_AT).and_then(|text| text.parse::<Timestamp>().ok());
    let done = status.progress.bytes_done;
    let over = started.zip(moved_at).map(|(started, moved)| moved.duration_since(started).as_secs_f64());
    // One that was begun again counts its bytes from there, and its time from the first begin.
    let over = over.filter(|seconds| *seconds >= 1.0 && done > 0 && annotation(ANNOTATION_KILLED_MOVERS).is_none());
    VolumeTransfer {
        kind: T::KIND,
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        volume,
        owner: owner(meta),
        phase: status.phase.unwrap_or(DataPathPhase::New),
        message: status.message.to_owned(),
        bytes: status.progress.clone(),
        files: annotation(ANNOTATION_MOVED_FILES).and_then(MovedFiles::parse),
        started,
        moved_at,
        rate: over.map(|seconds| done as f64 / seconds),
        idle: None,
    }
}

/// The backup or restore that a resource is of. A label has a long name in a shorter form only.
fn owner(meta: &ObjectMeta) -> Option<TransferOwner> {
    let kinds = [(Restore::KIND, LABEL_RESTORE_NAME), (Backup::KIND, LABEL_BACKUP_NAME)];
    let referred = meta.owner_references.iter().find_map(|owner| {
        let &(kind, _) = kinds.iter().find(|(kind, _)| *kind == owner.kind)?;
        Some(TransferOwner { kind, name: owner.name.clone() })
    });
    referred.or_else(|| {
        kinds.iter().find_map(|&(kind, label)| Some(TransferOwner { kind, name: meta.labels.get(label)?.clone() }))
    })
}

impl From<&PodVolumeBackup> for VolumeTransfer {
    fn from(from: &PodVolumeBackup) -> Self {
        let (pod, meta, status) = (&from.spec.pod, &from.metadata, &from.status);
        let claim = meta.annotations.get(ANNOTATION_PVC_NAME).filter(|_| meta.says_true(ANNOTATION_BY_READER_POD));
        let volume = match claim {
            Some(claim) => format!("{}/{claim}", pod.namespace),
            None => format!("{}/{}:{}", pod.namespace, pod.name, from.spec.volume),
        };
        transfer::<PodVolumeBackup>(meta, volume, &shared!(status))
    }
}

impl From<&PodVolumeRestore> for VolumeTransfer {
    fn from(from: &PodVolumeRestore) -> Self {
        let (pod, status) = (&from.spec.pod, &from.status);
        let volume = format!("{}/{}:{}", pod.namespace, pod.name, from.spec.volume);
        transfer::<PodVolumeRestore>(&from.metadata, volume, &shared!(status))
    }
}

impl From<&DataUpload> for VolumeTransfer {
    fn from(from: &DataUpload) -> Self {
        let status = &from.status;
        let volume = format!("{}/{}", from.spec.source_namespace, from.spec.source_pvc);
        transfer::<DataUpload>(&from.metadata, volume, &shared!(status))
    }
}

impl From<&DataDownload> for VolumeTransfer {
    fn from(from: &DataDownload) -> Self {
        let (target, status) = (&from.spec.target_volume, &from.status);
        let volume = format!("{}/{}", target.namespace, target.pvc);
        transfer::<DataDownload>(&from.metadata, volume, &shared!(status))
    }
}

impl VolumeTransfer {
    /// The transfer that a body asks for. One that cannot be read as its kind, such as that of a later version, is shown by its name.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn parse<T>(body: &[u8]) -> serde_json::Result<Self>
    where
        T: Resource,
        for<'a> Self: From<&'a T>,
    {
        match T::from_json(body) {
            Ok(read) => Ok(Self::from(&read)),
            Err(e) => {
                let value: Value = serde_json::from_slice(body)?;
                let text = |name: &str| value["metadata"][name].as_str().unwrap_or_default().to_owned();
                let meta = ObjectMeta { name: text("name"), uid: text("uid"), ..ObjectMeta::default() };
                let message = format!("it cannot be read: {e}");
                let progress = DataMoveProgress::default();
                let shared = SharedStatus { phase: None, message: &message, progress: &progress, started: None };
                Ok(transfer::<T>(&meta, format!("{} {}", T::KIND, meta.name), &shared))
            }
        }
    }
}
