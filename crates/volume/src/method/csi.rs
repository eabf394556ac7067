//! Snapshots by CSI drivers (velero: pkg/backup/actions/csi): taking them of claims, reporting them, cleaning them up.
//!
//! [`CsiSnapshots`] takes the snapshots of one backup, as many at once as are asked for; their names follow from the
//! backup and the claim, so that an attempt after a crash finds those that the one before it has begun. Claims of a
//! group are taken together, and stay together: drivers delete a group as a whole only. [`SnapshotClasses`] chooses the
//! class. [`release_all`] takes the objects out of the cluster and leaves the snapshots in the storage; [`remove_all`]
//! deletes these too. [`restore_actions`] make claims from snapshots again; [`delete_actions`] delete snapshots with
//! their backup.

mod answer;
mod api;
mod at_once;
mod backup;
mod content;
mod delete;
mod error;
mod group_handle;
mod metadata;
mod names;
mod objects;
mod reference;
mod restore;
mod secret;
mod served;

pub use backup::actions::actions;
pub use backup::groups::{ClaimGroup, GroupMember};
pub use backup::members::{is_group_of_backup, is_snapshot_of_backup};
pub use backup::outcomes::{TakenGroup, TakenSnapshot};
pub use backup::snapshots::{CsiBackup, CsiSnapshots, WantedSnapshot};
pub use content::SnapshotContent;
pub use delete::actions::delete_actions;
pub use delete::group_delete::ArchivedSnapshots;
pub use delete::held::HeldSnapshots;
pub use delete::moved::{MovedSnapshots, remove_moved};
pub use delete::recorded::recorded_contents;
pub use delete::release::release_all;
pub use delete::sweep::{RemovalFailure, count, remove_all, untaken};
pub use delete::unproven::Unproven;
pub use error::CsiError;
pub use group_handle::GroupHandle;
pub use names::{
    BACKUP_ACTIONS, CLAIM_BACKUP_ACTION, CLAIM_RESTORE_ACTION, DELETE_ACTIONS, RESTORE_ACTIONS, restored_name,
};
pub use objects::{GROUP_SNAPSHOT_API, GroupTypes, SNAPSHOT_API, SnapshotTypes};
pub use restore::actions::{
    SnapshotsOfBackup, operations_of_claims, restore_actions, snapshot_of_claim, without_restored_names,
};
pub use restore::annotated::make_annotated_content;
pub use restore::stub::{Readiness, StubOf, make_ready, make_stub, stubs};
pub use restore::unbound::unbound_claims;
pub use served::{served, served_by};
