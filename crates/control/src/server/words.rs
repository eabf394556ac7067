//! Steps and reasons in words, for people.

use super::key::Key;
use super::step::ServerStep;
use super::wait::Reason;
use crate::unreadable_step;
use crate::work;
use jiff::{SignedDuration, Timestamp, Unit};
use lifeboat_api::{Schedule, SchedulePhase};
use lifeboat_lifecycle::phase::expiry;
use lifeboat_lifecycle::phase::keep::describe;
use lifeboat_lifecycle::phase::queue::{Blocked, QueueMove};
use lifeboat_lifecycle::phase::schedule::{postponed, run_name};
use lifeboat_lifecycle::phase::{self, repository, request};
use tokio::time::Instant;

/// The most names that are told one by one.
const MOST_NAMES: usize = 3;

/// The effect of a sync on the Backups of a location.
const SYNC: &str = "its Backups are brought in line with its bucket";

/// Describes the effect of a step on its object.
pub(super) fn does(step: &ServerStep) -> String {
    match step {
        ServerStep::Unreadable(_, object, unreadable_step::Step::Refuse, _) => {
            refused(&[format!("it cannot be read: {}", object.why)])
        }
        ServerStep::Unreadable(_, object, unreadable_step::Step::Fail, _) => {
            format!("fails: it cannot be read: {}", object.why)
        }
        ServerStep::Unreadable(_, _, unreadable_step::Step::CleanUp, _) => {
            "its files are deleted, then it goes".to_owned()
        }
        ServerStep::Mark { default: true, .. } => "is marked as the default".to_owned(),
        ServerStep::Mark { default: false, .. } => "is the default no more: there is a newer one".to_owned(),
        ServerStep::Validate(_, None) => "is validated".to_owned(),
        ServerStep::Validate(_, Some(_)) => format!("is validated, and {SYNC}"),
        ServerStep::Sync(..) => SYNC.to_owned(),
        ServerStep::Sweep(left) => format!("what it left in location {} is removed", left.location.metadata.name),
        ServerStep::Queue(_, QueueMove::Queue(position)) => format!("goes into the queue, to position {position}"),
        ServerStep::Queue(_, QueueMove::Renumber(position)) => format!("is number {position} in the queue from now on"),
        ServerStep::Queue(_, QueueMove::Start) => "leaves the queue, to run".to_owned(),
        ServerStep::Backup(_, target, step) => of_backup(step, target),
        ServerStep::Restore(_, source, step) => of_restore(step, source),
        ServerStep::Delete(request, target, request::Step::Answer) => match target.refusal(request) {
            Some(why) => refused(&[why]),
            None => format!("backup {} is deleted", request.spec.backup_name),
        },
        ServerStep::Download(_, work::download::RequestedFile::Nothing(why), request::Step::Answer) => {
            refused(std::slice::from_ref(why))
        }
        ServerStep::Download(_, _, request::Step::Answer) | ServerStep::Status(_, request::Step::Answer) => {
            "is answered".to_owned()
        }
        ServerStep::Delete(request, _, request::Step::Forget) if request::is_of_expiry(request) => {
            "is withdrawn: something keeps the backup, or its time is not over".to_owned()
        }
        ServerStep::Delete(_, _, request::Step::Forget)
        | ServerStep::Download(_, _, request::Step::Forget)
        | ServerStep::Status(_, request::Step::Forget) => "is deleted: its time is over".to_owned(),
        ServerStep::Schedule(schedule, step) => of_schedule(schedule, step),
        ServerStep::Repository(_, _, repository::Step::Prepare) => {
            "is made where it is missing, and opened; then it is ready".to_owned()
        }
        ServerStep::Repository(_, None, repository::Step::Reestablish) => {
            "is not ready any more: its location is gone".to_owned()
        }
        ServerStep::Repository(_, Some(_), repository::Step::Reestablish) => {
            "is not ready any more: its location names another place".to_owned()
        }
        ServerStep::Repository(_, _, repository::Step::NotePlace) => "gets a note of where it lies".to_owned(),
        ServerStep::Maintain(..) => "is maintained, by a Job where the server runs in a pod".to_owned(),
        ServerStep::Expire(_, _, expiry::Step::LabelFailure(obstacle)) => {
            format!("its label says that it stays though its time is over: {obstacle}")
        }
        ServerStep::Expire(_, _, expiry::Step::Delete) => "its deletion is asked for: its time is over".to_owned(),
        ServerStep::Expire(_, _, expiry::Step::Prolong { until, by, .. }) => {
            format!("its expiration is moved to {until}: it is {}", describe(by))
        }
        ServerStep::Expire(_, _, expiry::Step::Record { .. }) => {
            "its record in the bucket is made to agree on what keeps it".to_owned()
        }
    }
}

