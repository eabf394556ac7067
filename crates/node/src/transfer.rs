//! A resource that asks for the bytes of a volume, whatever its kind. Pure.
//!
//! All kinds have the same phases, and the same fields in their status but for the result; what differs between kinds is
//! [`TransferKind`] and [`TransferRequest`].

pub(crate) use crate::kind::TransferKind;
use lifeboat_api::well_known::{ANNOTATION_DELIVERY, ANNOTATION_MOVED_FILES, LABEL_EXPOSE_ON_GOING};
use lifeboat_api::{
    DataDownload, DataDownloadSpec, DataMoveProgress, DataMover, DataPathPhase, DataUpload, DataUploadSpec, MovedFiles,
    NodeOs, ObjectMeta, ObjectReference, PodVolumeBackup, PodVolumeBackupSpec, PodVolumeRestore, PodVolumeRestoreSpec,
    Time, UnsupportedPart, UploaderType,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The volume that a transfer is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TransferRequest {
    PodVolumeRestore(Box<PodVolumeRestoreSpec>),
    DataDownload(Box<DataDownloadSpec>),
    PodVolumeBackup(Box<PodVolumeBackupSpec>),
    DataUpload(Box<DataUploadSpec>),
}

/// The facts about a volume on its way to its claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    /// The PersistentVolume.
    pub(crate) volume: String,
    /// Its reclaim policy, which it gets back.
    pub(crate) reclaim_policy: String,
    /// Bytes in all.
    pub(crate) total_bytes: i64,
    /// Files in all; 0 where they are not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) files: i64,
    /// Told by the mover about entries that it passed over; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// The time at which it began.
    pub(crate) begun: Time,
    /// The PersistentVolume that is made of it for a claim of another mode; `None` where the modes are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remade: Option<RemadeVolume>,
}

/// The PersistentVolume of the other mode for a volume in the storage that was filled as a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemadeVolume {
    pub(crate) name: String,
    /// Its file system; empty where nobody knows it, and the driver takes its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) fs_type: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A transfer as it was last seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) kind: TransferKind,
    pub(crate) meta: ObjectMeta,
    pub(crate) phase: DataPathPhase,
    pub(crate) cancel: bool,
    /// The node that does it, or that is asked to.
    pub(crate) node: String,
    /// The node that prepares it; only kinds that any node accepts have it.
    pub(crate) accepted_by: String,
    pub(crate) accepted: Option<Time>,
    pub(crate) started: Option<Time>,
    /// The time at which it ended.
    pub(crate) completed: Option<Time>,
    pub(crate) message: String,
    pub(crate) progress: DataMoveProgress,
    pub(crate) request: TransferRequest,
}

/// The name of a transfer in this process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TransferKey {
    pub(crate) kind: TransferKind,
    pub(crate) name: String,
}

impl lifeboat_reconcile::TaskKey for TransferKey {
    type Subject = Self;

    fn subject(&self) -> Self {
        self.clone()
    }
}

impl From<PodVolumeRestore> for Transfer {
    fn from(from: PodVolumeRestore) -> Self {
        let status = from.status;
        Self {
            kind: TransferKind::PodVolumeRestore,
            meta: from.metadata,
            phase: status.phase.unwrap_or(DataPathPhase::New),
            cancel: from.spec.cancel,
            node: status.node,
            accepted_by: String::new(),
            accepted: status.accepted_timestamp,
            started: status.start_timestamp,
            completed: status.completion_timestamp,
            message: status.message,
            progress: status.progress,
            request: TransferRequest::PodVolumeRestore(Box::new(from.spec)),
        }
    }
}

impl From<DataDownload> for Transfer {
    fn from(from: DataDownload) -> Self {
        let status = from.status;
        Self {
            kind: TransferKind::DataDownload,
            meta: from.metadata,
            phase: status.phase.unwrap_or(DataPathPhase::New),
            cancel: from.spec.cancel,
            node: status.node,
            accepted_by: status.accepted_by_node,
            accepted: status.accepted_timestamp,
            started: status.start_timestamp,
            completed: status.completion_timestamp,
            message: status.message,
            progress: status.progress,
            request: TransferRequest::DataDownload(Box::new(from.spec)),
        }
    }
}

impl From<PodVolumeBackup> for Transfer {
    fn from(from: PodVolumeBackup) -> Self {
        let status = from.status;
        Self {
            kind: TransferKind::PodVolumeBackup,
            meta: from.metadata,
            phase: status.phase.unwrap_or(DataPathPhase::New),
            cancel: from.spec.cancel,
            node: from.spec.node.clone(),
            accepted_by: String::new(),
            accepted: status.accepted_timestamp,
            started: status.start_timestamp,
            completed: status.completion_timestamp,
            message: status.message,
            progress: status.progress,
            request: TransferRequest::PodVolumeBackup(Box::new(from.spec)),
        }
    }
}

impl From<DataUpload> for Transfer {
    fn from(from: DataUpload) -> Self {
        let status = from.status;
        Self {
            kind: TransferKind::DataUpload,
            meta: from.metadata,
            phase: status.phase.unwrap_or(DataPathPhase::New),
            cancel: from.spec.cancel,
            node: status.node,
            accepted_by: status.accepted_by_node,
            accepted: status.accepted_timestamp,
            started: status.start_timestamp,
            completed: status.completion_timestamp,
            message: status.message,
            progress: status.progress,
            request: TransferRequest::DataUpload(Box::new(from.spec)),
        }
    }
}

