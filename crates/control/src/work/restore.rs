//! Runs a restore, and removes its files from the bucket (velero: pkg/controller/restore_controller.go,
//! pkg/controller/restore_finalizer_controller.go).

use super::running::{
    Attempt, fence, leave_to_next_server, not_taken, recorded, shortened, store_refusal, until_written, watched,
};
use super::{Context, Effect, SnapshotLocations, StepError, StepResult};
use crate::records::RecordMap;
use crate::world::{Meta, MirroredKind, World};
use jiff::Timestamp;
use lifeboat_api::{
    Backup, BackupStorageLocation, BackupStorageLocationPhase, NamespacedName, NoneOfSchedule, Restore, RestorePhase,
    RestoreStatus, SourceCluster, Time, choose_of_schedule,
};
use lifeboat_client::ObjectIdentity;
use lifeboat_client::is_refused;
use lifeboat_lifecycle::phase::MOST_ATTEMPTS;
use lifeboat_lifecycle::phase::restore::{FINALIZER, has_files};
use lifeboat_operation::Operation;
use lifeboat_restore::{
    BrokenOff, Outcome, Request, RestoreError, check_source, owner_of_files, prepared, record_failure,
};
use lifeboat_store::{RestoreFiles, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The backup that a restore names, and where that lies.
pub(crate) type LocatedBackup = (Backup, BackupStorageLocation);

/// The facts from the cluster that a step of a restore needs.
#[derive(Debug)]
pub(crate) struct RestoreSource {
    /// The source of the restore, or the errors in it; no errors in a step that does not run it.
    pub(crate) origin: Result<Origin, Vec<String>>,
    pub(crate) place: Option<LocatedBackup>,
}

/// The backup that a restore is made from, and its location.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    backup: Backup,
    location: BackupStorageLocation,
}

impl Origin {
    /// The backup that a restore names, or the newest complete one of the schedule that it names; otherwise what is
    /// wrong, in Velero's words (velero: pkg/controller/restore_controller.go). Whether its location can be used was
    /// asked when it began, if it did.
    pub(crate) fn of(restore: &Restore, world: &World) -> Result<Self, Vec<String>> {
        let spec = &restore.spec;
        let backup = if spec.backup_name.is_empty() {
            newest(restore, world)?
        } else {
            named(&restore.beside(&spec.backup_name), world)?
        };
        let name = &backup.spec.storage_location;
        let Some(location) = world.locations.get(&restore.beside(name)) else {
            return Err(vec![format!(
                "Error retrieving backup: backupstoragelocations.velero.io \"{name}\" not found"
            )]);
        };
        let has_begun = restore.status.phase == Some(RestorePhase::InProgress);
        if !has_begun && location.status.phase != Some(BackupStorageLocationPhase::Available) {
            return Err(vec![format!("The BSL {name} is unavailable, cannot retrieve the backup")]);
        }
        check_source(backup).map_err(|errors| errors.0)?;
        Ok(Self { backup: backup.clone(), location: location.clone() })
    }

    pub(crate) fn backup_name(&self) -> &str {
        &self.backup.metadata.name
    }
}

fn has_one_source(restore: &Restore) -> bool {
    restore.spec.backup_name.is_empty() != restore.spec.schedule_name.is_empty()
}

fn named<'a>(key: &NamespacedName, world: &'a World) -> Result<&'a Backup, Vec<String>> {
    world.backups.get(key).ok_or_else(|| {
        let name = &key.name;
        vec![format!("Error retrieving backup: can't find backup {key}: backups.velero.io \"{name}\" not found")]
    })
}

fn newest<'a>(restore: &Restore, world: &'a World) -> Result<&'a Backup, Vec<String>> {
    let schedule = &restore.spec.schedule_name;
    let from = SourceCluster::of(restore);
    let admits = |backup: &Backup| from.admits(backup, &world.cluster);
    choose_of_schedule(world.backups.beside(restore), schedule, false, admits).map_err(|none| {
        if let NoneOfSchedule::Admitted(why) = none {
            return vec![why];
        }
        let label = lifeboat_api::label_value(schedule);
        let is_of_schedule = |b: &Backup| b.schedule_label() == Some(&*label);
        let none = !world.backups.beside(restore).any(is_of_schedule);
        let none = none.then(|| "No backups found for schedule".to_owned());
        none.into_iter().chain(["No completed backups found for schedule".to_owned()]).collect()
    })
}