fn refused(why: &[String]) -> String {
    format!("is refused: {}", why.join("; "))
}

fn of_backup(step: &phase::backup::Step, target: &work::backup::BackupTarget) -> String {
    use phase::backup::Step as S;
    match step {
        S::Run => match target {
            Ok(location) => match phase::location::refusal(location) {
                Some(why) => refused(&[why]),
                None => format!("is validated, and runs into location {}", location.metadata.name),
            },
            Err(why) => refused(std::slice::from_ref(why)),
        },
        S::RunAgain { attempt } => again(*attempt),
        S::Fail(why) | S::FailVeleros(why) => format!("fails: {why}"),
        S::Cancel => "fails: it was cancelled".to_owned(),
        S::LookAfter => "its operations are asked how far they are".to_owned(),
        S::CancelOperations => "its operations are ended: it was cancelled".to_owned(),
        S::Finalize => "is finalized: none of its operations goes on".to_owned(),
    }
}

fn of_restore(step: &phase::restore::Step, source: &work::restore::RestoreSource) -> String {
    use phase::restore::Step as S;
    match step {
        S::CleanUp => "its files are deleted, then it goes".to_owned(),
        S::AddFinalizer => "gets the finalizer that keeps it until its files are deleted".to_owned(),
        S::RemoveFinalizer => "loses the finalizer: it has no files that were to be deleted".to_owned(),
        S::Run => match &source.origin {
            Ok(origin) => format!("is validated, and runs from backup {}", origin.backup_name()),
            Err(why) => refused(why),
        },
        S::RunAgain { attempt } => again(*attempt),
        S::Fail(why) | S::FailVeleros(why) => format!("fails: {why}"),
        S::LookAfter => "its operations are asked how far they are".to_owned(),
        S::CancelOperations => "its operations are ended: it was cancelled".to_owned(),
        S::Finalize => "is finalized: none of its operations goes on".to_owned(),
    }
}

fn of_schedule(before: &Schedule, step: &phase::schedule::Step) -> String {
    use phase::schedule::Step as S;
    let (after, message) = match step {
        S::Run(run) => return format!("backup {} is made", run_name(&before.metadata.name, run.due)),
        S::Postpone { behind, since } => return postponed(behind, *since),
        S::Note(after) => (&after.status, &after.status.message),
    };
    match after.phase {
        Some(SchedulePhase::FailedValidation) => refused(&after.validation_errors),
        _ if after.last_skipped != before.status.last_skipped => "a run that is due now is left out".to_owned(),
        phase if phase != before.status.phase => "is valid, and runs at its times from now on".to_owned(),
        _ if message.is_empty() => "its status is brought up to date".to_owned(),
        _ => format!("its status says that {message}"),
    }
}

fn again(attempt: u32) -> String {
    format!("runs again, for attempt {attempt}: its server was cut off")
}

