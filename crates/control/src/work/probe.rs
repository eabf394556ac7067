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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{OneBucket, context, sandbox};
    use crate::work::location::validate;
    use lifeboat_api::BackupStorageLocationPhase;
    use lifeboat_bucket::Memory;
    use lifeboat_bucket::faults::{PutCondition, Unconditional};
    use std::time::Duration;

    #[tokio::test]
    async fn the_status_of_a_location_says_that_its_store_keeps_no_conditions() {
        let (_sandbox, cluster) = sandbox().await;
        let said = async |name: &str, bucket: Arc<dyn BlobStore>| {
            let context = context(cluster.clone(), Arc::new(OneBucket(bucket)));
            let mut location = BackupStorageLocation::default();
            (location.metadata.name, location.metadata.namespace) = (name.to_owned(), "velero".to_owned());
            location.spec.provider = "aws".to_owned();
            let location = context.client.create(name, &location).await.unwrap().unwrap();
            validate(&context, location, None).await.unwrap();
            let status = context.client.get::<BackupStorageLocation>(name).await.unwrap().unwrap().status;
            assert_eq!(status.phase, Some(BackupStorageLocationPhase::Available), "{name}: {status:?}");
            status.message
        };
        let of = |condition| Arc::new(Unconditional::new(condition, Duration::ZERO));
        assert_eq!(said("kept", Arc::new(Memory::default())).await, "");
        let [refused, ignored] =
            [said("refused", of(PutCondition::Refused)).await, said("ignored", of(PutCondition::Ignored)).await];
        assert!(refused.contains("condition") && ignored.contains("condition"), "{refused:?} {ignored:?}");
        assert_ne!(refused, ignored);
    }
}
