//! A resource that asks for the bytes of a volume, whatever its kind. Pure.
//!
//! All kinds have the same phases, and the same fields in their status but for the result; what differs between kinds is
//! [`TransferKind`] and [`TransferRequest`].

pub(crate) use crate::kind::TransferKind;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::well_known::{
    ANNOTATION_DELIVERY, ANNOTATION_MOVED_AT, ANNOTATION_MOVED_FILES, ANNOTATION_OTHERS_MOVED_AT, LABEL_EXPOSE_ON_GOING,
};
use lifeboat_api::{
    DataDownload, DataDownloadSpec, DataMoveProgress, DataMover, DataPathPhase, DataUpload, DataUploadSpec, MovedFiles,
    NodeOs, ObjectMeta, ObjectReference, PodVolumeBackup, PodVolumeBackupSpec, PodVolumeRestore, PodVolumeRestoreSpec,
    Time, UnsupportedPart, UploaderType,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

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
    /// Told by the mover about entries that it passed over, and by an agent about the file system; empty for nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// The time at which it began.
    pub(crate) begun: Time,
    /// The UID of the target claim; empty where a Lifeboat began it that did not write it down.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) target_uid: String,
    /// The PersistentVolume that is made of it for a claim of another mode; `None` where the modes are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remade: Option<RemadeVolume>,
}

/// The PersistentVolume of the other mode for a volume in the storage that was filled as a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemadeVolume {
    pub(crate) name: String,
    /// The type of its file system; empty where nobody knows it, and the driver takes its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) fs_type: String,
    /// The PersistentVolume as it is to be made, after the other one is gone; null where a Lifeboat began it that made it first.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) manifest: Value,
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
    /// Set where its spec cannot be read as a whole.
    pub(crate) unreadable: Option<Unreadable>,
}

/// The reason for which a spec cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    why: String,
    /// It asks for a program that no node agent knows: it is somebody else's, as for Velero.
    has_unknown_uploader: bool,
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
            unreadable: None,
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
            unreadable: None,
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
            unreadable: None,
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
            unreadable: None,
        }
    }
}

/// The fields of a spec by which a transfer that cannot be read is found and ended.
const NEEDED_TO_END: [&str; 5] = ["pod", "volume", "node", "cancel", "datamover"];
/// The fields by which what was made for it is found. They are read where they can be.
const NEEDED_TO_CLEAN_UP: [&str; 3] = ["csiSnapshot", "sourceNamespace", "targetVolume"];

/// The reason against a restore into a volume that is there.
const IN_PLACE: &str = "it asks for a restore into an existing volume (spec.targetVolume.pv, or spec.restoreType of a Velero after 1.18), which this version \
                        does not do; nothing was changed. Restore into a new claim";

/// Returns true if a spec asks for a restore into an existing volume. An empty type is that of a new one.
fn is_in_place(other: &BTreeMap<String, Value>) -> bool {
    other.get("restoreType").is_some_and(|kind| kind.as_str() != Some("") && !kind.is_null())
}

/// A transfer that this agent does, leaves to another mover, or refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    Ours,
    Foreign,
    Refused(String),
    /// The agent cannot read it, for this reason; that of another node may be of a later version, and read it.
    Unreadable(String),
}

