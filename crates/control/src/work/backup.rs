//! Runs a backup, and takes over what an interrupted run left (velero: pkg/controller/backup_controller.go,
//! pkg/controller/backup_finalizer_controller.go).

mod ending;

pub(super) use ending::{NAME_TAKEN, is_record_of, note_failure, store_change, take_status};

use super::claim::refreshed;
use super::own_files::sweep_own;
use super::running::{
    Attempt, Freshness, RECORDING, capped, fence, leave_to_next_server, look_again, not_taken, silent_for, watched,
};
use super::{Context, Effect, SnapshotLocations, StepError, StepResult};
use crate::extensions::open_snapshotter;
use crate::records::RecordMap;
use crate::world::MirroredKind;
use ending::{note_outcome, note_refusal, record_and_note_failure};
use lifeboat_api::{Backup, BackupPhase, BackupStorageLocation, VolumeSnapshotLocation};
use lifeboat_backup::{
    BackupError, Request, has_noted_snapshots, noted_beside_claim, prepared, remove_readers, remove_snapshots,
    run_delete_actions, run_owed_hooks, snapshots_that_stay, stop_file_backups,
};
use lifeboat_client::ObjectIdentity;
use lifeboat_client::is_refused;
use lifeboat_cluster::{ClusterError, Failure};
use lifeboat_lifecycle::phase::location::refusal;
use lifeboat_lifecycle::phase::queue::QueueMove;
use lifeboat_lifecycle::phase::snapshot_location;
use lifeboat_lifecycle::phase::taken_over::{note_begun_here, was_taken_over};
use lifeboat_operation::Operation;
use lifeboat_store::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Time limit for the removal of the snapshots of a backup whose object is gone.
const REMOVING: Duration = Duration::from_secs(300);

/// Moves a backup within the queue, or out of it.
pub(crate) async fn queue(context: &Context, backup: Backup, to: QueueMove) -> StepResult {
    let mut after = backup.clone();
    (after.status.phase, after.status.queue_position) = match to {
        QueueMove::Queue(position) | QueueMove::Renumber(position) => (Some(BackupPhase::Queued), position),
        QueueMove::Start => (Some(BackupPhase::ReadyToStart), 0),
    };
    store_change(context, &backup, &after).await
}

/// Where a backup goes: the location, or why there is none.
pub(crate) type BackupTarget = Result<BackupStorageLocation, String>;

/// Validates and runs a backup to its end, or until `stop`.
pub(crate) async fn run(
    context: &Context,
    backup: Backup,
    target: BackupTarget,
    stop: CancellationToken,
) -> StepResult {
    let version = context.client.cluster.version().await?;
    let mut settings = context.options.backup.clone();
    match &target {
        Ok(location) => settings.storage_location.clone_from(&location.metadata.name),
        Err(_) if backup.spec.storage_location.is_empty() => {
            settings.storage_location = context.options.default_location.clone().unwrap_or_default();
        }
        Err(_) => {}
    }
    let request = Request { backup, settings };
    let (mut started, mut errors) = prepared(&request, &version, context.env.now());
    match snapshot_locations(context, &started).await? {
        ResolvedLocations::Names(names) => {
            errors.extend(unusable(context, &request.backup).await);
            started.spec.volume_snapshot_locations = names;
        }
        ResolvedLocations::Wrong(wrong) => errors.extend(wrong),
    }
    let location = match target {
        Ok(location) => {
            errors.extend(refusal(&location));
            Some(location)
        }
        Err(why) => {
            errors.push(why);
            None
        }
    };
    let Some(location) = location.filter(|_| errors.is_empty()) else {
        return note_refusal(context, &request.backup, started, errors).await;
    };
    Box::pin(begin(context, request, Attempt::of(1, started), location, stop)).await
}

/// Runs a backup again that was valid, after a server was cut off in it. The engine finds out what has changed since when it
/// uses that; without its location the backup fails.
pub(crate) async fn run_again(
    context: &Context,
    backup: Backup,
    target: BackupTarget,
    attempt: u32,
    stop: CancellationToken,
) -> StepResult {
    let location = match target {
        Ok(location) => location,
        Err(why) => return Box::pin(give_up(context, &backup, Err(why.clone()), why)).await,
    };
    let attempt = Attempt::of(attempt, backup.clone());
    let mut settings = context.options.backup.clone();
    settings.storage_location.clone_from(&location.metadata.name);
    Box::pin(begin(context, Request { backup, settings }, attempt, location, stop)).await
}

/// The snapshot locations of a backup.
enum ResolvedLocations {
    /// Their names, with those that are taken by default.
    Names(Vec<String>),
    /// The reasons why the backup cannot have those that it asks for.
    Wrong(Vec<String>),
}