/// Puts the finalizer on a restore.
pub(crate) async fn add_finalizer(context: &Context, restore: Restore) -> StepResult {
    let mut after = restore.clone();
    after.metadata.finalizers.push(FINALIZER.to_owned());
    store_change(context, &restore, &after).await
}

/// Takes the finalizer off a restore that has no files.
pub(crate) async fn remove_finalizer(context: &Context, restore: Restore) -> StepResult {
    store_change(context, &restore, &without_finalizer(&restore)).await
}

fn without_finalizer(restore: &Restore) -> Restore {
    let mut after = restore.clone();
    after.metadata.finalizers.retain(|finalizer| finalizer != FINALIZER);
    after
}

/// Removes the files of a restore, then lets it go. The files stay when its backup or location is gone, which is
/// logged.
pub(crate) async fn clean_up(context: &Context, restore: Restore, origin: Option<LocatedBackup>) -> StepResult {
    let name = &restore.metadata.name;
    match origin {
        Some((_, location)) if has_files(&restore) => {
            delete_files(context, &ObjectIdentity::of(&restore.metadata), &location).await?;
        }
        None if has_files(&restore) => tracing::warn!(
            restore = name,
            backup = restore.spec.backup_name,
            "its files stay in the bucket, below restores/{name}/: its backup is gone, or the location of that, so it is not known which bucket it is"
        ),
        _ => {}
    }
    context.client.change(&restore, &without_finalizer(&restore)).await?;
    Ok(vec![Effect::Gone(MirroredKind::Restore, ObjectIdentity::of(&restore.metadata))])
}

/// Deletes the files of a restore that is to go.
pub(super) async fn delete_files(
    context: &Context,
    restore: &ObjectIdentity,
    location: &BackupStorageLocation,
) -> Result<(), StepError> {
    let name = &restore.key.name;
    if location.status.phase != Some(BackupStorageLocationPhase::Available) {
        let place = &location.metadata.name;
        return Err(StepError::Because(format!("restore {name} cannot go: its location {place} is unavailable")));
    }
    let store = context.store(location).await.map_err(StepError::Because)?;
    delete_own_files(context, restore, &store).await
}

/// Deletes the files of a restore that is to go, as far as they are its own.
pub(super) async fn delete_own_files(
    context: &Context,
    restore: &ObjectIdentity,
    store: &Store,
) -> Result<(), StepError> {
    // A server whose clock is ahead would remove originals that were promised for longer.
    let now = context.earliest_now().await?;
    let mut known = Restore::default();
    known.metadata.name.clone_from(&restore.key.name);
    known.metadata.namespace.clone_from(&restore.key.namespace);
    known.metadata.uid.clone_from(&restore.uid);
    let owner = owner_of_files(&known, &context.options.restore, context.cluster_uid().await?, now);
    let deleted = store.delete_restore(&owner, now).await.map_err(|e| StepError::Because(e.to_string()))?;
    let (restore, place) = (&owner.name, store.describe());
    match deleted {
        RestoreFiles::Gone => {}
        RestoreFiles::OriginalsStay(until) => {
            tracing::info!(restore, place, %until, "objects as they were before a restore that is gone stay until then");
        }
        RestoreFiles::OfAnother => {
            tracing::info!(
                restore,
                place,
                "the files under the name of a restore that is gone are another's, and stay"
            );
        }
    }
    Ok(())
}

/// Validates and runs a restore to its end, or until `stop`.
pub(crate) async fn run(
    context: &Context,
    restore: Restore,
    origin: Result<Origin, Vec<String>>,
    stop: CancellationToken,
) -> StepResult {
    context.metrics.restore_begins(&restore);
    let request = Request { restore, settings: context.options.restore.clone() };
    let (mut started, mut errors) = prepared(&request);
    let origin = match origin {
        // That it names no source, or two, stands among the errors already.
        Err(_) if !has_one_source(&request.restore) => None,
        Err(wrong) => {
            errors.extend(wrong);
            None
        }
        Ok(origin) => Some(origin),
    };
    if let Some(origin) = &origin {
        started.spec.backup_name.clone_from(&origin.backup.metadata.name);
        if let Some(schedule) = origin.backup.schedule_label() {
            schedule.clone_into(&mut started.spec.schedule_name);
        }
    }
    let Some(origin) = origin.filter(|_| errors.is_empty()) else {
        return note_refusal(context, &request.restore, started, errors).await;
    };
    started.status.phase = Some(RestorePhase::InProgress);
    started.status.start_timestamp.get_or_insert(Time::new(context.env.now()));
    Box::pin(begin(context, request, Attempt::of(1, started), origin, stop)).await
}

