//! The `velero.io` resources as Rust types.
//!
//! Field names, defaults and phases are Velero's (api-and-controllers.md 1). Values that a user wrote and that we
//! only read are plain types; an unknown field of a stored resource is ignored, as a Kubernetes client does.
//!
//! This room is pure. Start reading at [`Backup`] and [`Restore`].

mod backup;
mod duration;
mod label;
mod meta;
mod restore;
mod selector;
mod time;
pub mod well_known;

pub use backup::{
    Backup, BackupHooks, BackupPhase, BackupProgress, BackupResourceHook, BackupResourceHookSpec, BackupSpec,
    BackupStatus, BackupType, ExecHook, HookErrorMode, HookStatus, TemplateMetadata, UploaderConfigForBackup,
};
pub use duration::{Duration, ParseDurationError};
pub use label::label_value;
pub use meta::{ObjectMeta, TypedLocalObjectReference};
pub use restore::{
    ExecRestoreHook, ExistingResourcePolicy, InitRestoreHook, Restore, RestoreHooks, RestorePhase, RestoreProgress,
    RestoreResourceHook, RestoreResourceHookSpec, RestoreSpec, RestoreStatus, RestoreStatusSpec,
    UploaderConfigForRestore,
};
pub use selector::{LabelSelector, LabelSelectorRequirement};
pub use time::Time;

/// The API group.
pub const GROUP: &str = "velero.io";
/// The `apiVersion` of all kinds but `DataUpload` and `DataDownload`.
pub const API_VERSION: &str = "velero.io/v1";
