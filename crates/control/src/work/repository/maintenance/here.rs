//! Maintenance within the server, for one that runs in no pod.

use super::outcome::EndedRun;
use super::record::record;
use crate::work::repository::open::writer_options;
use crate::work::repository::password::{explained, password};
use crate::work::{Context, StepError, StepResult};
use lifeboat_api::{BackupRepository, BackupStorageLocation, Time};
use lifeboat_kopia::OpenOptions;
use lifeboat_repository::{MaintenanceSummary, WriterOptions, blobs_of};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The most memory for indexes and contents.
const MEMORY: u64 = 64 << 20;

/// Maintains a repository in this process, and records the run.
pub(super) async fn maintain(
    context: &Context,
    before: &BackupRepository,
    location: &BackupStorageLocation,
    stop: CancellationToken,
) -> StepResult {
    let start = Time::new(context.env.now());
    let result = run(context, before, location, &stop).await;
    if stop.is_cancelled() {
        // Its claim was given back: the next server goes on.
        return Err(StepError::NotYet(Duration::from_secs(1)));
    }
    let times = [start, Time::new(context.env.now())];
    let ended = match result {
        Ok(summary) => EndedRun::with(summary, times),
        Err(why) => EndedRun::failed(&why, times),
    };
    Ok(record(context, before, vec![ended]).await?.into_iter().collect())
}

async fn run(
    context: &Context,
    repository: &BackupRepository,
    location: &BackupStorageLocation,
    stop: &CancellationToken,
) -> Result<MaintenanceSummary, String> {
    let bucket = context.bucket(location).await?;
    let password = password(context, location).await?;
    let WriterOptions { random, open } = writer_options(context);
    let options = WriterOptions { random, open: OpenOptions { memory: MEMORY, ..open } };
    let blobs = blobs_of(bucket, &repository.spec.volume_namespace);
    let maintained = Box::pin(lifeboat_repository::maintain(blobs, &password, &options, stop.cancelled())).await;
    maintained.map_err(|error| explained(&error))
}