/// Runs a restore again after a server was cut off in it. It was valid then, and fails if something is missing now.
pub(crate) async fn run_again(
    context: &Context,
    restore: Restore,
    origin: Result<Origin, Vec<String>>,
    attempt: u32,
    stop: CancellationToken,
) -> StepResult {
    match origin {
        Ok(origin) => {
            let attempt = Attempt::of(attempt, restore.clone());
            let request = Request { restore, settings: context.options.restore.clone() };
            Box::pin(begin(context, request, attempt, origin, stop)).await
        }
        Err(wrong) => note_failure(context, &restore, wrong.join("; ")).await,
    }
}

/// Notes the attempt, and runs the engine.
async fn begin(
    context: &Context,
    mut request: Request,
    Attempt { number: attempt, started }: Attempt<Restore>,
    origin: Origin,
    stop: CancellationToken,
) -> StepResult {
    let has_begun = request.restore.status.phase == Some(RestorePhase::InProgress);
    let mut current = match context.client.change(&request.restore, &started).await {
        Err(e) if is_refused(&e) && attempt == 1 => {
            let after = request.restore.clone();
            return note_refusal(context, &request.restore, after, vec![not_taken(&e)]).await;
        }
        Err(e) if is_refused(&e) => return note_failure(context, &request.restore, not_taken(&e)).await,
        noted => noted?,
    };
    tracing::info!(restore = current.metadata.name, attempt, "restore begins");
    let env = match context.store(&origin.location).await {
        Ok(store) => engine_env(context, &current, store, stop).await,
        Err(why) => Err(format!("error getting backup store: {why}")),
    };
    let env = match env {
        Ok(env) => env,
        Err(why) => {
            // An earlier attempt has done something, and a bucket that was away may be so still.
            if has_begun && has_more(attempt) {
                return Err(leave_for_next_attempt(context, &current, &why));
            }
            return note_failure(context, &current, why).await;
        }
    };
    request.restore = current.clone();
    // The backup may name its location otherwise: that of another cluster.
    request.settings.movers.location.clone_from(&origin.location.metadata.name);
    // The schedule was filled in from the backup; the engine takes one source.
    request.restore.spec.schedule_name.clear();
    let running = lifeboat_restore::run(&request, &env);
    let outcome = watched(context, &mut current, running, &env.operation.progress, &env.operation.cancel).await;
    if context.leadership.check().is_err() || context.env.cancel.is_cancelled() {
        return Err(leave_to_next_server(context, &current).await);
    }
    let effects = match outcome {
        Ok(Outcome { broken_off: Some(why), .. }) if goes_on(why.can_pass(), attempt) => {
            return Err(leave_for_next_attempt(context, &current, &why.to_string()));
        }
        Ok(mut outcome) => {
            if outcome.broken_off.as_ref().is_some_and(BrokenOff::can_pass) {
                let status = &mut outcome.restore.status;
                status.failure_reason = shortened(given_up(&status.failure_reason));
            }
            note_outcome(context, current.clone(), &outcome).await?
        }
        Err(RestoreError::Invalid(errors)) if attempt == 1 => {
            let after = current.clone();
            note_refusal(context, &current, after, errors.0).await?
        }
        Err(why @ RestoreError::Store(StoreError::RestoreNameTaken { .. })) if attempt == 1 => {
            let after = current.clone();
            note_refusal(context, &current, after, vec![why.to_string()]).await?
        }
        // An earlier attempt has done something.
        Err(why) if has_begun && goes_on(why.can_pass(), attempt) => {
            return Err(leave_for_next_attempt(context, &current, &why.to_string()));
        }
        Err(why) if why.can_pass() => {
            record_and_note_failure(context, &current, given_up(&why.to_string()), &env).await?
        }
        Err(e) => record_and_note_failure(context, &current, e.to_string(), &env).await?,
    };
    RecordMap::until_cancelled(context, &current, env.operation.cancel.clone()).forget().await;
    Ok(effects)
}

