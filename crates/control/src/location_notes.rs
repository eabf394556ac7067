//! What a server remembers of locations as long as it lives.

use crate::world::Meta;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationSpec};
use lifeboat_client::NamespacedName;
use lifeboat_object::first_names;
use lifeboat_store::{ConditionalPuts, Probed};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// All that is remembered of locations.
#[derive(Debug, Default)]
pub(crate) struct LocationNotes {
    /// What was found of their stores.
    pub(crate) probes: Probes,
    /// What their syncs have found.
    pub(crate) remarks: Remarks,
    /// When they are searched next for what restores have left.
    pub(crate) restore_sweeps: RestoreSweeps,
}

/// What was found of each location.
#[derive(Debug, Default)]
pub(crate) struct Probes(Mutex<HashMap<NamespacedName, (BackupStorageLocationSpec, Probed)>>);

impl Probes {
    /// What was found of a location as it is configured now.
    pub(crate) fn of(&self, location: &BackupStorageLocation) -> Option<Probed> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&location.key()).filter(|(spec, _)| *spec == location.spec).map(|(_, found)| *found)
    }

    /// Notes what was found of a location as it is configured now.
    pub(crate) fn note(&self, location: &BackupStorageLocation, found: Probed) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(location.key(), (location.spec.clone(), found));
    }

    /// How objects are put that are to be put on a condition.
    pub(crate) fn puts(&self, location: &BackupStorageLocation) -> ConditionalPuts {
        self.of(location).map_or(ConditionalPuts::Kept, Probed::puts)
    }
}

/// What the last sync of each location has found and not taken over.
#[derive(Debug, Default)]
pub(crate) struct Remarks(Mutex<HashMap<NamespacedName, String>>);

impl Remarks {
    /// Notes the backups that wait for operations of whoever has made them.
    pub(crate) fn note_waiting(&self, location: &BackupStorageLocation, mut waiting: Vec<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_empty() {
            all.remove(&location.key());
            return;
        }
        waiting.sort_unstable();
        all.insert(location.key(), said_of_waiting(&waiting));
    }

    /// All that is to be said of a location, with this.
    pub(crate) fn with(&self, location: &BackupStorageLocation, other: Option<String>) -> Option<String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&location.key()).cloned();
        let all: Vec<String> = other.into_iter().chain(found).collect();
        (!all.is_empty()).then(|| all.join(". "))
    }
}

fn said_of_waiting(names: &[String]) -> String {
    format!(
        "Not taken over from the bucket: {}. Operations of the cluster that has made such a backup have not ended; it comes here when they \
         have, or when its time is over. When that cluster is lost, `lifeboat local restore --from-backup` restores from it as it is",
        first_names(names)
    )
}

/// Between two searches of a location for what restores have left.
const RESTORES_EVERY: Duration = Duration::from_secs(24 * 3600);
/// For how long after a location is seen first nothing is removed there.
const RESTORES_AT_FIRST: Duration = Duration::from_secs(3600);

/// When each location is searched next for what restores have left, whose originals outlive them.
#[derive(Debug, Default)]
pub(crate) struct RestoreSweeps(Mutex<HashMap<NamespacedName, Instant>>);

impl RestoreSweeps {
    /// Whether it is time, which is noted as done then.
    pub(crate) fn is_due(&self, location: NamespacedName, now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = all.entry(location).or_insert(now + RESTORES_AT_FIRST);
        let is_due = *due <= now;
        if is_due {
            *due = now + RESTORES_EVERY;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_waits_for_a_lost_cluster_is_said_of_its_location_until_it_is_taken_over() {
        let (remarks, mut location) = (Remarks::default(), BackupStorageLocation::default());
        location.metadata.name = "main".to_owned();
        assert_eq!(remarks.with(&location, None), None);
        remarks.note_waiting(&location, vec!["b".to_owned(), "a".to_owned()]);
        let said = remarks.with(&location, Some("The store is slow".to_owned())).unwrap();
        assert!(said.starts_with("The store is slow. Not taken over from the bucket: a, b. "), "{said}");
        let other = BackupStorageLocation::default();
        assert_eq!(remarks.with(&other, None), None);
        remarks.note_waiting(&location, Vec::new());
        assert_eq!(remarks.with(&location, Some("x".to_owned())).as_deref(), Some("x"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_restores_have_left_is_looked_for_once_a_day_and_not_in_the_first_hour() {
        let (sweeps, location) =
            (RestoreSweeps::default(), NamespacedName { namespace: "velero".into(), name: "default".into() });
        let began = Instant::now();
        let due = |hours: u64| sweeps.is_due(location.clone(), began + Duration::from_secs(hours * 3600));
        assert_eq!([0, 1, 2, 24, 25, 26].map(due), [false, true, false, false, true, false]);
    }
}
