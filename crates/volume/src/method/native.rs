//! Native snapshots, which plugins take by the API of a storage (velero: pkg/backup/item_backupper.go,
//! pkg/plugin/velero/volumesnapshotter).
//!
//! [`NativeSnapshots`] takes the snapshots of one backup, some at once; [`NativeVolumes`] makes volumes of them for one
//! restore. Nothing can be listed by their protocol, so each snapshot or volume is noted before it is made, among the
//! records of the operation, and its name as soon as it is known: a later attempt finds what an earlier one has made.
//! [`remove_noted`] deletes snapshots that a backup has taken and nobody can restore from, [`delete_recorded`] the
//! snapshots of a backup that is deleted.

mod backup;
mod delete;
mod location;
mod note;
mod restore;
mod zone;

pub use backup::{NativeBackup, NativeRefusal, NativeSnapshots};
pub use delete::{RemainingSnapshot, Removal, delete_recorded, noted, remove_noted};
pub use note::SnapshotNote;
pub use restore::{MadeVolume, NativeVolumes, NotMadeVolume};
pub use zone::{TAG_BACKUP, TAG_VOLUME, tags, zone_of};