/// Returns true if a restore that broke off in this attempt goes on in another one. `can_pass`: the reason may pass by
/// itself.
fn goes_on(can_pass: bool, attempt: u32) -> bool {
    can_pass && has_more(attempt)
}

/// Adds to the reason of a failure that may pass that the restore has no further attempt. The user cannot run the same
/// Restore again.
fn given_up(why: &str) -> String {
    format!("{why}; make another Restore of this backup: what is there is left alone")
}

/// Returns true if there is another attempt after this one.
fn has_more(attempt: u32) -> bool {
    attempt < MOST_ATTEMPTS
}

/// Leaves a restore that broke off in progress: after a pause the next attempt goes on from its checkpoint.
fn leave_for_next_attempt(context: &Context, restore: &Restore, why: &str) -> StepError {
    let pause = pause(context.env.cluster.patience());
    let restore = &restore.metadata.name;
    tracing::warn!(restore, why, "restore broke off, and goes on in another attempt in {pause:?}");
    StepError::NotYet(pause)
}

/// Longest pause between two attempts at a restore that broke off.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The pause between an attempt at a restore that broke off and the next one: a third of the time that an attempt waits
/// for the bucket, so that the attempts are not used up by one outage. That is a minute unless the time limit of
/// requests is shorter than usual.
fn pause(patience: Duration) -> Duration {
    (patience / 3).min(LONGEST_PAUSE)
}

/// The environment of the engine; otherwise the reason for which plugins cannot be used.
pub(super) async fn engine_env(
    context: &Context,
    restore: &Restore,
    store: Store,
    cancel: CancellationToken,
) -> Result<lifeboat_restore::Env, String> {
    let clock = &context.env.clock.0;
    let subject = format!("restore={}/{}", restore.metadata.namespace, restore.metadata.name);
    let records = Arc::new(RecordMap::until_cancelled(context, restore, cancel.clone()));
    let operation = Operation::new(Arc::clone(clock), &subject, context.env.scratch.clone());
    let operation = Operation { records, cancel, fence: fence(context), ..operation };
    let actions = context.actions(&operation.journal, SnapshotLocations::All).await?;
    Ok(lifeboat_restore::Env { cluster: context.client.cluster.clone(), store, actions, operation })
}

/// Brings the outcome into the object: over the finalizing phase to the last one.
async fn note_outcome(context: &Context, current: Restore, outcome: &Outcome) -> StepResult {
    for why in &outcome.unstored {
        tracing::error!(restore = current.metadata.name, "{why}");
    }
    if outcome.is_pending() {
        let pending = until_written(context, &current, |after| take_status(after, outcome)).await?;
        tracing::info!(restore = pending.metadata.name, phase = pending.phase(), "restore waits for its operations");
        return Ok(vec![Effect::stored(pending)]);
    }
    let last = outcome.restore.status.phase;
    let mut known = current;
    if let Some(RestorePhase::Completed | RestorePhase::PartiallyFailed) = last {
        known = until_written(context, &known, |after| {
            take_status(after, outcome);
            after.status.phase = Some(match last {
                Some(RestorePhase::Completed) => RestorePhase::Finalizing,
                _ => RestorePhase::FinalizingPartiallyFailed,
            });
            after.status.completion_timestamp = None;
        })
        .await?;
    }
    let ended = until_written(context, &known, |after| take_status(after, outcome)).await?;
    tracing::info!(restore = ended.metadata.name, phase = ended.phase(), "restore ends");
    context.metrics.restore_ends(&ended);
    Ok(vec![Effect::stored(ended)])
}

/// The engine's status, with the time at which the first attempt began.
fn take_status(restore: &mut Restore, outcome: &Outcome) {
    let begun = restore.status.start_timestamp;
    replace_status(restore, &outcome.restore.status);
    restore.status.start_timestamp = begun;
}