/// Describes the reason for which an object waits. `now` is one moment by both clocks.
pub(super) fn waits_for(why: &Reason, now: (Timestamp, Instant)) -> String {
    match why {
        Reason::Runs(key) => format!("the end of the work on it: {}", work_of(key)),
        Reason::Excluded(key) => format!("the end of other work on the same thing: {}", work_of(key)),
        Reason::Failed { times, until } => {
            let times = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
            format!("{}: it has failed {times}, and is tried again then", second(moment(*until, now)))
        }
        Reason::Paused(until) => format!("{}: there is nothing to do before", second(moment(*until, now))),
        Reason::NoPlace { run, most } => format!("a place: {run} of its kind are worked on, of {most} that may be"),
        Reason::Due(at) => format!("{}, when it is due", second(*at)),
        Reason::Queued { position, why } => format!("its turn, as number {position} in the queue: {}", blocked(why)),
        Reason::NoSlot(why) => format!("its turn: {}", blocked(why)),
        Reason::Unvalidated(location) => format!("the first validation of location {}", location.name),
        Reason::FirstSync { location, until } => format!(
            "the first sync of the default location {}, but no longer than until {}",
            location.name,
            second(moment(*until, now))
        ),
        Reason::Disabled(part) => format!("a server that does it: {} is disabled", part.name()),
        Reason::Deleted { finalizers } if finalizers.is_empty() => "its end: it is being deleted".to_owned(),
        Reason::Deleted { finalizers } => {
            format!("its end: it is being deleted, and kept by the finalizers of others: {}", some(finalizers.iter()))
        }
        Reason::Unreadable(why) => format!("somebody who mends or deletes it: it cannot be read: {why}"),
        Reason::EarlierRun { backup, since } => {
            format!("the end of backup {}: a run is due since {since}, and there is one at a time", backup.name)
        }
        Reason::ReadBy(restore) => {
            format!("the end of restore {}, which reads it: its time is over", restore.name)
        }
        Reason::Restored(restore) => format!("the end of restore {}, which reads the backup", restore.name),
        Reason::NeededByClaims { claims, way_out } => {
            format!("claims from the snapshots of the backup that have no volume yet ({claims}): {way_out}")
        }
        Reason::Blocked(obstacle) => {
            format!("its location: its time is over, and it is not deleted, because {obstacle}")
        }
        Reason::Unrecorded(obstacle) => format!(
            "its location: what keeps it was changed here, and no other cluster on the bucket knows of that, because {obstacle}"
        ),
        Reason::GoesElsewhere(cluster) => {
            format!("cluster {cluster}, which has made it and lets it go: its time is over")
        }
        Reason::KeptBy(by) => format!("what keeps it though its time is over: it is {}", describe(by)),
    }
}

fn blocked(why: &Blocked) -> String {
    match why {
        Blocked::Full { by, places } => {
            let names = some(by.iter().map(|backup| &backup.name));
            format!("{} of {places} may run at once, and do: {names}", by.len())
        }
        Blocked::Overlaps(other) => format!("{} comes first and may hold one of its namespaces", other.name),
    }
}

/// The first of these names, and how many more there are.
fn some<'a>(mut names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let told: Vec<&str> = names.by_ref().take(MOST_NAMES).map(String::as_str).collect();
    let more = names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", told.join(", "))
}

/// The work, for people.
fn work_of(key: &Key) -> String {
    let what = match key {
        Key::Queue(_) => "its place in the queue is noted",
        Key::Start(_) => "it leaves the queue",
        Key::Backup(_) => "the backup runs",
        Key::CancelBackup(_) | Key::CancelRestore(_) => "it is ended",
        Key::Sweep { location, .. } => {
            return format!("what a backup of its name left in location {} is removed", location.name);
        }
        Key::Restore(_) => "the restore runs",
        Key::Upkeep(_) => "the restore is brought on",
        Key::CleanUp(_) => "its files are deleted",
        Key::Validation(_) => "the location is validated",
        Key::Default(_) => "its mark as the default is changed",
        Key::Sync(_) => "the backups of the location are synced",
        Key::Deletion { backup, request } => {
            return format!("request {} deletes backup {}", request.name, backup.name);
        }
        Key::Refusal(_) | Key::Download(_) | Key::Status(_) => "it is answered",
        Key::Schedule(_) => "its status is brought up to date, or a run of it begins",
        Key::Expiry(_) => "its time is over, and its deletion is asked for, or something keeps it",
        Key::Repository(_) => "it is made, or opened",
        Key::Maintenance(_) => "it is maintained",
        Key::Unreadable(..) => "it is refused: it cannot be read",
    };
    what.to_owned()
}

/// A moment of the timers as a time.
pub(super) fn moment(at: Instant, now: (Timestamp, Instant)) -> Timestamp {
    let pause = SignedDuration::try_from(at.saturating_duration_since(now.1)).unwrap_or_default();
    now.0.checked_add(pause).unwrap_or(Timestamp::MAX)
}

/// Never before it.
fn second(at: Timestamp) -> String {
    let whole = at.round(jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Ceil));
    whole.unwrap_or(at).to_string()
}
