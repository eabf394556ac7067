//! Carries out the steps of a plan.

use super::key::Key;
use super::step::{KeyedStep, ServerStep};
use crate::unreadable_step;
use crate::work::{self, Context, StepError, StepResult};
use crate::world::{MirroredKind, Unreadable};
use lifeboat_api::{Backup, BackupRepository, BackupStorageLocation, Restore, Schedule};
use lifeboat_lifecycle::phase::{backup, expiry, repository, request, restore, schedule};
use tokio_util::sync::CancellationToken;

/// Performs a step to its end, or until `stop`.
pub(super) async fn perform(context: &Context, work: KeyedStep, stop: CancellationToken) -> StepResult {
    let KeyedStep { key, step } = work;
    if let Some(why) = foreign(&key, &context.client.namespace) {
        return Err(StepError::Because(why));
    }
    match step {
        ServerStep::Unreadable(kind, object, step, location) => {
            of_unreadable(context, kind, &object, step, location.as_ref()).await
        }
        ServerStep::Mark { location, default } => work::location::mark_default(context, location, default).await,
        ServerStep::Validate(location, known) => work::location::validate(context, location, known).await,
        ServerStep::Sync(location, known) => work::sync::sync(context, location, known).await,
        ServerStep::Sweep(left) => work::sweep::sweep(context, left).await,
        ServerStep::Queue(backup, to) => work::backup::queue(context, *backup, to).await,
        ServerStep::Backup(backup, target, step) => Box::pin(of_backup(context, *backup, *target, step, stop)).await,
        ServerStep::Restore(restore, source, step) => {
            Box::pin(of_restore(context, *restore, *source, step, stop)).await
        }
        ServerStep::Delete(request, target, request::Step::Answer) => {
            work::deletion::delete(context, request, *target).await
        }
        ServerStep::Delete(request, _, request::Step::Forget) => work::deletion::delete_request(context, request).await,
        ServerStep::Download(request, target, request::Step::Answer) => {
            work::download::answer(context, request, target).await
        }
        ServerStep::Download(request, _, request::Step::Forget) => work::download::expire(context, request).await,
        ServerStep::Status(request, request::Step::Answer) => work::status::answer(context, request).await,
        ServerStep::Status(request, request::Step::Forget) => work::status::expire(context, request).await,
        ServerStep::Schedule(schedule, step) => of_schedule(context, &schedule, step).await,
        ServerStep::Expire(backup, location, step) => of_expiry(context, &backup, location.as_deref(), step).await,
        ServerStep::Repository(repository, location, step) => {
            Box::pin(of_repository(context, &repository, location.as_deref(), step)).await
        }
        ServerStep::Maintain(repository, location) => {
            Box::pin(work::repository::maintenance::maintain(context, &repository, &location, stop)).await
        }
    }
}

/// Returns the reason for which nothing may be done for an object of another namespace: the client writes into its own
/// namespace, in which another object may have the same name.
fn foreign(key: &Key, namespace: &str) -> Option<String> {
    let object = key.object();
    let (kind, key) = object.object();
    (key.namespace != namespace).then(|| {
        format!("{} {key} is not of the namespace {namespace}, which is all that this server serves", kind.word())
    })
}

async fn of_unreadable(
    context: &Context,
    kind: MirroredKind,
    object: &Unreadable,
    step: unreadable_step::Step,
    location: Option<&BackupStorageLocation>,
) -> StepResult {
    match kind {
        MirroredKind::Backup => work::unreadable::end::<Backup>(context, object, step, location).await,
        MirroredKind::Restore => work::unreadable::end::<Restore>(context, object, step, location).await,
        MirroredKind::BackupStorageLocation => {
            work::unreadable::end::<BackupStorageLocation>(context, object, step, location).await
        }
        MirroredKind::Schedule => work::unreadable::end::<Schedule>(context, object, step, location).await,
        // With the others nothing is done.
        _ => Ok(Vec::new()),
    }
}

async fn of_expiry(
    context: &Context,
    backup: &Backup,
    location: Option<&BackupStorageLocation>,
    step: expiry::Step,
) -> StepResult {
    match step {
        expiry::Step::LabelFailure(obstacle) => work::expiry::label_failure(context, backup, &obstacle).await,
        expiry::Step::Delete => work::expiry::delete(context, backup, location).await,
        expiry::Step::Prolong { until, by, note } => {
            let change = work::keep::KeepChange { until: Some(until), note: note.map(|note| *note) };
            work::keep::prolong(context, backup, location, &by, change).await
        }
        expiry::Step::Record { note } => {
            let change = work::keep::KeepChange { until: None, note: note.map(|note| *note) };
            work::keep::record(context, backup, location, change).await
        }
    }
}

