//! Puts what came of a restore beside the backups: its files; and makes the resource that says so. A restore whose actions have
//! begun operations waits for these then (restore.md 1.9).

use crate::action::Action;
use crate::env::Env;
use crate::listed::Listed;
use crate::outcome::{Outcome, Walked};
use crate::stop::BrokenOff;
use lifeboat_api::{Restore, RestorePhase, RestoreProgress, RestoreStatus, Time};
use lifeboat_archive::layout::RestoreFile;
use lifeboat_archive::sidecar;
use lifeboat_object::{GroupResource, ObjectKey, Place, chain};
use lifeboat_operation::{Closed, Log};
use lifeboat_store::{Content, StoreError};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// How long the files of a restore may take to be stored, and those of one that was or is cancelled.
const STORING: Duration = Duration::from_secs(600);
const STORING_CANCELLED: Duration = Duration::from_secs(4);
/// The same of one that broke off because of the bucket: its next run stores them again.
const STORING_BROKEN_OFF: Duration = Duration::from_secs(30);

/// Decides the phase, and puts log, results, resource list, operations and volume information.
pub(crate) async fn record(mut restore: Restore, mut walked: Walked, env: &Env) -> Result<Outcome, StoreError> {
    let cancelled = env.operation.cancel.is_cancelled();
    let broken_off = walked.broken_off.take();
    let (_, planned) = env.operation.progress.get();
    let spec = restore.spec.clone();
    let listed = Listed::of(&walked, &spec);
    let items = listed.len();
    let ended_early = format!(
        "the restore was cancelled: {items} of {planned} objects were looked at, and the resource list says what was done"
    );
    if cancelled {
        env.operation.journal.error(&Place::Velero, ended_early.as_str());
    }
    if let Some(why) = &broken_off {
        restore.status.failure_reason = broke_off(&spec.backup_name, why, walked.not_looked_at);
        env.operation.journal.error(&Place::Velero, &restore.status.failure_reason);
    }
    let claims = claims(&walked);
    let volumes = walked.volumes.tell(&spec.namespace_mapping, |key| claims.get(key).copied());
    if let Some(warning) = volumes.warning {
        env.operation.journal.warn(&Place::Velero, warning);
    }
    if !cancelled && broken_off.is_none() {
        env.operation.journal.info("restore completed", &[]);
    }
    let name = restore.metadata.name.clone();
    // One that broke off has waited for the bucket already.
    let within = if broken_off.is_some() { STORING_BROKEN_OFF } else { STORING };
    let mut files = Files { env, name: &name, time: StoringTime::begin(within), unstored: Vec::new() };
    if cancelled {
        restore.status.failure_reason = ended_early;
    }
    let encode = |what, bytes: Result<Vec<u8>, serde_json::Error>| bytes.map_err(|e| StoreError::Encode(what, e));
    let mut is_pending = false;
    if cancelled {
        walked.operations.tell_left("the restore was cancelled");
    } else if walked.operations.count() > 0 {
        let operations = encode("the item operations", sidecar::encode(&*walked.operations))?;
        files.put(RestoreFile::ItemOperations, operations).await;
        is_pending = files.unstored.is_empty();
        if !is_pending {
            walked.operations.tell_left("the list of all operations could not be stored");
        }
    }
    files.put(RestoreFile::Logs, log_content(env.operation.journal.close().log)).await;
    // What was restored is there; only that its log is missing counts (restore.md 1.7).
    if let Some(why) = files.unstored.first() {
        env.operation.journal.error(&Place::Velero, why.as_str());
    }
    let Closed { results, warnings, errors, .. } = env.operation.journal.close();
    let status = &mut restore.status;
    count(status, warnings, errors);
    let items = i64::try_from(items).unwrap_or(i64::MAX);
    let not_looked_at = i64::try_from(walked.not_looked_at).unwrap_or(i64::MAX);
    let total_items = items.saturating_add(not_looked_at);
    status.progress = Some(RestoreProgress { total_items, items_restored: items });
    status.restore_item_operations_attempted = i64::try_from(walked.operations.count()).unwrap_or(i64::MAX);
    status.hook_status = Some(walked.hooks.status().unwrap_or_default());
    status.completion_timestamp = (!is_pending).then(|| Time::new((env.operation.clock)()));
    status.phase = Some(match (is_pending, errors) {
        _ if cancelled => RestorePhase::Failed,
        (false, 0) => RestorePhase::Completed,
        (false, _) => RestorePhase::PartiallyFailed,
        (true, 0) => RestorePhase::WaitingForPluginOperations,
        (true, _) => RestorePhase::WaitingForPluginOperationsPartiallyFailed,
    });
    if !is_pending {
        let operations = encode("the item operations", sidecar::encode(&*walked.operations))?;
        files.put(RestoreFile::ItemOperations, operations).await;
    }
    for (file, bytes) in [
        (RestoreFile::Results, encode("the results", sidecar::encode(&results))?),
        (RestoreFile::ResourceList, encode("the resource list", sidecar::encode(&listed))?),
        (RestoreFile::VolumeInfo, encode("the volume information", sidecar::encode(&volumes.records))?),
    ] {
        files.put(file, bytes).await;
    }
    let unstored = files.unstored;
    if !cancelled && env.operation.cancel.is_cancelled() && !unstored.is_empty() {
        restore.status.phase = Some(RestorePhase::Failed);
        restore.status.completion_timestamp.get_or_insert(Time::new((env.operation.clock)()));
        restore.status.failure_reason = format!(
            "the restore was cancelled: {items} of {planned} objects were looked at, but not all of its files could be stored in time"
        );
    }
    Ok(Outcome { restore, results, unstored, done: listed.count(), broken_off })
}