/// A transfer that this agent does, leaves to another mover, or refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    Ours,
    Foreign,
    Refused(String),
}

impl Transfer {
    /// Reads an object of a kind.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn parse(kind: TransferKind, body: &[u8]) -> serde_json::Result<Self> {
        Ok(match kind {
            TransferKind::PodVolumeRestore => serde_json::from_slice::<PodVolumeRestore>(body)?.into(),
            TransferKind::DataDownload => serde_json::from_slice::<DataDownload>(body)?.into(),
            TransferKind::PodVolumeBackup => serde_json::from_slice::<PodVolumeBackup>(body)?.into(),
            TransferKind::DataUpload => serde_json::from_slice::<DataUpload>(body)?.into(),
        })
    }

    pub(crate) fn key(&self) -> TransferKey {
        TransferKey { kind: self.kind, name: self.meta.name.clone() }
    }

    pub(crate) fn support(&self) -> Support {
        match &self.request {
            TransferRequest::PodVolumeRestore(spec) => match spec.uploader_type {
                UploaderType::Kopia | UploaderType::Unset => Support::Ours,
                UploaderType::Restic => Support::Refused(UnsupportedPart::Restic.refusal_of_restore()),
            },
            TransferRequest::PodVolumeBackup(spec) => match spec.uploader_type {
                UploaderType::Kopia | UploaderType::Unset => Support::Ours,
                UploaderType::Restic => Support::Refused(UnsupportedPart::Restic.refusal_of_backup()),
            },
            TransferRequest::DataDownload(spec) => match DataMover::of(&spec.data_mover) {
                DataMover::NodeAgent | DataMover::Block => Support::Ours,
                DataMover::ThirdParty => Support::Foreign,
            },
            TransferRequest::DataUpload(spec) => match (DataMover::of(&spec.data_mover), &spec.csi_snapshot) {
                (DataMover::ThirdParty, _) => Support::Foreign,
                (_, Some(snapshot)) if !snapshot.volume_snapshot.is_empty() => Support::Ours,
                _ => Support::Refused(
                    "it names no VolumeSnapshot in spec.csiSnapshot: only the snapshots of CSI drivers can be moved"
                        .to_owned(),
                ),
            },
        }
    }

    /// Returns true if the volume is moved as a block device, also one with a file system.
    pub(crate) fn is_in_blocks(&self) -> bool {
        let data_mover = match &self.request {
            TransferRequest::DataDownload(spec) => &spec.data_mover,
            TransferRequest::DataUpload(spec) => &spec.data_mover,
            TransferRequest::PodVolumeBackup(_) | TransferRequest::PodVolumeRestore(_) => return false,
        };
        DataMover::of(data_mover) == DataMover::Block
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase, DataPathPhase::Completed | DataPathPhase::Failed | DataPathPhase::Canceled)
    }

    pub(crate) fn is_being_deleted(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        self.meta.finalizers.iter().any(|finalizer| finalizer == self.kind.finalizer())
    }

    /// Returns true if it counts in the queue of those that are prepared.
    pub(crate) fn is_prepared_now(&self) -> bool {
        matches!(self.phase, DataPathPhase::Accepted | DataPathPhase::Prepared)
            || (!self.has_ended() && self.meta.labels.get(LABEL_EXPOSE_ON_GOING).is_some_and(|value| value == "true"))
    }

    /// The delivery that was begun.
    pub(crate) fn delivery(&self) -> Option<Delivery> {
        serde_json::from_str(self.meta.annotations.get(ANNOTATION_DELIVERY)?).ok()
    }

    /// The files that its mover has told of.
    pub(crate) fn files(&self) -> Option<MovedFiles> {
        MovedFiles::parse(self.meta.annotations.get(ANNOTATION_MOVED_FILES)?)
    }

    /// The operating system that its node must have.
    pub(crate) fn node_os(&self) -> NodeOs {
        match &self.request {
            TransferRequest::DataDownload(spec) if spec.node_os == Some(NodeOs::Windows) => NodeOs::Windows,
            _ => NodeOs::Linux,
        }
    }

    /// Bytes of the snapshot; 0 when they are not known.
    pub(crate) fn snapshot_size(&self) -> i64 {
        match &self.request {
            TransferRequest::PodVolumeRestore(spec) => spec.snapshot_size,
            TransferRequest::DataDownload(spec) => spec.snapshot_size,
            TransferRequest::PodVolumeBackup(_) | TransferRequest::DataUpload(_) => 0,
        }
    }

    /// The pod whose volume it is, and the volume's name in it; `None` where it is asked for by a claim.
    pub(crate) fn volume_of_pod(&self) -> Option<(&ObjectReference, &str)> {
        match &self.request {
            TransferRequest::PodVolumeRestore(spec) => Some((&spec.pod, &spec.volume)),
            TransferRequest::PodVolumeBackup(spec) => Some((&spec.pod, &spec.volume)),
            TransferRequest::DataDownload(_) | TransferRequest::DataUpload(_) => None,
        }
    }

    /// The reference with which what was made for it names it as its owner.
    pub(crate) fn owner_reference(&self) -> Value {
        json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.word(), "name": self.meta.name, "uid": self.meta.uid,
            "controller": true,
        })
    }
}
