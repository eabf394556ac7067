//! Steps and reasons in one word each, for programs: these stay as they are when the texts change. `docs/server.md` lists them.

use super::step::Step;
use super::wait::Reason;
use crate::phase::keep::Keeper;
use crate::phase::queue::{Blocked, Move};
use crate::phase::{self, expiry, request, unreadable};
use crate::work;
use lifeboat_api::{Schedule, SchedulePhase};

const REFUSE: &str = "Refuse";
const FAIL: &str = "Fail";
const CLEAN_UP: &str = "CleanUp";
const RUN: &str = "Run";
const RUN_AGAIN: &str = "RunAgain";
const OPERATIONS: &str = "LookAfterOperations";
const FINALIZE: &str = "Finalize";
const CANCEL_OPERATIONS: &str = "EndOperations";

/// What a step does with its object.
pub(super) fn of_step(step: &Step) -> &'static str {
    match step {
        Step::Unreadable(_, _, unreadable::Step::Refuse, _) => REFUSE,
        Step::Unreadable(_, _, unreadable::Step::Fail, _) => FAIL,
        Step::Unreadable(_, _, unreadable::Step::CleanUp, _) => CLEAN_UP,
        Step::Mark { default: true, .. } => "MarkDefault",
        Step::Mark { default: false, .. } => "UnmarkDefault",
        Step::Validate(_, None) => "Check",
        Step::Validate(_, Some(_)) => "CheckAndSearch",
        Step::Sync(..) => "Search",
        Step::Sweep(_) => "Sweep",
        Step::Queue(_, Move::Queue(_)) => "Queue",
        Step::Queue(_, Move::Renumber(_)) => "Renumber",
        Step::Queue(_, Move::Start) => "Start",
        Step::Backup(_, target, step) => of_backup(step, target),
        Step::Restore(_, source, step) => of_restore(step, source),
        Step::Delete(request, target, request::Step::Answer) if target.refusal(request).is_some() => REFUSE,
        Step::Delete(_, _, request::Step::Answer) => "Delete",
        Step::Download(_, work::download::Target::Nothing(_), request::Step::Answer) => REFUSE,
        Step::Download(_, _, request::Step::Answer) | Step::Status(_, request::Step::Answer) => "Answer",
        Step::Delete(_, _, request::Step::Forget)
        | Step::Download(_, _, request::Step::Forget)
        | Step::Status(_, request::Step::Forget) => "Expire",
        Step::Schedule(before, step) => of_schedule(before, step),
        Step::Expire(_, _, expiry::Step::Keep(_)) => "Keep",
        Step::Expire(_, _, expiry::Step::Delete) => "Expire",
        Step::Expire(_, _, expiry::Step::Prolong { .. }) => "Prolong",
        Step::Expire(_, _, expiry::Step::Record) => "RecordHold",
    }
}

fn of_backup(step: &phase::backup::Step, target: &work::backup::Target) -> &'static str {
    use phase::backup::Step as S;
    match step {
        S::Run => match target {
            Ok(location) if phase::location::refusal(location).is_none() => RUN,
            _ => REFUSE,
        },
        S::RunAgain { .. } => RUN_AGAIN,
        S::Fail(_) | S::FailVeleros(_) => FAIL,
        S::Cancel => "Cancel",
        S::LookAfter => OPERATIONS,
        S::CancelOperations => CANCEL_OPERATIONS,
        S::Finalize => FINALIZE,
    }
}

fn of_restore(step: &phase::restore::Step, source: &work::restore::Source) -> &'static str {
    use phase::restore::Step as S;
    match step {
        S::CleanUp => CLEAN_UP,
        S::Hold => "Hold",
        S::Run if source.origin.is_ok() => RUN,
        S::Run => REFUSE,
        S::RunAgain { .. } => RUN_AGAIN,
        S::Fail(_) | S::FailVeleros(_) => FAIL,
        S::LookAfter => OPERATIONS,
        S::CancelOperations => CANCEL_OPERATIONS,
        S::Finalize => FINALIZE,
    }
}

fn of_schedule(before: &Schedule, step: &phase::schedule::Step) -> &'static str {
    use phase::schedule::Step as S;
    match step {
        S::Run(_) => RUN,
        S::Note(after) if after.status.phase == Some(SchedulePhase::FailedValidation) => REFUSE,
        S::Note(after) if after.status.last_skipped != before.status.last_skipped => "Skip",
        S::Note(after) if after.status.phase != before.status.phase => "Enable",
        S::Note(_) | S::Hold { .. } => "Note",
    }
}

/// What an object waits for.
pub(super) fn of_wait(why: &Reason) -> &'static str {
    match why {
        Reason::Runs(_) => "Running",
        Reason::Excluded(_) => "OtherWork",
        Reason::Failed { .. } => "Failed",
        Reason::Paused(_) => "Paused",
        Reason::NoPlace { .. } => "NoPlace",
        Reason::Due(_) => "NotDue",
        Reason::Queued { why, .. } | Reason::NoSlot(why) => match why {
            Blocked::Full { .. } => "NoSlot",
            Blocked::Overlaps(_) => "Overlap",
        },
        Reason::Unchecked(_) => "LocationNotChecked",
        Reason::FirstSearch { .. } => "FirstSearch",
        Reason::Disabled(_) => "Disabled",
        Reason::Deleted { .. } => "Deleted",
        Reason::Unreadable(_) => "Unreadable",
        Reason::EarlierRun { .. } => "EarlierRun",
        Reason::Kept { .. } => "Kept",
        Reason::Unrecorded { .. } => "Unrecorded",
        Reason::ReadBy(_) => "Restore",
        Reason::KeptBy(by) if by.iter().any(|keeper| matches!(keeper, Keeper::Hold(_))) => "Held",
        Reason::KeptBy(_) => "Retention",
    }
}
