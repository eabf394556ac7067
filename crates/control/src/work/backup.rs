//! Runs a backup, and takes over what an interrupted run left (api-and-controllers.md 3.3 and 3.5).

use super::{Context, Effect, Finished, Unfinished};
use crate::phase::ANNOTATION_ATTEMPT;
use crate::phase::location::refusal;
use crate::phase::queue::Move;
use lifeboat_action::Progress;
use lifeboat_api::{Backup, BackupPhase, BackupProgress, BackupStorageLocation, Time};
use lifeboat_archive::journal::Journal;
use lifeboat_backup::{BackupError, Outcome, Request, prepared};
use lifeboat_store::StoreError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Between reports of progress.
const REPORT: Duration = Duration::from_secs(1);

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
    let outcome = watched(context, &mut current, &request, &env).await;
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

/// Runs the engine and reports its progress meanwhile. Stops it when the object is no longer in progress.
async fn watched(
    context: &Context,
    current: &mut Backup,
    request: &Request,
    env: &lifeboat_backup::Env,
) -> Result<Outcome, BackupError> {
    let mut running = Box::pin(lifeboat_backup::run(request, env));
    let mut ticks = interval(REPORT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            outcome = &mut running => return outcome,
            _ = ticks.tick() => {
                let (done, total) = env.progress.get();
                let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                let progress = BackupProgress { total_items: count(total), items_backed_up: count(done) };
                // The engine goes on while this is written.
                let report = report(context, current, progress);
                tokio::select! {
                    outcome = &mut running => return outcome,
                    reported = report => match reported {
                        Ok(Some(stored)) => *current = stored,
                        Ok(None) => env.cancel.cancel(),
                        Err(e) => tracing::warn!(error = %e, "the progress of a backup could not be reported"),
                    },
                }
            }
        }
    }
}

/// Writes the progress; `None` when the backup is no longer ours to run.
async fn report(
    context: &Context,
    current: &Backup,
    progress: BackupProgress,
) -> Result<Option<Backup>, lifeboat_cluster::ClusterError> {
    if current.status.progress == Some(progress) {
        return Ok(Some(current.clone()));
    }
    let mut after = current.clone();
    after.status.progress = Some(progress);
    match context.client.change(current, &after).await {
        Ok(stored) => Ok(Some(stored)),
        Err(e) if e.is_conflict() => again(context, current).await,
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

/// The object as another actor left it; `None` when it is not the one that we began, or is in another phase.
async fn again(context: &Context, known: &Backup) -> Result<Option<Backup>, lifeboat_cluster::ClusterError> {
    let found: Option<Backup> = context.client.get(&known.metadata.name).await?;
    Ok(found.filter(|found| found.metadata.uid == known.metadata.uid && found.status.phase == known.status.phase))
}

/// Brings the outcome into the object: over the finalizing phase to the last one.
async fn finished(context: &Context, current: Backup, outcome: &Outcome) -> Finished {
    let current = again(context, &current).await?.ok_or_else(|| {
        Unfinished::Because(format!("backup {} was changed by another program while it ran", current.metadata.name))
    })?;
    let mut after = current.clone();
    after.spec = outcome.backup.spec.clone();
    after.status = outcome.backup.status.clone();
    let last = after.status.phase;
    after.status.phase = Some(match last {
        Some(BackupPhase::Completed) => BackupPhase::Finalizing,
        _ => BackupPhase::FinalizingPartiallyFailed,
    });
    after.status.completion_timestamp = None;
    let finalizing = context.client.change(&current, &after).await?;
    let mut after = finalizing.clone();
    after.status.phase = last;
    after.status.completion_timestamp = outcome.backup.status.completion_timestamp;
    tracing::info!(backup = after.metadata.name, phase = ?last, "backup ends");
    saved(context, &finalizing, &after).await
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
    let partly = match record.status.phase {
        Some(BackupPhase::Finalizing) => BackupPhase::Completed,
        Some(BackupPhase::FinalizingPartiallyFailed) => BackupPhase::PartiallyFailed,
        _ => BackupPhase::New,
    };
    if partly != BackupPhase::New {
        // Left by Velero: nothing is owed any more, so its record says how it ended.
        record.status.phase = Some(partly);
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
    let Some(current) = again(context, backup).await? else { return Ok(Vec::new()) };
    let mut after = current.clone();
    after.status.phase = Some(BackupPhase::Failed);
    after.status.failure_reason = reason;
    after.status.completion_timestamp = Some(Time::new(context.env.now()));
    saved(context, &current, &after).await
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