/// That a restore broke off, for people.
fn broke_off(backup: &str, why: &BrokenOff, not_looked_at: u64) -> String {
    let objects = if not_looked_at == 1 { "1 object was" } else { &format!("{not_looked_at} objects were") };
    let what = match why {
        BrokenOff::Archive(_) => format!("the archive of backup {backup} could not be read to its end: "),
        BrokenOff::Action { .. } => String::new(),
    };
    format!("the restore broke off, because {what}{}; {objects} not looked at", chain(why))
}

/// What was done with each claim of the backup.
fn claims(walked: &Walked) -> HashMap<ObjectKey, Action> {
    let claims = GroupResource::new("", "persistentvolumeclaims");
    let rows = walked.done.iter().filter_map(|one| Some((walked.archive.row(one.row)?, one.action)));
    rows.filter(|(row, _)| *row.resource == claims).map(|(row, action)| (row.key(), action)).collect()
}

/// The files of a restore on their way.
struct Files<'a> {
    env: &'a Env,
    name: &'a str,
    time: StoringTime,
    /// Why some are not stored.
    unstored: Vec<String>,
}

impl Files<'_> {
    async fn put(&mut self, file: RestoreFile, content: impl Into<Content>) {
        let what = if file == RestoreFile::Logs { "log file".to_owned() } else { file.key(self.name) };
        let putting = self.env.store.put_restore_file(self.name, file, content);
        let why = match self.time.bound(&self.env.operation.cancel, putting).await {
            Some(Ok(())) => return,
            Some(Err(e)) => e.to_string(),
            None => "the bucket did not answer in time".to_owned(),
        };
        self.unstored.push(format!("error uploading {what} to backup storage: {why}"));
    }
}

/// Until when all files of a restore must be stored.
struct StoringTime {
    deadline: Instant,
    /// The restore is cancelled, and the deadline a near one.
    is_short: bool,
}

impl StoringTime {
    fn begin(within: Duration) -> Self {
        Self { deadline: Instant::now() + within, is_short: false }
    }

