//! Deletes native snapshots: those that nobody can restore from, and those of a backup that is deleted.

use super::location::SnapshotterLocation;
use super::note::{NoteStore, SnapshotNote};
use super::zone::{TAG_BACKUP, TAG_VOLUME};
use crate::priority::Priority;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use lifeboat_action::{ActionError, LocatedSnapshotter};
use lifeboat_archive::native_snapshot::{FAILED, NativeSnapshot, NativeSnapshotSpec, NativeSnapshotStatus};
use lifeboat_operation::{Operation, RecordsError};
use tokio_util::sync::CancellationToken;

/// Snapshots that are deleted at once, over all locations.
const AT_ONCE: usize = 64;

/// The result of deleting the snapshots that are noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Snapshots that are not deleted; their notes stay.
    pub left: Vec<RemainingSnapshot>,
    /// The keys of notes that cannot be read.
    pub unreadable: Vec<String>,
}

/// A snapshot that is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemainingSnapshot {
    /// The note about it.
    pub note: SnapshotNote,
    /// The reason; empty when it is not known whether it exists.
    pub why: String,
}

impl RemainingSnapshot {
    /// The message for people about it.
    #[must_use]
    pub fn tell(&self, backup: &str) -> String {
        let SnapshotNote { persistent_volume, location, volume_id, snapshot_id, .. } = &self.note;
        let of = format!("of the PersistentVolume {persistent_volume} (volume {volume_id}, location {location})");
        if snapshot_id.is_empty() {
            return format!(
                "it is not known whether there is a snapshot {of} that this backup has begun, because nobody heard its name: look for \
                 one with the tags {TAG_BACKUP}={backup} and {TAG_VOLUME}={persistent_volume} in the storage, and delete it unless \
                 `backup describe --details` names it"
            );
        }
        let why = &self.why;
        format!("the snapshot {snapshot_id} {of} that this backup has taken and does not need is not deleted: {why}")
    }

    /// A record of it that no restore finds, so that it is deleted with its backup; `None` when it has no name.
    #[must_use]
    pub fn record(&self, backup: &str, backup_uid: &str) -> Option<NativeSnapshot> {
        let SnapshotNote { location, volume_id, snapshot_id, .. } = self.note.clone();
        (!snapshot_id.is_empty()).then(|| NativeSnapshot {
            spec: NativeSnapshotSpec {
                backup_name: backup.to_owned(),
                backup_uid: backup_uid.to_owned(),
                location,
                provider_volume_id: volume_id,
                ..NativeSnapshotSpec::default()
            },
            status: NativeSnapshotStatus { provider_snapshot_id: snapshot_id, phase: FAILED.to_owned() },
        })
    }
}

/// Deletes the snapshots that are noted among the records of a backup and `which` selects. Their notes go with them; the others
/// stay, and another call finds them.
///
/// # Errors
/// [`RecordsError`]: it is not known which there are.
pub async fn remove_noted(
    operation: &Operation,
    snapshotters: &[LocatedSnapshotter],
    which: impl Fn(&SnapshotNote) -> bool,
) -> Result<Removal, RecordsError> {
    let notes = NoteStore::<SnapshotNote>::new(&operation.records);
    let (all, unreadable) = notes.all().await?;
    let deleting = Deleting::new(operation, snapshotters);
    let works: Vec<BoxFuture<'_, Option<RemainingSnapshot>>> =
        all.into_iter().filter(which).map(|note| deleting.remove(note, &notes).boxed()).collect();
    let mut left: Vec<RemainingSnapshot> = some_at_once(works).await;
    left.sort_by(|a, b| a.note.persistent_volume.cmp(&b.note.persistent_volume));
    Ok(Removal { left, unreadable })
}

/// The snapshots that are noted and `which` selects, none of which is deleted for this reason.
///
/// # Errors
/// [`RecordsError`].
pub async fn noted(
    operation: &Operation,
    which: impl Fn(&SnapshotNote) -> bool,
    why: &str,
) -> Result<Removal, RecordsError> {
    let (all, unreadable) = NoteStore::<SnapshotNote>::new(&operation.records).all().await?;
    let left = all.into_iter().filter(which).map(|note| RemainingSnapshot { note, why: why.to_owned() });
    Ok(Removal { left: left.collect(), unreadable })
}

