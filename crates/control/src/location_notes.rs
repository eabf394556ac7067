//! Facts about locations that a server keeps in memory. No decision needs them to survive a restart: unknown facts are
//! looked up again.

use crate::world::Meta;
use lifeboat_api::NamespacedName;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationSpec};
use lifeboat_lifecycle::passed_over::PassedOver;
use lifeboat_store::{ConditionalPuts, ProbeResult, ReadingRestore, SnapshotList};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Interval between two searches of a location for what is left of restores and backups that are gone.
const BETWEEN_SEARCHES: Duration = Duration::from_secs(24 * 3600);

/// All that is remembered of locations, by their names.
#[derive(Debug, Default)]
pub(crate) struct LocationNotes(Mutex<HashMap<NamespacedName, LocationNote>>);

/// The known facts about a location.
#[derive(Debug, Default)]
struct LocationNote {
    /// The abilities of its store as they were probed, and the spec that it had then.
    probed: Option<(BackupStorageLocationSpec, ProbeResult)>,
    /// The backups that its last sync found and did not take over; unset before the first sync.
    passed_over: Option<PassedOver>,
    /// Backups in it whose names Backups of other locations have, as far as they were looked at: true for another
    /// backup than that Backup.
    same_names: BTreeMap<String, bool>,
    /// The last name that was looked at for that: the next look goes on behind it.
    looked_at_last: String,
    /// Time of the next search for files of restores that are gone.
    restores_swept_next: Option<Instant>,
    /// Time of the next deletion of snapshots that deleted backups have left.
    kept_snapshots_next: Option<Instant>,
    /// The list of such snapshots with which that begins, because the time was not enough for it before.
    kept_snapshots_first: Option<SnapshotList>,
    /// The restores that read backups in it, and when they were looked for.
    reading: Option<(Instant, Vec<ReadingRestore>)>,
}

/// Time for which the restores that were found in a location count: many deletions may begin at once.
pub(crate) const READING_VALID: Duration = Duration::from_secs(60);

impl LocationNotes {
    fn with<R>(&self, location: NamespacedName, use_it: impl FnOnce(&mut LocationNote) -> R) -> R {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_it(all.entry(location).or_default())
    }

    /// The abilities of the store of a location, if they were probed with its present configuration.
    pub(crate) fn probed(&self, location: &BackupStorageLocation) -> Option<ProbeResult> {
        self.with(location.key(), |note| {
            note.probed.as_ref().filter(|(spec, _)| *spec == location.spec).map(|(_, found)| *found)
        })
    }

    /// Notes what was found of the store of a location as it is configured now.
    pub(crate) fn note_probed(&self, location: &BackupStorageLocation, found: ProbeResult) {
        self.with(location.key(), |note| note.probed = Some((location.spec.clone(), found)));
    }

    /// The treatment of conditional puts by the store of a location.
    pub(crate) fn puts(&self, location: &BackupStorageLocation) -> ConditionalPuts {
        self.probed(location).map_or(ConditionalPuts::Kept, ProbeResult::puts)
    }

    /// Notes what a sync has found and not taken over.
    pub(crate) fn note_passed_over(&self, location: &BackupStorageLocation, found: PassedOver) {
        self.with(location.key(), |note| note.passed_over = Some(found));
    }

    /// The backups that the last sync of a location found and did not take over; without a sync of this server, those
    /// that an earlier one noted in the annotation.
    pub(crate) fn passed_over(&self, location: &BackupStorageLocation) -> PassedOver {
        self.with(location.key(), |note| note.passed_over.clone()).unwrap_or_else(|| PassedOver::of(location))
    }

    /// The first of these names that were not looked at yet, at most this many. Forgets all other names. It goes round: a name
    /// that cannot be looked at keeps no other from its turn.
    pub(crate) fn unknown_names(
        &self,
        location: &BackupStorageLocation,
        names: &BTreeSet<String>,
        most: usize,
    ) -> Vec<String> {
        self.with(location.key(), |note| {
            note.same_names.retain(|name, _| names.contains(name));
            let last = std::mem::take(&mut note.looked_at_last);
            let behind = names.range::<String, _>((Bound::Excluded(&last), Bound::Unbounded));
            let all = behind.chain(names.range::<String, _>(..=&last));
            let next: Vec<String> =
                all.filter(|name| !note.same_names.contains_key(*name)).take(most).cloned().collect();
            note.looked_at_last = next.last().cloned().unwrap_or_default();
            next
        })
    }

    /// Notes whether a backup in a location is another one than the Backup of its name.
    pub(crate) fn note_name(&self, location: &BackupStorageLocation, name: String, is_another: bool) {
        self.with(location.key(), |note| note.same_names.insert(name, is_another));
    }

    /// The backups in a location that are others than the Backups of their names.
    pub(crate) fn others_of_known_names(&self, location: &BackupStorageLocation) -> Vec<String> {
        let others = |note: &mut LocationNote| {
            note.same_names.iter().filter(|(_, is_another)| **is_another).map(|(name, _)| name.clone()).collect()
        };
        self.with(location.key(), others)
    }

