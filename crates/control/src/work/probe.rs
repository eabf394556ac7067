//! Finds out, once for each location as it is configured, what its store makes of conditional puts.

use super::Context;
use lifeboat_api::BackupStorageLocation;
use lifeboat_bucket::BlobStore;
use lifeboat_store::Store;
use std::sync::Arc;

/// Probes the store of a location, and returns a warning about it, if any. Nothing is written where the location is
/// read-only. A probe that cannot write returns no warning, because the operations that must write report that.
pub(super) async fn probe(
    context: &Context,
    location: &BackupStorageLocation,
    bucket: Arc<dyn BlobStore>,
) -> Option<String> {
    if location.is_read_only() {
        return None;
    }
    let found = match context.notes.locations.probed(location) {
        Some(found) => found,
        None => {
            // A server that does not lead any more writes nothing.
            context.leadership.check().ok()?;
            let store = Store::new(bucket).with_patience(context.env.cluster.patience());
            // No two clusters, which may do this at one time, have locations of one UID.
            let found = store.probe(&location.metadata.uid).await.inspect_err(|e| {
                tracing::warn!(location = location.metadata.name, error = %e, "it is not known whether the store keeps conditions on puts");
            });
            // What is not known now is asked with the next validation.
            let found = found.ok()?;
            context.notes.locations.note_probed(location, found);
            found
        }
    };
    found.warning()
}
