//! What is to be said of locations that can be used, until it is said in their status.

use crate::world::Meta;
use lifeboat_api::BackupStorageLocation;
use lifeboat_client::NamespacedName;
use lifeboat_object::first_names;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What the last sync of each location has found and not taken over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remarks(Arc<Mutex<HashMap<NamespacedName, String>>>);

impl Remarks {
    /// Notes the backups that wait for operations of whoever has made them.
    pub(super) fn note_waiting(&self, location: &BackupStorageLocation, mut waiting: Vec<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_empty() {
            all.remove(&location.key());
            return;
        }
        waiting.sort_unstable();
        all.insert(location.key(), said_of_waiting(&waiting));
    }

    /// All that is to be said of a location, with this.
    pub(super) fn with(&self, location: &BackupStorageLocation, other: Option<String>) -> Option<String> {
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
}