/// Replaces the status, except for unknown fields, which belong to the client that wrote them.
fn replace_status(restore: &mut Restore, status: &RestoreStatus) {
    let other = std::mem::take(&mut restore.status.other);
    restore.status = RestoreStatus { other, ..status.clone() };
}

/// Fails a restore that was begun and that no task works on, and stores its log where that can be done.
pub(crate) async fn give_up(
    context: &Context,
    restore: Restore,
    place: Option<LocatedBackup>,
    reason: String,
) -> StepResult {
    let store = match place {
        Some((_, location)) if restore.status.phase == Some(RestorePhase::InProgress) => {
            context.store(&location).await.ok()
        }
        _ => None,
    };
    let Some(store) = store else { return note_failure(context, &restore, reason).await };
    let Ok(env) = engine_env(context, &restore, store, context.env.cancel.child_token()).await else {
        return note_failure(context, &restore, reason).await;
    };
    let noted = record_and_note_failure(context, &restore, reason, &env).await?;
    RecordMap::new(context, &restore).forget().await;
    Ok(noted)
}

/// Notes that a restore has failed; there is nothing to go on with then.
pub(crate) async fn note_failure(context: &Context, restore: &Restore, reason: String) -> StepResult {
    let mut outcome = restore.clone();
    mark_failed(&mut outcome, reason, context.env.now());
    let noted = store_failure(context, restore, &outcome).await?;
    RecordMap::new(context, restore).forget().await;
    Ok(noted)
}

/// Stores log and record of a restore that broke off, then notes its failure.
async fn record_and_note_failure(
    context: &Context,
    restore: &Restore,
    reason: String,
    env: &lifeboat_restore::Env,
) -> StepResult {
    let mut outcome = restore.clone();
    mark_failed(&mut outcome, reason, context.env.now());
    let recording = record_failure(outcome.clone(), &context.options.restore, env);
    let stored = recorded(restore.spec.cancel, &env.operation.cancel, recording).await;
    match stored.and_then(|stored| stored.map_err(|e| e.to_string())) {
        Ok(recorded) => outcome = recorded,
        Err(why) => tracing::warn!(restore = restore.metadata.name, why, "the log of a failed restore is not stored"),
    }
    store_failure(context, restore, &outcome).await
}

fn mark_failed(restore: &mut Restore, reason: String, now: Timestamp) {
    restore.status.phase = Some(RestorePhase::Failed);
    restore.status.failure_reason = shortened(reason);
    restore.status.completion_timestamp = Some(Time::new(now));
}

async fn store_failure(context: &Context, restore: &Restore, outcome: &Restore) -> StepResult {
    tracing::error!(restore = restore.metadata.name, reason = outcome.status.failure_reason, "restore failed");
    let ended = until_written(context, restore, |after| replace_status(after, &outcome.status)).await?;
    context.metrics.restore_ends(&ended);
    Ok(vec![Effect::stored(ended)])
}

async fn note_refusal(context: &Context, before: &Restore, after: Restore, errors: Vec<String>) -> StepResult {
    tracing::error!(restore = before.metadata.name, errors = errors.join("; "), "restore is not valid");
    let refused = store_refusal(context, before, after, errors, |restore, errors| {
        restore.status.phase = Some(RestorePhase::FailedValidation);
        restore.status.validation_errors = errors;
        restore.status.start_timestamp = None;
    });
    let refused = Box::pin(refused).await?;
    context.metrics.restore_ends(&refused);
    Ok(vec![Effect::stored(refused)])
}

