//! Runs a backup, and takes over what an interrupted run left (api-and-controllers.md 3.3 and 3.5).

use super::running::{until_written, watched};
use super::{Context, Effect, Finished, Unfinished};
use crate::phase::ANNOTATION_ATTEMPT;
use crate::phase::location::refusal;
use crate::phase::queue::Move;
use lifeboat_action::Progress;
use lifeboat_api::{Backup, BackupPhase, BackupStorageLocation, Time};
use lifeboat_archive::journal::Journal;
use lifeboat_backup::{BackupError, Outcome, Request, prepared};
use lifeboat_store::StoreError;
use std::sync::Arc;

/// Moves a backup within the queue, or out of it.
pub(crate) async fn queue(context: &Context, backup: Backup, to: Move) -> Finished {
    let mut after = backup.clone();
    (after.status.phase, after.status.queue_position) = match to {
        Move::Queue(position) => (Some(BackupPhase::Queued), position),
        Move::Start => (Some(BackupPhase::ReadyToStart), 0),
    };
    saved(context, &backup, &after).await
}

/// Where a backup goes: the location, or why there is none.
pub(crate) type Target = Result<BackupStorageLocation, String>;

/// Validates and runs a backup to its end.
pub(crate) async fn run(context: &Context, backup: Backup, target: Target, attempt: u32) -> Finished {
    let version = context.client.cluster.version().await?;
    let mut settings = context.options.backup.clone();
    if let Ok(location) = &target {
        settings.storage_location.clone_from(&location.metadata.name);
    }
    let mut request = Request { backup, settings };
    let (mut started, mut errors) = prepared(&request, &version, context.env.now());
    let location = match target {
        Ok(location) => {
            // One that is taken up again was valid; what has changed since is found out when it is used.
            errors.extend(refusal(&location).filter(|_| attempt == 1));
            Some(location)
        }
        Err(why) => {
            errors.push(why);
            None
        }
    };
    let Some(location) = location.filter(|_| errors.is_empty()) else {
        return refused(context, &request.backup, started, errors).await;
    };
    started.metadata.annotations.insert(ANNOTATION_ATTEMPT.to_owned(), attempt.to_string());
    let mut current = context.client.change(&request.backup, &started).await?;
    tracing::info!(backup = current.metadata.name, attempt, "backup begins");
    let store = match context.store(&location).await {
        Ok(store) => store,
        Err(why) => return failed(context, &current, format!("error getting backup store: {why}")).await,
    };
    request.backup = current.clone();
    let env = lifeboat_backup::Env {
        cluster: context.client.cluster.clone(),
        store,
        clock: Arc::clone(&context.env.clock.0),
        journal: Journal::new(
            Arc::clone(&context.env.clock.0),
            &format!("backup={}/{}", current.metadata.namespace, current.metadata.name),
        ),
        progress: Arc::new(Progress::default()),
        scratch: context.env.scratch.clone(),
        cancel: context.env.cancel.child_token(),
    };
    let running = lifeboat_backup::run(&request, &env);
    let outcome = watched(context, &mut current, running, &env.progress, &env.cancel).await;
    match outcome {
        Ok(outcome) => finished(context, current, &outcome).await,
        Err(e) if context.leadership.check().is_err() || context.env.cancel.is_cancelled() => {
            Err(Unfinished::Because(format!("backup {} was left where it is: {e}", current.metadata.name)))
        }
        Err(BackupError::Invalid(errors)) => {
            let after = current.clone();
            refused(context, &current, after, errors.0).await
        }
        Err(BackupError::Store(StoreError::NameTaken { .. } | StoreError::Claimed { .. })) => {
            failed(context, &current, "backup already exists in object storage".to_owned()).await
        }
        Err(e) => failed(context, &current, e.to_string()).await,
    }
}

/// Brings the outcome into the object: over the finalizing phase to the last one.
async fn finished(context: &Context, current: Backup, outcome: &Outcome) -> Finished {
    let last = outcome.backup.status.phase;
    let finalizing = until_written(context, &current, |after| {
        after.spec = outcome.backup.spec.clone();
        after.status = outcome.backup.status.clone();
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
    tracing::info!(backup = ended.metadata.name, phase = ?last, "backup ends");
    Ok(vec![Effect::Backup(Box::new(ended))])
}

/// Takes the outcome of a finalizing backup over from its record in the bucket.
pub(crate) async fn adopt(context: &Context, backup: Backup, target: Target) -> Finished {
    let location = target.map_err(Unfinished::Because)?;
    let store = context.store(&location).await.map_err(Unfinished::Because)?;
    let mut record = match store.backup(&backup.metadata.name).await {
        Ok(record) => record,
        Err(StoreError::NoBackup { .. }) => {
            return failed(context, &backup, "the files of the backup are not in the bucket".to_owned()).await;
        }
        Err(e) => return Err(Unfinished::Because(e.to_string())),
    };
    let owed = match record.status.phase {
        Some(BackupPhase::Finalizing) => Some(BackupPhase::Completed),
        Some(BackupPhase::FinalizingPartiallyFailed) => Some(BackupPhase::PartiallyFailed),
        _ => None,
    };
    if owed.is_some() {
        // Left by Velero: nothing else is to be done, so its record says how it ended.
        record.status.phase = owed;
        record.status.completion_timestamp = Some(Time::new(context.env.now()));
        store.replace_record(&record).await.map_err(|e| Unfinished::Because(e.to_string()))?;
    }
    let mut after = backup.clone();
    after.status = record.status;
    saved(context, &backup, &after).await
}

/// Notes that a backup has failed.
pub(crate) async fn failed(context: &Context, backup: &Backup, reason: String) -> Finished {
    tracing::error!(backup = backup.metadata.name, reason, "backup failed");
    let ended = until_written(context, backup, |after| {
        after.status.phase = Some(BackupPhase::Failed);
        after.status.failure_reason.clone_from(&reason);
        after.status.completion_timestamp = Some(Time::new(context.env.now()));
    })
    .await?;
    Ok(vec![Effect::Backup(Box::new(ended))])
}

async fn refused(context: &Context, before: &Backup, mut after: Backup, errors: Vec<String>) -> Finished {
    tracing::error!(backup = before.metadata.name, errors = errors.join("; "), "backup is not valid");
    after.status.phase = Some(BackupPhase::FailedValidation);
    after.status.validation_errors = errors;
    after.status.start_timestamp = None;
    saved(context, before, &after).await
}

async fn saved(context: &Context, before: &Backup, after: &Backup) -> Finished {
    let stored = context.client.change(before, after).await?;
    Ok(vec![Effect::Backup(Box::new(stored))])
}
