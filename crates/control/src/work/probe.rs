//! Finds out, once for each location as it is configured, what its store makes of conditional puts.

use super::Context;
use crate::world::Meta;
use lifeboat_api::{BackupStorageLocation, BackupStorageLocationAccessMode as AccessMode, BackupStorageLocationSpec};
use lifeboat_bucket::BlobStore;
use lifeboat_client::NamespacedName;
use lifeboat_store::{ConditionalPuts, Probed, Store};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What was found of each location.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes(Arc<Mutex<HashMap<NamespacedName, (BackupStorageLocationSpec, Probed)>>>);

impl Probes {
    /// What was found of a location as it is configured now.
    fn of(&self, location: &BackupStorageLocation) -> Option<Probed> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&location.key()).filter(|(spec, _)| *spec == location.spec).map(|(_, found)| *found)
    }

    fn note(&self, location: &BackupStorageLocation, found: Probed) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(location.key(), (location.spec.clone(), found));
    }

    /// How objects are put that are to be put on a condition.
    pub(crate) fn puts(&self, location: &BackupStorageLocation) -> ConditionalPuts {
        self.of(location).map_or(ConditionalPuts::Kept, Probed::puts)
    }
}

/// What is to be said of the store of a location that can be used. Nothing is written where the location is only read; what cannot be
/// written otherwise is said by whoever needs to.
pub(super) async fn probe(
    context: &Context,
    location: &BackupStorageLocation,
    bucket: Arc<dyn BlobStore>,
) -> Option<String> {
    if location.spec.access_mode == Some(AccessMode::ReadOnly) {
        return None;
    }
    let found = match context.probes.of(location) {
        Some(found) => found,
        None => {
            // A server that does not lead any more writes nothing.
            context.leadership.check().ok()?;
            let store = Store::new(bucket).with_patience(context.env.cluster.patience());
            let found = store.probe().await.inspect_err(|e| {
                tracing::warn!(location = location.metadata.name, error = %e, "it is not known whether the store keeps conditions on puts");
            });
            let found = found.unwrap_or(Probed::Kept);
            context.probes.note(location, found);
            found
        }
    };
    found.warning()
}