/// Finds the snapshot locations of a backup. Errors that may pass are retried.
async fn snapshot_locations(context: &Context, backup: &Backup) -> Result<ResolvedLocations, ClusterError> {
    let defaults = &context.options.default_snapshot_locations;
    match context.client.list::<VolumeSnapshotLocation>("").await {
        Ok(all) => {
            let resolved = snapshot_location::resolve(&backup.spec.volume_snapshot_locations, &all, defaults);
            Ok(resolved.map_or_else(ResolvedLocations::Wrong, ResolvedLocations::Names))
        }
        Err(e) if e.is_denied() || matches!(e.failure, Failure::Invalid(_)) => {
            Ok(ResolvedLocations::Wrong(vec![format!("error listing volume snapshot locations: {e}")]))
        }
        Err(e) => Err(e),
    }
}

/// Errors of the snapshot locations that a backup names itself. A location that it takes by default is not checked
/// here: if it cannot be used, that is an error of the volumes that need it.
async fn unusable(context: &Context, backup: &Backup) -> Vec<String> {
    let named = SnapshotLocations::Named(&backup.spec.volume_snapshot_locations);
    let locations = match context.snapshot_locations(named).await {
        Ok(locations) => locations,
        Err(why) => return vec![why],
    };
    let journal = operation(context, backup, context.env.cancel.child_token()).journal;
    let mut errors = Vec::new();
    for location in locations {
        let opened = open_snapshotter(&context.client, &*context.env.extensions, &location, &journal).await;
        errors.extend(opened.err());
    }
    errors
}

/// Notes the attempt, and runs the engine.
async fn begin(
    context: &Context,
    mut request: Request,
    Attempt { number: attempt, started }: Attempt<Backup>,
    location: BackupStorageLocation,
    stop: CancellationToken,
) -> StepResult {
    let cluster = context.cluster_uid().await?;
    let mut started = started;
    if attempt == 1 || !was_taken_over(&request.backup) {
        // So that no clock has to tell later that it is of this cluster.
        note_begun_here(&mut started.metadata, &cluster);
    }
    let mut current = match context.client.change(&request.backup, &started).await {
        Err(e) if is_refused(&e) && attempt == 1 => {
            let after = request.backup.clone();
            return note_refusal(context, &request.backup, after, vec![not_taken(&e)]).await;
        }
        Err(e) if is_refused(&e) => return fail_unseen(context, &request.backup, attempt, not_taken(&e)).await,
        noted => noted?,
    };
    tracing::info!(backup = current.metadata.name, attempt, "backup begins");
    if attempt == 1 {
        context.metrics.backup_begins(&current);
    }
    let store = match context.store(&location).await {
        Ok(store) => store,
        Err(why) => {
            return fail_unseen(context, &current, attempt, format!("error getting backup store: {why}")).await;
        }
    };
    request.backup = current.clone();
    let locations = SnapshotLocations::Named(&current.spec.volume_snapshot_locations);
    let env = match engine_env(context, &current, store, locations, stop).await {
        Ok(env) => env,
        Err(why) => return fail_unseen(context, &current, attempt, why).await,
    };
    let (name, uid) = (&request.backup.metadata.name, &request.backup.metadata.uid);
    let running = Box::pin(lifeboat_backup::run(&request, &env));
    let running = refreshed(&env.store, name, uid, || context.env.now(), running);
    let outcome = watched(context, &mut current, running, &env.operation.progress, &env.operation.cancel).await;
    if let Err(e) = &outcome
        && (context.leadership.check().is_err() || context.env.cancel.is_cancelled())
    {
        tracing::info!(backup = current.metadata.name, error = %e, "backup breaks off");
        return Err(leave_to_next_server(context, &current).await);
    }
    let has_put = matches!(&outcome, Ok(outcome) if !outcome.was_complete);
    let has_notes = attempt > 1 || !matches!(&outcome, Ok(outcome) if noted_nothing(&outcome.backup));
    match look_again(context, &current).await? {
        Freshness::Ours(_) => {}
        Freshness::Gone => {
            // The notes of an attempt before this one may be there a moment longer than their owner.
            let _ = run_owed_hooks(&env.cluster, &env.operation).await;
            return forget(&current, &env, has_put).await;
        }
        Freshness::Changed => return Err(StepError::Because("another program has taken the backup over".to_owned())),
    }
    if has_notes && (outcome.is_err() || attempt > 1) {
        // Before the phase says that the backup has ended: nobody looks at its notes then. An attempt that went well may not have
        // come to all pods that the one before has frozen.
        thaw(context, &current).await?;
    }
    let is_complete = outcome.is_ok();
    let (has_put, noted) = match outcome {
        Ok(outcome) => (has_put, note_outcome(context, &current, &request.backup.spec, &outcome).await),
        // The engine refuses it before it has begun anything; before a second attempt something was begun.
        Err(BackupError::Invalid(errors)) if attempt == 1 => {
            let after = current.clone();
            (false, note_refusal(context, &current, after, errors.0).await)
        }
        Err(BackupError::Store(StoreError::NameTaken { .. } | StoreError::Claimed { .. })) => {
            (false, note_failure(context, &current, NAME_TAKEN.to_owned()).await)
        }
        Err(BackupError::Cancelled) if env.operation.cancel.is_cancelled() => {
            let (done, found) = env.operation.progress.get();
            let reason = format!(
                "cancelled on request: {done} of {found} objects found so far were read, and nothing of them is kept"
            );
            Box::pin(record_and_note_failure(context, &current, reason, &env)).await
        }
        Err(e) => Box::pin(record_and_note_failure(context, &current, e.to_string(), &env)).await,
    };
    let ended = unless_gone(context, &current, &env, has_put, noted).await;
    if has_notes && ended.is_ok() {
        forget_notes(context, &current, &env.operation, has_put || is_complete).await;
    }
    ended
}

