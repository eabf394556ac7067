//! The `velero.io` resources as Rust types, and the CustomResourceDefinitions made from them.
//!
//! Field names, defaults and phases are Velero's (velero: pkg/apis/velero): objects are written with the words of
//! Velero 1.18.2, and fields of later versions are read too. Values that a user wrote and that we
//! only read are plain types; unknown fields of a stored resource travel along, and are written back as they were.
//!
//! This room is pure. Start reading at [`Backup`], [`Restore`] and [`crds`]; how a type is declared is
//! explained in `schema.rs`.

mod backup;
mod crd;
mod data_move;
mod data_mover;
mod duration;
mod features;
mod kept_by;
mod label;
mod location;
mod meta;
mod moved_files;
mod namespaced_name;
mod newest;
mod operation;
mod origin;
mod pod_volume;
mod reference;
mod repository;
mod request;
mod restore;
mod retention;
mod schedule;
mod scheduled;
mod schema;
mod selector;
mod server_container;
mod time;
mod unsupported;
pub mod well_known;

pub use backup::{
    Backup, BackupHooks, BackupPhase, BackupProgress, BackupResourceHook, BackupResourceHookSpec, BackupSpec,
    BackupStatus, BackupType, ExecHook, HookErrorMode, HookStatus, TemplateMetadata, UploaderConfigForBackup,
    VolumeGroupFallback,
};
pub use crd::{Resource, crds};
pub use data_move::{
    CsiSnapshotSpec, DataDownload, DataDownloadSpec, DataDownloadStatus, DataMoveProgress, DataPathPhase, DataUpload,
    DataUploadResult, DataUploadSpec, DataUploadStatus, NodeOs, TargetVolumeSpec,
};
pub use data_mover::DataMover;
pub use duration::{Duration, ParseDurationError};
pub use features::{Features, has_feature_without_effect};
pub use kept_by::KeptBy;
pub use label::{is_label_key, is_label_value, label_value};
pub use location::{
    BackupStorageLocation, BackupStorageLocationAccessMode, BackupStorageLocationPhase, BackupStorageLocationSpec,
    BackupStorageLocationStatus, ObjectStorageLocation, VolumeSnapshotLocation, VolumeSnapshotLocationPhase,
    VolumeSnapshotLocationSpec, VolumeSnapshotLocationStatus,
};
pub use meta::{ManagedFields, ObjectMeta, OwnerReference};
pub use moved_files::MovedFiles;
pub use namespaced_name::NamespacedName;
pub use newest::{
    BackupMaker, NoneOfSchedule, SourceCluster, choose_of_schedule, newest_of_schedule, only_of_others,
    usable_of_schedule,
};
pub use operation::{OperationPhase, OperationStatus};
pub use origin::{is_of_another_cluster, source_cluster, was_taken_over};
pub use pod_volume::{
    PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus, PodVolumeRestore, PodVolumeRestoreSpec,
    PodVolumeRestoreStatus, UploaderType,
};
pub use reference::{ObjectReference, SecretKeySelector, TypedLocalObjectReference};
pub use repository::{
    BackupRepository, BackupRepositoryMaintenanceResult, BackupRepositoryMaintenanceStatus, BackupRepositoryPhase,
    BackupRepositorySpec, BackupRepositoryStatus,
};
pub use request::{
    DeleteBackupRequest, DeleteBackupRequestPhase, DeleteBackupRequestSpec, DeleteBackupRequestStatus, DownloadRequest,
    DownloadRequestPhase, DownloadRequestSpec, DownloadRequestStatus, DownloadTarget, DownloadTargetKind, PluginInfo,
    ServerStatusRequest, ServerStatusRequestPhase, ServerStatusRequestSpec, ServerStatusRequestStatus,
};
pub use restore::{
    ExecRestoreHook, ExistingResourcePolicy, ExistingResourcePolicyOverride, InitRestoreHook, Restore, RestoreHooks,
    RestorePhase, RestoreProgress, RestoreResourceHook, RestoreResourceHookSpec, RestoreSpec, RestoreStatus,
    RestoreStatusSpec, UploaderConfigForRestore, permission,
};
pub use retention::Retention;
pub use schedule::{Schedule, SchedulePhase, ScheduleSpec, ScheduleStatus};
pub use scheduled::DEFAULT_SHRINK_THRESHOLD;
pub use selector::{LabelSelector, LabelSelectorRequirement};
pub use server_container::{known_server_container, server_container};
pub use time::Time;
pub use unsupported::UnsupportedPart;

/// The API group.
pub const GROUP: &str = "velero.io";
/// The `apiVersion` of all kinds but `DataUpload` and `DataDownload`.
pub const API_VERSION: &str = "velero.io/v1";
