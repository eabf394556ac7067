//! Notes how a backup has ended, or that it was refused.

use crate::work::merge::take_changes;
use crate::work::running::{recorded, shortened, store_refusal, until_written};
use crate::work::{Context, Effect, StepResult};
use crate::world::Meta;
use jiff::Timestamp;
use lifeboat_api::{Backup, BackupPhase, BackupSpec, BackupStatus, Time, well_known};
use lifeboat_backup::{Outcome, record_failure, remove_snapshots};

/// The failure reason of a backup whose name is that of another one in the bucket
/// (velero: pkg/controller/backup_controller.go).
pub(in crate::work) const NAME_TAKEN: &str = "backup already exists in object storage";

/// Stores log and record of a failed backup, then notes the failure. Returns true beside the result if the record was
/// put.
pub(super) async fn record_and_note_failure(
    context: &Context,
    backup: &Backup,
    reason: String,
    env: &lifeboat_backup::Env,
) -> (bool, StepResult) {
    let mut given = backup.clone();
    mark_failed(&mut given, &reason, context.env.now());
    let recording = record_failure(given.clone(), &context.options.backup, env);
    let why = match recorded(backup.spec.cancel, &env.operation.cancel, recording).await {
        // When its record was stored already, by an attempt that was cut off, that says how it ended.
        Ok(Ok(record)) => {
            let has_put = is_of_failure(&record.status, &given.status);
            if has_put {
                // Nobody can restore from them now. What cannot be removed goes with the deletion of the backup.
                remove_snapshots(backup, env).await;
            }
            return (has_put, note_end(context, backup, &record).await);
        }
        Ok(Err(e)) => e.to_string(),
        Err(why) => why,
    };
    tracing::warn!(backup = backup.metadata.name, why, "log and record of a failed backup are not stored");
    (false, note_failure(context, backup, reason).await)
}

/// Returns true if a record is the one that was stored for this failure, and not that of an earlier attempt.
fn is_of_failure(record: &BackupStatus, given: &BackupStatus) -> bool {
    let end = |status: &BackupStatus| (status.phase, status.completion_timestamp, status.failure_reason.clone());
    end(record) == end(given)
}

/// Returns true if a record in a bucket is that of a Backup. A Backup that was taken over from a bucket has another UID
/// than its record. The start alone does not tell, because two clusters may begin backups of one name at the same
/// second.
pub(in crate::work) fn is_record_of(record: &Backup, backup: &Backup) -> bool {
    let run = |status: &BackupStatus| (status.start_timestamp, status.completion_timestamp, status.progress.clone());
    record.metadata.uid == backup.metadata.uid || run(&record.status) == run(&backup.status)
}

/// Copies the outcome of a backup from its record. The attempt in a record is the one that it is the outcome of; the
/// object keeps the number of attempts that were begun. It also keeps unknown fields, which belong to the client that
/// wrote them.
pub(in crate::work) fn take_status(backup: &mut Backup, record: &Backup) {
    let BackupStatus { attempt, other, .. } = std::mem::take(&mut backup.status);
    backup.status = BackupStatus { attempt, other, ..record.status.clone() };
    if let Some(items) = record.metadata.annotations.get(well_known::ANNOTATION_NAMESPACED_ITEMS) {
        backup.metadata.annotations.insert(well_known::ANNOTATION_NAMESPACED_ITEMS.to_owned(), items.clone());
    }
}

/// Brings the status of a record into the object.
async fn note_end(context: &Context, backup: &Backup, record: &Backup) -> StepResult {
    tracing::info!(backup = backup.metadata.name, phase = record.phase(), "backup ends");
    let ended = until_written(context, backup, |after| take_status(after, record)).await?;
    context.metrics.backup_ends(&ended, None);
    Ok(vec![Effect::stored(ended)])
}

fn mark_failed(backup: &mut Backup, reason: &str, now: Timestamp) {
    backup.status.phase = Some(BackupPhase::Failed);
    backup.status.failure_reason = shortened(reason.to_owned());
    backup.status.queue_position = 0;
    backup.status.completion_timestamp = Some(Time::new(now));
}