/// Removes the notes of a backup that has ended, unless they are all that tells of native snapshots which its deletion is to delete.
async fn forget_notes(context: &Context, backup: &Backup, operation: &Operation, is_recorded: bool) {
    if is_recorded || !has_noted_snapshots(operation).await {
        RecordMap::new(context, backup).forget().await;
    }
}

/// An attempt that is not the first.
pub(crate) const AGAIN: u32 = 2;

/// Fails a backup whose bucket cannot be read. What an attempt before has frozen thaws first; the snapshots that one has taken stay,
/// because the backup may have a record there, and the reason says so.
pub(crate) async fn fail_unseen(context: &Context, backup: &Backup, attempt: u32, reason: String) -> StepResult {
    if attempt == 1 {
        return note_failure(context, backup, reason).await;
    }
    thaw(context, backup).await?;
    // It has no record before all of them have ended, so nobody waits for those that have not. A DataUpload may be of its record.
    if let Err(e) = stop_file_backups(backup, &context.client.cluster).await {
        let (backup, what) =
            (&backup.metadata.name, "movers that save files for a failed backup could not be asked to stop");
        tracing::warn!(backup, error = %e, "{what}: set spec.cancel of its PodVolumeBackups");
    }
    if let Err(e) = remove_readers(backup, &context.client.cluster).await
        && !e.is_denied()
    {
        let backup = &backup.metadata.name;
        tracing::warn!(backup, error = %e, "reader pods of a failed backup could not be removed: they end by themselves in some hours");
    }
    let reason = match snapshots_that_stay(backup, &context.client.cluster).await {
        None => reason,
        Some(left) => format!("{reason}; {left}"),
    };
    note_failure(context, backup, reason).await
}

/// Runs the hooks that pods are owed by attempts that were cut off.
///
/// # Errors
/// When some are owed still because of what can pass: the backup must not end before.
pub(crate) async fn thaw(context: &Context, backup: &Backup) -> Result<(), StepError> {
    let operation = operation(context, backup, context.env.cancel.child_token());
    paid(run_owed_hooks(&context.client.cluster, &operation).await)
}

fn paid(is_paid: bool) -> Result<(), StepError> {
    let owed = || StepError::Because("pods are owed hooks of this backup that could not be run yet".to_owned());
    if is_paid { Ok(()) } else { Err(owed()) }
}

/// Returns true if a backup has written no notes: those are of hooks and of native snapshots.
fn noted_nothing(backup: &Backup) -> bool {
    let status = &backup.status;
    status.hook_status.as_ref().is_none_or(|hooks| hooks.hooks_attempted == 0) && status.volume_snapshots_attempted == 0
}

/// Passes on the result of ending a backup. Where that failed because its Backup was deleted meanwhile, removes its
/// files: a record only when this run has put it.
async fn unless_gone(
    context: &Context,
    backup: &Backup,
    env: &lifeboat_backup::Env,
    has_put: bool,
    noted: StepResult,
) -> StepResult {
    match noted {
        Err(why) => match look_again(context, backup).await {
            Ok(Freshness::Gone) => forget(backup, env, has_put).await,
            _ => Err(why),
        },
        noted => noted,
    }
}

