//! The extension points of the engines.
//!
//! Traits carry the semantics of Velero's v2 interfaces (velero: pkg/backup/item_backupper.go, pkg/restore/restore.go).
//! Built-in actions and external plugins are the same to the engines; calls are asynchronous because plugins are other
//! processes, and an error says what follows from it ([`ActionErrorKind`]). No implementation lives here; [`call`]
//! makes a call again when that can help, and [`caught`] makes an error of a panic, in one way for all engines.

mod actions;
mod backup_item;
mod call;
mod caught;
mod delete_item;
mod error;
mod inquiry;
mod item_block;
mod operation_progress;
mod repositories;
mod restore_item;
mod scope;
mod volume_snapshotter;

pub use actions::{Actions, LocatedSnapshotter};
pub use backup_item::{BackupItemAction, BackupItemInput, BackupItemOutput};
pub use call::call;
pub use caught::caught;
pub use delete_item::DeleteItemAction;
pub use error::{ActionError, ActionErrorKind};
pub use inquiry::{Inquiry, InquiryResult, LONGEST_IDLE, OperationCounts, ask_all};
pub use item_block::ItemBlockAction;
pub use operation_progress::OperationProgress;
pub use repositories::{DeletedSnapshots, SnapshotDeletion, SnapshotsToDelete, VolumeRepositories};
pub use restore_item::{RestoreItemAction, RestoreItemInput, RestoreItemOutput};
pub use scope::ActionScope;
pub use volume_snapshotter::{VolumeFacts, VolumeRequest, VolumeSnapshotter};
