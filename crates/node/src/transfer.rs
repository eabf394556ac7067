//! A resource that asks for the bytes of a volume, whatever its kind. Pure.
//!
//! All kinds have the same phases, and the same fields in their status but for the result; what differs between kinds is
//! [`TransferKind`] and [`TransferRequest`].

use lifeboat_api::well_known::{
    FINALIZER_DATA_PATH, FINALIZER_POD_VOLUME, LABEL_DATA_DOWNLOAD, LABEL_EXPOSE_ON_GOING, LABEL_POD_VOLUME_BACKUP,
    LABEL_POD_VOLUME_RESTORE,
};
use lifeboat_api::{
    DataDownload, DataDownloadSpec, DataMoveProgress, DataPathPhase, NodeOs, ObjectMeta, ObjectReference,
    PodVolumeBackup, PodVolumeBackupSpec, PodVolumeRestore, PodVolumeRestoreSpec, Resource, Time, UploaderType,
};
use lifeboat_object::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// On DataDownloads: the bytes are written, and the volume is on its way to the claim. JSON of a [`Delivery`].
pub(crate) const ANNOTATION_DELIVERY: &str = "lifeboat.io/delivery";

/// Kinds of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TransferKind {
    PodVolumeRestore,
    DataDownload,
    PodVolumeBackup,
}

impl TransferKind {
    /// In the order in which they are begun: restores first.
    pub(crate) const ALL: [Self; 3] = [Self::PodVolumeRestore, Self::DataDownload, Self::PodVolumeBackup];

    pub(crate) fn resource(self) -> Arc<ApiResource> {
        match self {
            Self::PodVolumeRestore => lifeboat_client::api_resource::<PodVolumeRestore>(),
            Self::DataDownload => lifeboat_client::api_resource::<DataDownload>(),
            Self::PodVolumeBackup => lifeboat_client::api_resource::<PodVolumeBackup>(),
        }
    }

    /// Its kind in manifests.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => PodVolumeRestore::KIND,
            Self::DataDownload => DataDownload::KIND,
            Self::PodVolumeBackup => PodVolumeBackup::KIND,
        }
    }

    pub(crate) fn api_version(self) -> String {
        let version = match self {
            Self::PodVolumeRestore => PodVolumeRestore::VERSION,
            Self::DataDownload => DataDownload::VERSION,
            Self::PodVolumeBackup => PodVolumeBackup::VERSION,
        };
        format!("{}/{version}", lifeboat_api::GROUP)
    }

    pub(crate) const fn finalizer(self) -> &'static str {
        match self {
            Self::PodVolumeRestore | Self::PodVolumeBackup => FINALIZER_POD_VOLUME,
            Self::DataDownload => FINALIZER_DATA_PATH,
        }
    }

    /// The label of its pods, whose value is its name.
    pub(crate) const fn pod_label(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => LABEL_POD_VOLUME_RESTORE,
            Self::DataDownload => LABEL_DATA_DOWNLOAD,
            Self::PodVolumeBackup => LABEL_POD_VOLUME_BACKUP,
        }
    }

    /// Its name in messages of Velero.
    pub(crate) const fn short_word(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => "PVR",
            Self::DataDownload => "datadownload",
            Self::PodVolumeBackup => "PVB",
        }
    }

    /// The message of one whose preparations took too long.
    pub(crate) const fn timeout_message(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => "timeout on preparing PVR",
            Self::DataDownload => "timeout on preparing data download",
            Self::PodVolumeBackup => "timeout on preparing PVB",
        }
    }

    /// The context of the message of one whose pod has failed.
    pub(crate) const fn failure_context(self) -> &'static str {
        match self {
            Self::PodVolumeRestore | Self::DataDownload => "data path restore failed",
            Self::PodVolumeBackup => "data path backup failed",
        }
    }

    /// The context of the message of one that could not be prepared.
    pub(crate) const fn expose_context(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => "error to expose PVR",
            Self::DataDownload => "error exposing snapshot",
            Self::PodVolumeBackup => "error to expose PVB",
        }
    }

    /// The participle of its work on a volume, in messages.
    pub(crate) const fn participle(self) -> &'static str {
        match self.is_backup() {
            true => "saved",
            false => "restored",
        }
    }

    /// The state of the volume's bytes after a pod that was removed while it ran.
    pub(crate) const fn partial_result(self) -> &'static str {
        match self.is_backup() {
            true => "no snapshot was made",
            false => "the volume is restored in part",
        }
    }

    /// Returns true if it reads a volume and never writes to it.
    pub(crate) const fn is_backup(self) -> bool {
        matches!(self, Self::PodVolumeBackup)
    }

    /// Returns true if it has the volume in a claim of its own, which is brought to the target in the end.
    pub(crate) const fn is_delivered(self) -> bool {
        matches!(self, Self::DataDownload)
    }
}

/// The volume that a transfer is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TransferRequest {
    PodVolumeRestore(Box<PodVolumeRestoreSpec>),
    DataDownload(Box<DataDownloadSpec>),
    PodVolumeBackup(Box<PodVolumeBackupSpec>),
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
    /// The time at which it began.
    pub(crate) begun: Time,
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
            message: status.message,
            progress: status.progress,
            request: TransferRequest::PodVolumeBackup(Box::new(from.spec)),
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
        })
    }

    pub(crate) fn key(&self) -> TransferKey {
        TransferKey { kind: self.kind, name: self.meta.name.clone() }
    }

    pub(crate) fn support(&self) -> Support {
        match &self.request {
            TransferRequest::PodVolumeRestore(spec) => match spec.uploader_type {
                UploaderType::Kopia | UploaderType::Unset => Support::Ours,
                UploaderType::Restic => Support::Refused(
                    "the volume was saved with restic, which this version does not read: restore it with Velero 1.18 or older"
                        .to_owned(),
                ),
            },
            TransferRequest::PodVolumeBackup(spec) => match spec.uploader_type {
                UploaderType::Kopia | UploaderType::Unset => Support::Ours,
                UploaderType::Restic => Support::Refused(
                    "the volume is to be saved with restic, which this version does not write: set --uploader-type=kopia at the server".to_owned(),
                ),
            },
            TransferRequest::DataDownload(spec) => match spec.data_mover.as_str() {
                "" | "velero" | "velero-fs" => Support::Ours,
                "velero-block" => Support::Refused(
                    "the volume was saved by the data mover velero-block, which this version does not read".to_owned(),
                ),
                _ => Support::Foreign,
            },
        }
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
            TransferRequest::PodVolumeBackup(_) => 0,
        }
    }

    /// The pod whose volume it is, and the volume's name in it; `None` where it is asked for by a claim.
    pub(crate) fn volume_of_pod(&self) -> Option<(&ObjectReference, &str)> {
        match &self.request {
            TransferRequest::PodVolumeRestore(spec) => Some((&spec.pod, &spec.volume)),
            TransferRequest::PodVolumeBackup(spec) => Some((&spec.pod, &spec.volume)),
            TransferRequest::DataDownload(_) => None,
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
