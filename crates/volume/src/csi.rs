//! Snapshots by CSI drivers (backup.md 3): taking them of claims, reporting them, cleaning them up.
//!
//! [`CsiSnapshots`] takes the snapshots of one backup, as many at once as are asked for; their names follow from the
//! backup and the claim, so that an attempt after a crash finds those that the one before it has begun. Claims of a
//! group are taken together, and stay together: drivers delete a group as a whole only. [`SnapshotClasses`] chooses the
//! class. [`release_all`] takes the objects out of the cluster and leaves the snapshots in the storage; [`remove_all`]
//! deletes these too. [`restore_actions`] make claims from snapshots again; [`delete_actions`] delete snapshots with
//! their backup.

mod actions;
mod annotated;
mod answer;
mod api;
mod at_once;
mod clean;
mod content;
mod delete;
mod error;
mod follow;
mod group_clean;
mod group_delete;
mod group_handle;
mod group_refusal;
mod groups;
mod held;
mod kept_groups;
mod listed_snapshots;
mod members;
mod metadata;
mod names;
mod objects;
mod orphans;
mod outcomes;
mod recorded;
mod reference;
mod refusal;
mod release;
mod restore;
mod secret;
mod served;
mod settle;
mod snapshots;
mod stub;
mod sweep;
mod unbound;
mod unproven;

pub use actions::actions;
pub use annotated::make_annotated_content;
pub use content::SnapshotContent;
pub use delete::delete_actions;
pub use error::CsiError;
pub use group_delete::ArchivedSnapshots;
pub use group_handle::GroupHandle;
pub use groups::{ClaimGroup, GroupMember};
pub use held::HeldSnapshots;
pub use members::{is_group_of_backup, is_snapshot_of_backup};
pub use names::{BACKUP_ACTIONS, DELETE_ACTIONS, RESTORE_ACTIONS, restored_name};
pub use objects::{GROUP_SNAPSHOT_API, GroupTypes, SNAPSHOT_API, SnapshotTypes};
pub use outcomes::{TakenGroup, TakenSnapshot};
pub use recorded::recorded_contents;
pub use release::release_all;
pub use restore::{SnapshotsOfBackup, restore_actions, snapshot_of_claim, without_restored_names};
pub use served::{served, served_by};
pub use snapshots::{CsiBackup, CsiSnapshots};
pub use stub::{Readiness, StubOf, make_ready, make_stub, stubs};
pub use sweep::{RemovalFailure, count, remove_all, untaken};
pub use unbound::unbound_claims;
pub use unproven::Unproven;