/// Brings the outcome of an engine that was given this spec into the object: over the finalizing phase to the last one.
pub(super) async fn note_outcome(
    context: &Context,
    current: &Backup,
    given: &BackupSpec,
    outcome: &Outcome,
) -> StepResult {
    let last = outcome.backup.status.phase;
    if last == Some(BackupPhase::Failed) {
        return note_end(context, current, &outcome.backup).await;
    }
    let mut made = outcome.backup.spec.clone();
    if outcome.was_complete {
        // The record is of an earlier attempt: what else differs was changed since then.
        made = BackupSpec { excluded_namespaces: made.excluded_namespaces, ..given.clone() };
    }
    if outcome.is_pending() {
        let pending = until_written(context, current, |after| {
            take_changes(&mut after.spec, given, &made);
            take_status(after, &outcome.backup);
        })
        .await?;
        tracing::info!(backup = pending.metadata.name, phase = pending.phase(), "backup waits for its operations");
        context.metrics.backup_ran(&pending);
        if let Some(size) = outcome.archive_size {
            context.metrics.backup_archived(&pending, size);
        }
        return Ok(vec![Effect::stored(pending)]);
    }
    let finalizing = until_written(context, current, |after| {
        take_changes(&mut after.spec, given, &made);
        take_status(after, &outcome.backup);
        after.status.phase = Some(match last {
            Some(BackupPhase::Completed) => BackupPhase::Finalizing,
            _ => BackupPhase::FinalizingPartiallyFailed,
        });
        after.status.completion_timestamp = None;
    })
    .await?;
    let ended = until_written(context, &finalizing, |after| {
        after.status.phase = last;
        after.status.completion_timestamp = outcome.backup.status.completion_timestamp;
    })
    .await?;
    tracing::info!(backup = ended.metadata.name, phase = ended.phase(), "backup ends");
    context.metrics.backup_ran(&ended);
    context.metrics.backup_ends(&ended, outcome.archive_size);
    Ok(vec![Effect::stored(ended)])
}

/// Notes that a backup has failed.
pub(in crate::work) async fn note_failure(context: &Context, backup: &Backup, reason: String) -> StepResult {
    tracing::error!(backup = backup.metadata.name, reason, "backup failed");
    let now = context.env.now();
    let ended = until_written(context, backup, |after| mark_failed(after, &reason, now)).await?;
    context.metrics.backup_ends(&ended, None);
    Ok(vec![Effect::stored(ended)])
}

pub(super) async fn note_refusal(context: &Context, before: &Backup, after: Backup, errors: Vec<String>) -> StepResult {
    tracing::error!(backup = before.metadata.name, errors = errors.join("; "), "backup is not valid");
    let refused = store_refusal(context, before, after, errors, |backup, errors| {
        backup.status.phase = Some(BackupPhase::FailedValidation);
        backup.status.validation_errors = errors;
        backup.status.start_timestamp = None;
    });
    let refused = Box::pin(refused).await?;
    context.metrics.backup_refused(&refused);
    Ok(vec![Effect::stored(refused)])
}

pub(in crate::work) async fn store_change(context: &Context, before: &Backup, after: &Backup) -> StepResult {
    let stored = context.client.change(before, after).await?;
    Ok(vec![Effect::stored(stored)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_stored_before_is_not_that_of_a_failure() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let failed = |reason: &str, seconds| {
            let mut backup = Backup::default();
            mark_failed(&mut backup, reason, at(seconds));
            backup.status
        };
        let given = failed("no", 1);
        let counted = BackupStatus { errors: 1, ..given.clone() };
        let complete = BackupStatus { phase: Some(BackupPhase::Completed), ..given.clone() };
        for (record, expected) in [
            (given.clone(), true),
            (counted, true),
            (complete, false),
            (failed("no", 2), false),
            (failed("other", 1), false),
        ] {
            assert_eq!(is_of_failure(&record, &given), expected, "{record:?}");
        }
    }
}