pub(super) async fn store_change(context: &Context, before: &Restore, after: &Restore) -> StepResult {
    let stored = context.client.change(before, after).await?;
    Ok(vec![Effect::stored(stored)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupPhase;
    use lifeboat_api::well_known;

    #[test]
    fn the_attempts_at_a_restore_that_broke_off_are_a_minute_apart() {
        for (patience, expected) in [(180, 60), (3600, 60), (9, 3), (0, 0)] {
            assert_eq!(pause(Duration::from_secs(patience)), Duration::from_secs(expected), "{patience} s");
        }
    }

    #[test]
    fn a_restore_whose_bucket_is_away_has_three_attempts() {
        assert_eq!([1, 2, 3, 4].map(has_more), [true, true, false, false]);
        let lost = StoreError::NoBackup { name: "b".into(), place: "the bucket".into(), key: "backups/b".into() };
        assert!(!goes_on(lost.can_pass(), 1), "it is gone for good");
    }

    fn world(backups: &[(&str, &str, BackupPhase, Option<&str>)]) -> World {
        let mut world = World::default();
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "default".to_owned();
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        world.put(location.into());
        for (name, schedule, phase, started) in backups {
            let mut backup = Backup::default();
            backup.metadata.name = (*name).to_owned();
            let label = lifeboat_api::label_value(schedule);
            backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.to_owned(), label);
            backup.spec.storage_location = "default".to_owned();
            backup.status.phase = Some(*phase);
            backup.status.start_timestamp = started.map(|time| Time::new(time.parse().unwrap()));
            world.put(backup.into());
        }
        world
    }

    #[test]
    fn a_restore_from_a_schedule_takes_another_clusters_backup_only_if_asked() {
        let mut world = world(&[("own", "daily", BackupPhase::Completed, Some("2026-01-01T00:00:00Z"))]);
        let mut other = world.backups.iter().next().unwrap().clone();
        other.metadata.name = "newer".to_owned();
        other.status.start_timestamp = Some(Time::new("2026-01-02T00:00:00Z".parse().unwrap()));
        let note = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        other.metadata.annotations = [
            note(well_known::ANNOTATION_TAKEN_OVER, well_known::TAKEN_OVER_OTHER),
            note(well_known::ANNOTATION_SOURCE_CLUSTER, "that"),
        ]
        .into();
        world.put(other.into());
        let chosen = |world: &World, from: Option<&str>| {
            let mut restore = Restore::default();
            restore.spec.schedule_name = "daily".to_owned();
            let asked = from.map(|from| note(well_known::ANNOTATION_SOURCE_CLUSTER, from));
            restore.metadata.annotations = asked.into_iter().collect();
            Origin::of(&restore, world).map(|origin| origin.backup_name().to_owned())
        };
        let found = |name: &str| Ok(name.to_owned());
        assert_eq!(
            [None, Some("any"), Some("that")].map(|from| chosen(&world, from)),
            ["own", "newer", "newer"].map(found)
        );
        let own = ObjectIdentity::of(&world.backups.iter().find(|b| b.metadata.name == "own").unwrap().metadata);
        world.remove(MirroredKind::Backup, &own);
        let refused = chosen(&world, None).unwrap_err();
        assert!(refused[0].contains("--source-cluster that takes one of those alone"), "{refused:?}");
    }

    #[test]
    fn a_restore_from_a_schedule_takes_its_newest_completed_backup() {
        use BackupPhase::{Completed, Failed, PartiallyFailed};
        let (one, two, three) =
            (Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z"), Some("2026-01-03T00:00:00Z"));
        let long = "d".repeat(80);
        let none_complete = || Err(vec!["No completed backups found for schedule".to_owned()]);
        let found = |name: &str| Ok(name.to_owned());
        for (backups, schedule, expected) in [
            (vec![("z", "daily", Completed, one), ("a", "daily", Completed, two)], "daily", found("a")),
            (vec![("a", "daily", Completed, one), ("b", "daily", PartiallyFailed, two)], "daily", found("a")),
            (vec![("a", "daily", Completed, one), ("b", "daily", Failed, two)], "daily", found("a")),
            (vec![("a", "daily", Completed, one), ("b", "weekly", Completed, three)], "daily", found("a")),
            // One that does not say when it began is the oldest.
            (vec![("z", "daily", Completed, None), ("a", "daily", Completed, one)], "daily", found("a")),
            (vec![("a", "daily", PartiallyFailed, one)], "daily", none_complete()),
            (vec![("a", &*long, Completed, one)], &*long, found("a")),
            (
                vec![("a", "weekly", Completed, one)],
                "daily",
                Err(vec![
                    "No backups found for schedule".to_owned(),
                    "No completed backups found for schedule".to_owned(),
                ]),
            ),
        ] {
            let mut restore = Restore::default();
            restore.spec.schedule_name = schedule.to_owned();
            let origin = Origin::of(&restore, &world(&backups)).map(|origin| origin.backup_name().to_owned());
            assert_eq!(origin, expected, "{backups:?}");
        }
    }
}