impl Transfer {
    /// Reads an object of a kind. Of one whose spec cannot be read, such as that of a later version, only that part is read by which it can be
    /// ended with the reason.
    ///
    /// # Errors
    /// When it is none, or its status cannot be read: somebody else works on it then.
    pub(crate) fn parse(kind: TransferKind, body: &[u8]) -> serde_json::Result<Self> {
        let error = match Self::parse_whole(kind, body) {
            Ok(whole) => return Ok(whole),
            Err(e) => e,
        };
        let mut value: Value = serde_json::from_slice(body)?;
        let mut wanted = Vec::new();
        let mut has_unknown_uploader = false;
        if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
            let is_unknown = |uploader: &Value| serde_json::from_value::<UploaderType>(uploader.clone()).is_err();
            let uploader = spec.get("uploaderType").filter(|uploader| uploader.is_string());
            has_unknown_uploader = !kind.is_of_any_node() && uploader.is_some_and(is_unknown);
            for name in NEEDED_TO_CLEAN_UP {
                wanted.extend(spec.remove(name).map(|field| (name, field)));
            }
            spec.retain(|name, _| NEEDED_TO_END.contains(&name.as_str()));
        }
        let why = error.to_string();
        let mut part = Self::parse_whole(kind, value.to_string().as_bytes()).map_err(|_| error)?;
        for (name, field) in wanted {
            let mut more = value.clone();
            more["spec"][name] = field;
            if let Ok(read) = Self::parse_whole(kind, more.to_string().as_bytes()) {
                (part, value) = (read, more);
            }
        }
        Ok(Self { unreadable: Some(Unreadable { why, has_unknown_uploader }), ..part })
    }

    fn parse_whole(kind: TransferKind, body: &[u8]) -> serde_json::Result<Self> {
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
        let Some(Unreadable { why, has_unknown_uploader }) = &self.unreadable else { return self.support_of_request() };
        if *has_unknown_uploader || self.phase != DataPathPhase::New || self.support_of_request() == Support::Foreign {
            return Support::Foreign;
        }
        let why = format!(
            "the node agent cannot read its spec, which may be of a later version: {why}; upgrade Lifeboat, or correct what is wrong"
        );
        match self.kind.is_of_any_node() {
            true => Support::Unreadable(why),
            false => Support::Refused(why),
        }
    }

    /// Returns true if somebody else works on it.
    pub(crate) fn is_foreign(&self) -> bool {
        self.support() == Support::Foreign
    }

    /// The reason for which one that a node agent has begun, or shall begin, is left alone; `None` for any other.
    pub(crate) fn reason_left_alone(&self) -> Option<&str> {
        let unreadable = self.unreadable.as_ref().filter(|_| self.is_foreign())?;
        let is_of_agents = unreadable.has_unknown_uploader || self.support_of_request() != Support::Foreign;
        is_of_agents.then_some(unreadable.why.as_str())
    }

    /// Returns true if it is being deleted, and only what was made for it is in the way.
    pub(crate) fn is_left_behind(&self) -> bool {
        let has_known_uploader = self.unreadable.as_ref().is_some_and(|unreadable| !unreadable.has_unknown_uploader);
        has_known_uploader && self.reason_left_alone().is_some() && self.is_being_deleted() && self.has_finalizer()
    }

    fn support_of_request(&self) -> Support {
        match &self.request {
            TransferRequest::PodVolumeRestore(spec) if is_in_place(&spec.other) => {
                Support::Refused(IN_PLACE.to_owned())
            }
            TransferRequest::PodVolumeRestore(spec) => match spec.uploader_type {
                UploaderType::Kopia | UploaderType::Unset => Support::Ours,
                UploaderType::Restic => Support::Refused(UnsupportedPart::Restic.refusal_of_restore()),
            },
            TransferRequest::PodVolumeBackup(spec) => match spec.uploader_type {
                UploaderType::Kopia | UploaderType::Unset => Support::Ours,
                UploaderType::Restic => Support::Refused(UnsupportedPart::Restic.refusal_of_backup()),
            },
            TransferRequest::DataDownload(spec) => match DataMover::of(&spec.data_mover) {
                DataMover::ThirdParty => Support::Foreign,
                _ if is_in_place(&spec.other) || !spec.target_volume.pv.is_empty() => {
                    Support::Refused(IN_PLACE.to_owned())
                }
                DataMover::Files | DataMover::Blocks => Support::Ours,
            },
            TransferRequest::DataUpload(spec) => match (DataMover::of(&spec.data_mover), &spec.csi_snapshot) {
                (DataMover::ThirdParty, _) => Support::Foreign,
                _ if !matches!(spec.snapshot_type.as_str(), "" | "CSI") => Support::Refused(format!(
                    "its spec.snapshotType is {:?}: only snapshots of the type CSI can be moved",
                    spec.snapshot_type
                )),
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
        DataMover::of(data_mover) == DataMover::Blocks
    }

    /// A limit, or the `operationTimeout` of the resource where that is longer.
    pub(crate) fn at_least_operation_timeout(&self, limit: Duration) -> SignedDuration {
        let own = match &self.request {
            TransferRequest::DataUpload(spec) => spec.operation_timeout.to_std(),
            TransferRequest::DataDownload(spec) => spec.operation_timeout.to_std(),
            TransferRequest::PodVolumeBackup(_) | TransferRequest::PodVolumeRestore(_) => Duration::ZERO,
        };
        SignedDuration::try_from(limit.max(own)).unwrap_or(SignedDuration::MAX)
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

    /// The storage class of the source of an upload.
    pub(crate) fn storage_class(&self) -> Option<&str> {
        match &self.request {
            TransferRequest::DataUpload(spec) => Some(spec.csi_snapshot.as_ref()?.storage_class.as_str()),
            _ => None,
        }
    }

    /// The time at which its mover began, or bytes or files were last moved.
    pub(crate) fn moved_at(&self) -> Option<Timestamp> {
        self.meta.annotations.get(ANNOTATION_MOVED_AT)?.parse().ok()
    }

    /// The time at which those that it waits for last moved something; `None` before one was noted.
    pub(crate) fn others_moved_at(&self) -> Option<Timestamp> {
        self.meta.annotations.get(ANNOTATION_OTHERS_MOVED_AT)?.parse().ok()
    }

    /// The time at which those that it waits for last moved something, as it was noted; before that the time since which it waits.
    pub(crate) fn others_noted_at(&self) -> Option<Timestamp> {
        self.others_moved_at().or_else(|| self.accepted.or(self.meta.creation_timestamp).map(Time::timestamp))
    }

    /// The operating system that its node must have.
    pub(crate) fn node_os(&self) -> NodeOs {
        match &self.request {
            // Devices are used by Linux only.
            TransferRequest::DataDownload(spec) if spec.node_os == Some(NodeOs::Windows) && !self.is_in_blocks() => {
                NodeOs::Windows
            }
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

#[cfg(test)]
mod tests;