    /// What the storing of a file comes to; `None` when it takes too long, which it does soon once the restore is cancelled.
    async fn bound<O>(&mut self, cancel: &CancellationToken, storing: impl Future<Output = O>) -> Option<O> {
        let mut storing = std::pin::pin!(timeout_at(self.deadline, storing));
        if !self.is_short {
            tokio::select! {
                stored = &mut storing => return stored.ok(),
                () = cancel.cancelled() => {}
            }
            self.is_short = true;
            self.deadline = self.deadline.min(Instant::now() + STORING_CANCELLED);
        }
        timeout_at(self.deadline, storing).await.ok()?.ok()
    }
}

/// Stores log and results of a restore that broke off, so that what happened can be read like that of any other. Gives
/// `restore` with the counts of its warnings and errors.
///
/// # Errors
/// [`StoreError`].
pub async fn record_failure(mut restore: Restore, env: &Env) -> Result<Restore, StoreError> {
    env.operation.journal.error(&Place::Velero, &restore.status.failure_reason);
    let closed = env.operation.journal.close();
    count(&mut restore.status, closed.warnings, closed.errors);
    let results = sidecar::encode(&closed.results).map_err(|e| StoreError::Encode("the results", e))?;
    let name = &restore.metadata.name;
    env.store.put_restore_file(name, RestoreFile::Logs, log_content(closed.log)).await?;
    env.store.put_restore_file(name, RestoreFile::Results, results).await?;
    Ok(restore)
}

/// A log, to be stored.
pub(crate) fn log_content(log: Log) -> Content {
    Content::read_by(log.length(), move |at, most| log.read_at(at, most))
}

fn count(status: &mut RestoreStatus, warnings: u64, errors: u64) {
    status.warnings = i64::try_from(warnings).unwrap_or(i64::MAX);
    status.errors = i64::try_from(errors).unwrap_or(i64::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::sleep;

    #[test]
    fn a_restore_that_breaks_off_says_how_many_objects_were_not_looked_at() {
        let said = |objects| broke_off("b", &StoreError::Worker("reading").into(), objects);
        let expected = |objects: &str| {
            format!(
                "the restore broke off, because the archive of backup b could not be read to its end: a worker thread died \
                 while reading; {objects} not looked at"
            )
        };
        let objects = ["0 objects were", "1 object was", "2 objects were"];
        assert_eq!([0, 1, 2].map(said), objects.map(expected));
    }

    /// How long files take to be stored that a bucket never takes, when the restore is cancelled after this time, and whether
    /// the next one, which takes a second, is stored.
    async fn stored(cancelled_after: Duration) -> (Duration, bool) {
        let (begun, cancel) = (Instant::now(), CancellationToken::new());
        let mut time = StoringTime::begin(STORING);
        let storing = async {
            assert_eq!(time.bound(&cancel, pending::<()>()).await, None);
            let took = begun.elapsed();
            (took, time.bound(&cancel, sleep(Duration::from_secs(1))).await.is_some())
        };
        let cancelling = async {
            sleep(cancelled_after).await;
            cancel.cancel();
        };
        tokio::join!(storing, cancelling).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_that_hangs_holds_a_cancelled_restore_for_seconds_only() {
        let seconds = Duration::from_secs;
        assert_eq!(stored(seconds(0)).await, (seconds(4), false));
        assert_eq!(stored(seconds(60)).await, (seconds(64), false));
        assert_eq!(stored(seconds(598)).await, (seconds(600), false));
        assert_eq!(stored(seconds(700)).await, (seconds(600), false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_restore_stores_what_the_bucket_takes() {
        let cancel = CancellationToken::new();
        let mut time = StoringTime::begin(STORING);
        cancel.cancel();
        for _ in 0..3 {
            assert_eq!(time.bound(&cancel, sleep(Duration::from_secs(1))).await, Some(()));
        }
        assert_eq!(time.bound(&cancel, sleep(Duration::from_secs(2))).await, None);
    }
}