/// Deletes the snapshots of a backup, whatever comes of the others. Gives what was not deleted and why, for people, in their order.
pub async fn delete_recorded(
    operation: &Operation,
    snapshotters: &[LocatedSnapshotter],
    snapshots: &[NativeSnapshot],
) -> Vec<String> {
    let deleting = Deleting::new(operation, snapshotters);
    // compat: Velero asks for the deletion of what was not taken too, by an empty name.
    let taken = snapshots.iter().filter(|snapshot| !snapshot.status.provider_snapshot_id.is_empty());
    some_at_once(taken.map(|snapshot| deleting.delete_one(snapshot).boxed()).collect()).await
}

/// Runs these works, some at once, and gives their results in their order.
async fn some_at_once<T>(works: Vec<BoxFuture<'_, Option<T>>>) -> Vec<T> {
    let ended: Vec<Option<T>> = futures::stream::iter(works).buffered(AT_ONCE).collect().await;
    ended.into_iter().flatten().collect()
}

/// Tells that a note could not be removed: of a snapshot that is deleted, or of one that was not made, which has no ID.
pub(crate) fn tell_note_stays(operation: &Operation, snapshot: &str, error: &RecordsError) {
    let error = error.to_string();
    let fields = [("why", error.as_str()), ("snapshotID", snapshot)];
    let fields = if snapshot.is_empty() { &fields[..1] } else { &fields[..] };
    operation
        .journal
        .info("A note of a snapshot could not be removed: it is looked at again, which does no harm", fields);
}

struct Deleting<'a> {
    operation: &'a Operation,
    locations: Vec<SnapshotterLocation>,
    /// A token that is never cancelled: snapshots are deleted also when the operation was cancelled, for that is the
    /// reason to delete them.
    goes_on: CancellationToken,
}

impl<'a> Deleting<'a> {
    fn new(operation: &'a Operation, snapshotters: &[LocatedSnapshotter]) -> Self {
        let locations = snapshotters.iter().map(SnapshotterLocation::of).collect();
        Self { operation, locations, goes_on: CancellationToken::new() }
    }

    /// Deletes a snapshot that is noted, and then its note.
    async fn remove(&self, note: SnapshotNote, notes: &NoteStore<SnapshotNote>) -> Option<RemainingSnapshot> {
        if note.snapshot_id.is_empty() {
            return Some(RemainingSnapshot { note, why: String::new() });
        }
        if let Err(why) = self.delete(&note.location, &note.snapshot_id).await {
            return Some(RemainingSnapshot { note, why });
        }
        if let Err(e) = notes.remove(&note).await {
            // It is deleted once more, which does no harm.
            tell_note_stays(self.operation, &note.snapshot_id, &e);
        }
        None
    }

    /// Deletes a snapshot of a backup; gives why not, for people.
    async fn delete_one(&self, NativeSnapshot { spec, status }: &NativeSnapshot) -> Option<String> {
        let deleted = self.delete(&spec.location, &status.provider_snapshot_id).await;
        let of = match spec.persistent_volume_name.as_str() {
            "" => String::new(),
            volume => format!(" of the PersistentVolume {volume}"),
        };
        deleted.err().map(|e| format!("error deleting the snapshot {}{of}: {e}", status.provider_snapshot_id))
    }

    async fn delete(&self, location: &str, snapshot: &str) -> Result<(), String> {
        let Some(location) = self.locations.iter().find(|one| one.name == location) else {
            return Err(missing(location));
        };
        delete(location, snapshot, &self.goes_on, self.operation).await
    }
}

/// Deletes one snapshot.
pub(crate) async fn delete(
    location: &SnapshotterLocation,
    snapshot: &str,
    stop: &CancellationToken,
    operation: &Operation,
) -> Result<(), String> {
    let deleted = location.ask(Priority::Normal, stop, |snapshotter| async move {
        (operation.fence)().map_err(ActionError::item)?;
        snapshotter.delete_snapshot(snapshot).await
    });
    deleted.await.map_err(|e| format!("{}: {e}", location.called()))
}

/// A message that a location has no snapshotter.
pub(crate) fn missing(location: &str) -> String {
    format!(
        "there is no snapshotter of the volume snapshot location {location}: make the VolumeSnapshotLocation of that name again, and add \
         the plugin of its provider"
    )
}