/// Removes the files of a backup whose object is gone: with a record they would bring it back.
async fn forget(backup: &Backup, env: &lifeboat_backup::Env, has_put: bool) -> StepResult {
    let name = &backup.metadata.name;
    tracing::info!(backup = name, "its Backup was deleted, so the backup ends and its files go");
    // Files without a record the sweep removes later. With one, the next sync makes the Backup anew.
    if let Err(why) = remove_with_snapshots(backup, env, has_put).await {
        tracing::warn!(
            backup = name,
            why,
            "the files of a deleted backup could not be removed: if it comes back by the next sync of its location, delete it \
             with `lifeboat backup delete`"
        );
    }
    Ok(vec![Effect::Gone(MirroredKind::Backup, ObjectIdentity::of(&backup.metadata))])
}

/// Removes the files of a backup, and before them the snapshots that they alone know when the backup has come to its end.
async fn remove_with_snapshots(backup: &Backup, env: &lifeboat_backup::Env, has_put: bool) -> Result<(), String> {
    let uid = &backup.metadata.uid;
    if has_put {
        let removing = Box::pin(run_delete_actions(backup, uid, env));
        let late = |_| format!("its snapshots were not deleted within {} s", REMOVING.as_secs());
        let removed = timeout(REMOVING, removing).await.map_err(late)?;
        removed.map_err(|errors| capped(errors).join("; "))?;
    } else if let Ok(Err(StoreError::NoBackup { .. })) =
        timeout(RECORDING, env.store.backup(&backup.metadata.name)).await
    {
        // With a record of an attempt before the backup comes back, and its snapshots are needed. The claim among the files, and the notes
        // beside it, are all by which the sweep finds them later.
        if !remove_snapshots(backup, env).await {
            return Err(
                "its snapshots could not all be removed: they are tried again by the sweep of its location".to_owned()
            );
        }
    }
    let swept = timeout(RECORDING, sweep_own(&env.store, backup, has_put)).await.map_err(|_| silent_for(RECORDING))?;
    swept.map_err(|e| e.to_string())
}

/// Ends a backup that was cancelled while no task worked on it.
pub(crate) async fn cancel(context: &Context, backup: Backup, target: BackupTarget) -> StepResult {
    if backup.status.phase != Some(BackupPhase::InProgress) {
        return note_failure(context, &backup, "cancelled on request before it began".to_owned()).await;
    }
    let reason = "cancelled on request after a server was cut off in it: nothing of it is kept".to_owned();
    Box::pin(give_up(context, &backup, target, reason)).await
}

/// Fails a backup that was begun and that no task works on. It has left a claim in the bucket, and gets its record; a
/// location that cannot be reached does not hold it back.
pub(crate) async fn give_up(context: &Context, backup: &Backup, target: BackupTarget, reason: String) -> StepResult {
    let store = match target {
        Ok(location) => context.store(&location).await,
        Err(why) => Err(why),
    };
    let cancel = context.env.cancel.child_token();
    let env = match store {
        Ok(store) => engine_env(context, backup, store, SnapshotLocations::All, cancel).await,
        Err(why) => Err(why),
    };
    let (ended, is_recorded) = match env {
        Ok(env) => {
            // What goes wrong is in the log that is stored.
            paid(run_owed_hooks(&env.cluster, &env.operation).await)?;
            let (is_recorded, noted) = Box::pin(record_and_note_failure(context, backup, reason, &env)).await;
            (unless_gone(context, backup, &env, is_recorded, noted).await, is_recorded)
        }
        Err(_) => (fail_unseen(context, backup, AGAIN, reason).await, false),
    };
    if ended.is_ok() {
        let operation = operation(context, backup, context.env.cancel.child_token());
        forget_notes(context, backup, &operation, is_recorded).await;
    }
    ended
}

/// The environment of the engine, with the snapshotters of these locations; otherwise the reason for which plugins
/// cannot be used.
pub(super) async fn engine_env(
    context: &Context,
    backup: &Backup,
    store: Store,
    locations: SnapshotLocations<'_>,
    cancel: CancellationToken,
) -> Result<lifeboat_backup::Env, String> {
    let mut operation = operation(context, backup, cancel);
    operation.records =
        noted_beside_claim(Arc::clone(&operation.records), &store, &backup.metadata.name, &operation.cancel);
    let actions = context.actions(&operation.journal, locations).await?;
    Ok(lifeboat_backup::Env { cluster: context.client.cluster.clone(), store, actions, operation })
}

pub(super) fn operation(context: &Context, backup: &Backup, cancel: CancellationToken) -> Operation {
    let clock = &context.env.clock.0;
    let subject = format!("backup={}/{}", backup.metadata.namespace, backup.metadata.name);
    let records = Arc::new(RecordMap::until_cancelled(context, backup, cancel.clone()));
    let operation = Operation::new(Arc::clone(clock), &subject, context.env.scratch.clone());
    Operation { records, cancel, shutdown: context.env.cancel.clone(), fence: fence(context), ..operation }
}