    /// Tells whether it is time to search a location for what restores have left.
    pub(crate) fn restores_are_due(&self, location: NamespacedName, now: Instant) -> bool {
        self.with(location, |note| note.restores_swept_next.is_none_or(|due| due <= now))
    }

    /// Notes that a location was searched for what restores have left.
    pub(crate) fn note_restores_swept(&self, location: NamespacedName, now: Instant) {
        self.with(location, |note| note.restores_swept_next = Some(now + BETWEEN_SEARCHES));
    }

    /// Tells whether it is time to delete snapshots that deleted backups have left in repositories of a location.
    pub(crate) fn kept_snapshots_are_due(&self, location: NamespacedName, now: Instant) -> bool {
        self.with(location, |note| note.kept_snapshots_next.is_none_or(|due| due <= now))
    }

    /// The list with which that begins.
    pub(crate) fn first_kept_snapshots(&self, location: NamespacedName) -> Option<SnapshotList> {
        self.with(location, |note| note.kept_snapshots_first.clone())
    }

    /// Notes that this was done, and the list with which the next time begins.
    pub(crate) fn note_kept_snapshots(&self, location: NamespacedName, now: Instant, first: Option<SnapshotList>) {
        self.with(location, |note| {
            note.kept_snapshots_next = Some(now + BETWEEN_SEARCHES);
            note.kept_snapshots_first = first;
        });
    }

    /// The restores that read backups in a location, as far as they were looked for lately.
    pub(crate) fn reading_restores(&self, location: NamespacedName, now: Instant) -> Option<Vec<ReadingRestore>> {
        self.with(location, |note| {
            let (found, reading) = note.reading.as_ref()?;
            (now.saturating_duration_since(*found) < READING_VALID).then(|| reading.clone())
        })
    }

    /// Notes which restores read backups in a location.
    pub(crate) fn note_reading_restores(&self, location: NamespacedName, now: Instant, reading: Vec<ReadingRestore>) {
        self.with(location, |note| note.reading = Some((now, reading)));
    }

    /// Forgets locations that are gone.
    pub(crate) fn keep_only(&self, is_there: impl Fn(&NamespacedName) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|location, _| is_there(location));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main() -> BackupStorageLocation {
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "main".to_owned();
        location
    }

    #[test]
    fn what_was_found_of_a_store_counts_as_long_as_its_location_is_as_it_was() {
        let (notes, mut location) = (LocationNotes::default(), main());
        assert_eq!(notes.probed(&location), None);
        notes.note_probed(&location, ProbeResult::Ignored);
        assert_eq!(
            (notes.probed(&location), notes.puts(&location)),
            (Some(ProbeResult::Ignored), ConditionalPuts::Ignored)
        );
        location.spec.provider = "aws".to_owned();
        assert_eq!((notes.probed(&location), notes.puts(&location)), (None, ConditionalPuts::Kept));
        location.spec.provider.clear();
        notes.keep_only(|_| false);
        assert_eq!(notes.probed(&location), None);
    }

    #[test]
    fn what_a_server_before_has_noted_is_said_until_the_first_sync() {
        let (notes, mut location) = (LocationNotes::default(), main());
        let names = |name: &str| lifeboat_lifecycle::passed_over::NotedNames::of(vec![name.to_owned()]);
        let before = PassedOver { waiting: names("a"), ..PassedOver::default() };
        before.note(&mut location);
        assert_eq!(notes.passed_over(&location), before);
        notes.note_passed_over(&location, PassedOver::default());
        assert_eq!(notes.passed_over(&location), PassedOver::default());
    }

    #[test]
    fn a_backup_whose_name_is_known_is_looked_at_once() {
        let (notes, location) = (LocationNotes::default(), main());
        let names: BTreeSet<String> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(notes.unknown_names(&location, &names, 2), ["a", "b"]);
        notes.note_name(&location, "a".to_owned(), true);
        notes.note_name(&location, "b".to_owned(), false);
        assert_eq!(notes.unknown_names(&location, &names, 2), ["c"]);
        assert_eq!(notes.others_of_known_names(&location), ["a"]);
        assert_eq!(notes.unknown_names(&location, &BTreeSet::new(), 2), [""; 0]);
        assert_eq!(notes.others_of_known_names(&location), [""; 0], "the other Backup is gone");
    }

    #[test]
    fn names_that_cannot_be_looked_at_hide_no_others() {
        let (notes, location) = (LocationNotes::default(), main());
        let names: BTreeSet<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        let looked = || notes.unknown_names(&location, &names, 2).join("");
        assert_eq!([looked(), looked(), looked(), looked()], ["ab", "cd", "ea", "bc"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_restores_have_left_is_looked_for_once_a_day() {
        let (notes, began) = (LocationNotes::default(), Instant::now());
        let due = |hours: u64| {
            let now = began + Duration::from_secs(hours * 3600);
            let is_due = notes.restores_are_due(main().key(), now);
            // The first one fails.
            if is_due && hours > 0 {
                notes.note_restores_swept(main().key(), now);
            }
            is_due
        };
        assert_eq!([0, 1, 2, 25, 26, 48, 49].map(due), [true, true, false, true, false, false, true]);
    }
}
