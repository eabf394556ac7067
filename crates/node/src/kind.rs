//! The kinds of transfers, and the words that differ between them. Pure.

use lifeboat_api::well_known::{
    FINALIZER_DATA_PATH, FINALIZER_POD_VOLUME, LABEL_DATA_DOWNLOAD, LABEL_DATA_UPLOAD, LABEL_POD_VOLUME_BACKUP,
    LABEL_POD_VOLUME_RESTORE,
};
use lifeboat_api::{DataDownload, DataUpload, PodVolumeBackup, PodVolumeRestore, Resource};
use lifeboat_object::ApiResource;
use std::sync::Arc;

/// Kinds of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TransferKind {
    PodVolumeRestore,
    DataDownload,
    PodVolumeBackup,
    DataUpload,
}

impl TransferKind {
    /// In the order in which they are begun: restores first.
    pub(crate) const ALL: [Self; 4] =
        [Self::PodVolumeRestore, Self::DataDownload, Self::PodVolumeBackup, Self::DataUpload];

    pub(crate) fn resource(self) -> Arc<ApiResource> {
        match self {
            Self::PodVolumeRestore => lifeboat_client::api_resource::<PodVolumeRestore>(),
            Self::DataDownload => lifeboat_client::api_resource::<DataDownload>(),
            Self::PodVolumeBackup => lifeboat_client::api_resource::<PodVolumeBackup>(),
            Self::DataUpload => lifeboat_client::api_resource::<DataUpload>(),
        }
    }

    /// Its kind in manifests.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => PodVolumeRestore::KIND,
            Self::DataDownload => DataDownload::KIND,
            Self::PodVolumeBackup => PodVolumeBackup::KIND,
            Self::DataUpload => DataUpload::KIND,
        }
    }

    pub(crate) fn api_version(self) -> String {
        let version = match self {
            Self::PodVolumeRestore => PodVolumeRestore::VERSION,
            Self::DataDownload => DataDownload::VERSION,
            Self::PodVolumeBackup => PodVolumeBackup::VERSION,
            Self::DataUpload => DataUpload::VERSION,
        };
        format!("{}/{version}", lifeboat_api::GROUP)
    }

    pub(crate) const fn finalizer(self) -> &'static str {
        match self {
            Self::PodVolumeRestore | Self::PodVolumeBackup => FINALIZER_POD_VOLUME,
            Self::DataDownload | Self::DataUpload => FINALIZER_DATA_PATH,
        }
    }

    /// The label of its pods, whose value is its name.
    pub(crate) const fn pod_label(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => LABEL_POD_VOLUME_RESTORE,
            Self::DataDownload => LABEL_DATA_DOWNLOAD,
            Self::PodVolumeBackup => LABEL_POD_VOLUME_BACKUP,
            Self::DataUpload => LABEL_DATA_UPLOAD,
        }
    }

    /// Its name in messages of Velero.
    pub(crate) const fn short_word(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => "PVR",
            Self::DataDownload => "datadownload",
            Self::PodVolumeBackup => "PVB",
            Self::DataUpload => "dataupload",
        }
    }

    /// Its name in Velero's message about one whose pod cannot begin.
    pub(crate) const fn word_of_exposer(self) -> &'static str {
        match self {
            Self::DataUpload => "du",
            _ => self.short_word(),
        }
    }

    /// The name of its exposer between the lines of a diagnosis in the log.
    pub(crate) const fn exposer(self) -> &'static str {
        match self {
            Self::PodVolumeRestore | Self::PodVolumeBackup => "pod volume exposer",
            Self::DataDownload => "restore exposer",
            Self::DataUpload => "CSI exposer",
        }
    }

    /// The message of one whose preparations took too long.
    pub(crate) const fn timeout_message(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => "timeout on preparing PVR",
            Self::DataDownload => "timeout on preparing data download",
            Self::PodVolumeBackup => "timeout on preparing PVB",
            Self::DataUpload => "timeout on preparing data upload",
        }
    }

    /// The context of the message of one whose pod has failed.
    pub(crate) const fn failure_context(self) -> &'static str {
        match self {
            Self::PodVolumeRestore | Self::DataDownload => "data path restore failed",
            Self::PodVolumeBackup | Self::DataUpload => "data path backup failed",
        }
    }

    /// The context of the message of one that could not be prepared.
    pub(crate) const fn expose_context(self) -> &'static str {
        match self {
            Self::PodVolumeRestore => "error to expose PVR",
            Self::DataDownload | Self::DataUpload => "error exposing snapshot",
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
        matches!(self, Self::PodVolumeBackup | Self::DataUpload)
    }

    /// The message of the backup of a volume in which nothing is.
    pub(crate) const fn empty_message(self) -> &'static str {
        match self {
            Self::DataUpload => "volume was empty so no data was upload",
            _ => "volume was empty so no snapshot was taken",
        }
    }

    /// Returns true if any node may do it; the others belong to the node of a pod.
    pub(crate) const fn is_of_any_node(self) -> bool {
        matches!(self, Self::DataUpload | Self::DataDownload)
    }

    /// Returns true if it has the volume in a claim of its own, which is brought to the target in the end.
    pub(crate) const fn is_delivered(self) -> bool {
        matches!(self, Self::DataDownload)
    }
}