async fn of_repository(
    context: &Context,
    repository: &BackupRepository,
    location: Option<&BackupStorageLocation>,
    step: repository::Step,
) -> StepResult {
    match (step, location) {
        (repository::Step::Prepare, Some(location)) => work::repository::prepare(context, repository, location).await,
        (repository::Step::NotePlace, Some(location)) => work::repository::note(context, repository, location).await,
        (repository::Step::Reestablish, _) => work::repository::reestablish(context, repository).await,
        // Without a location neither of them is planned.
        (_, None) => Ok(Vec::new()),
    }
}

async fn of_schedule(context: &Context, before: &Schedule, step: schedule::Step) -> StepResult {
    match step {
        schedule::Step::Note(after) => work::schedule::note(context, before, &after).await,
        schedule::Step::Run(run) => work::schedule::run(context, before, run).await,
        // It waits: nothing is done.
        schedule::Step::Postpone { .. } => Ok(Vec::new()),
    }
}

async fn of_backup(
    context: &Context,
    backup: Backup,
    target: work::backup::BackupTarget,
    step: backup::Step,
    stop: CancellationToken,
) -> StepResult {
    use backup::Step as S;
    match step {
        S::Run => work::backup::run(context, backup, target, stop).await,
        S::RunAgain { attempt } => Box::pin(work::backup::run_again(context, backup, target, attempt, stop)).await,
        S::Cancel => Box::pin(work::backup::cancel(context, backup, target)).await,
        S::Fail(reason) => Box::pin(work::backup::give_up(context, &backup, target, reason)).await,
        S::FailVeleros(reason) => {
            // The attempt that was cut off may have been one of ours.
            work::backup::thaw(context, &backup).await?;
            work::leftover::stop_backup(context, &backup).await?;
            work::backup::fail_unseen(context, &backup, work::backup::AGAIN, reason).await
        }
        S::LookAfter | S::CancelOperations => work::pending::backup::look_after(context, backup, target).await,
        S::Finalize => Box::pin(work::pending::backup::end(context, backup, target)).await,
    }
}

async fn of_restore(
    context: &Context,
    restore: Restore,
    source: work::restore::RestoreSource,
    step: restore::Step,
    stop: CancellationToken,
) -> StepResult {
    use restore::Step as S;
    let work::restore::RestoreSource { origin, place } = source;
    match step {
        S::CleanUp => work::restore::clean_up(context, restore, place).await,
        S::AddFinalizer => work::restore::add_finalizer(context, restore).await,
        S::RemoveFinalizer => work::restore::remove_finalizer(context, restore).await,
        S::Run => Box::pin(work::restore::run(context, restore, origin, stop)).await,
        S::RunAgain { attempt } => work::restore::run_again(context, restore, origin, attempt, stop).await,
        S::Fail(reason) => Box::pin(work::restore::give_up(context, restore, place, reason)).await,
        S::FailVeleros(reason) => {
            work::leftover::stop_restore(context, &restore).await?;
            work::restore::note_failure(context, &restore, reason).await
        }
        S::LookAfter | S::CancelOperations => work::pending::restore::look_after(context, restore, place).await,
        S::Finalize => Box::pin(work::pending::restore::end(context, restore, place)).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::named;
    use lifeboat_api::NamespacedName;

    #[test]
    fn nothing_is_done_for_an_object_of_another_namespace() {
        let object = |namespace: &str| NamespacedName { namespace: namespace.into(), ..named("x") };
        for (key, expected) in [
            (Key::Restore(object("velero")), None),
            (
                Key::Restore(object("other")),
                Some("Restore other/x is not of the namespace velero, which is all that this server serves"),
            ),
            (
                Key::Deletion { backup: object("other"), request: object("other") },
                Some(
                    "DeleteBackupRequest other/x is not of the namespace velero, which is all that this server serves",
                ),
            ),
        ] {
            assert_eq!(foreign(&key, "velero").as_deref(), expected, "{key:?}");
        }
    }
}
