//! Steps and reasons in one word each, for programs: these stay as they are when the texts change. `docs/server.md` lists them.

use super::step::ServerStep;
use super::wait::Reason;
use crate::unreadable_step;
use crate::work;
use lifeboat_api::{Schedule, SchedulePhase};
use lifeboat_lifecycle::phase::keep::Keeper;
use lifeboat_lifecycle::phase::queue::{Blocked, QueueMove};
use lifeboat_lifecycle::phase::{self, expiry, repository, request};

const REFUSE: &str = "Refuse";
const FAIL: &str = "Fail";
const CLEAN_UP: &str = "CleanUp";
const RUN: &str = "Run";
const RUN_AGAIN: &str = "RunAgain";
const OPERATIONS: &str = "LookAfterOperations";
const FINALIZE: &str = "Finalize";
const CANCEL_OPERATIONS: &str = "EndOperations";

/// The code of a step.
pub(super) fn of_step(step: &ServerStep) -> &'static str {
    match step {
        ServerStep::Unreadable(_, _, unreadable_step::Step::Refuse, _) => REFUSE,
        ServerStep::Unreadable(_, _, unreadable_step::Step::Fail, _) => FAIL,
        ServerStep::Unreadable(_, _, unreadable_step::Step::CleanUp, _) => CLEAN_UP,
        ServerStep::Mark { default: true, .. } => "MarkDefault",
        ServerStep::Mark { default: false, .. } => "UnmarkDefault",
        ServerStep::Validate(_, None) => "Validate",
        ServerStep::Validate(_, Some(_)) => "ValidateAndSync",
        ServerStep::Sync(..) => "Sync",
        ServerStep::Sweep(_) => "Sweep",
        ServerStep::Queue(_, QueueMove::Queue(_)) => "Queue",
        ServerStep::Queue(_, QueueMove::Renumber(_)) => "Renumber",
        ServerStep::Queue(_, QueueMove::Start) => "Start",
        ServerStep::Backup(_, target, step) => of_backup(step, target),
        ServerStep::Restore(_, source, step) => of_restore(step, source),
        ServerStep::Delete(request, target, request::Step::Answer) if target.refusal(request).is_some() => REFUSE,
        ServerStep::Delete(_, _, request::Step::Answer) => "Delete",
        ServerStep::Download(_, work::download::RequestedFile::Nothing(_), request::Step::Answer) => REFUSE,
        ServerStep::Download(_, _, request::Step::Answer) | ServerStep::Status(_, request::Step::Answer) => "Answer",
        ServerStep::Delete(request, _, request::Step::Forget) if request::is_of_expiry(request) => "Withdraw",
        ServerStep::Delete(_, _, request::Step::Forget)
        | ServerStep::Download(_, _, request::Step::Forget)
        | ServerStep::Status(_, request::Step::Forget) => "Expire",
        ServerStep::Schedule(before, step) => of_schedule(before, step),
        ServerStep::Expire(_, _, expiry::Step::LabelFailure(_)) => "LabelFailure",
        ServerStep::Expire(_, _, expiry::Step::Delete) => "Expire",
        ServerStep::Expire(_, _, expiry::Step::Prolong { .. }) => "Prolong",
        ServerStep::Expire(_, _, expiry::Step::Record { .. }) => "RecordHold",
        ServerStep::Repository(_, _, repository::Step::Prepare) => "Prepare",
        ServerStep::Repository(_, _, repository::Step::Reestablish) => "Reestablish",
        ServerStep::Repository(_, _, repository::Step::NotePlace) => "NotePlace",
        ServerStep::Maintain(..) => "Maintain",
    }
}

fn of_backup(step: &phase::backup::Step, target: &work::backup::BackupTarget) -> &'static str {
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

fn of_restore(step: &phase::restore::Step, source: &work::restore::RestoreSource) -> &'static str {
    use phase::restore::Step as S;
    match step {
        S::CleanUp => CLEAN_UP,
        S::AddFinalizer => "AddFinalizer",
        S::RemoveFinalizer => "RemoveFinalizer",
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
        S::Note(_) | S::Postpone { .. } => "Note",
    }
}

/// The code of the reason for which an object waits.
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
        Reason::Unvalidated(_) => "LocationNotValidated",
        Reason::FirstSync { .. } => "FirstSync",
        Reason::Disabled(_) => "Disabled",
        Reason::Deleted { .. } => "Deleted",
        Reason::Unreadable(_) => "Unreadable",
        Reason::EarlierRun { .. } => "EarlierRun",
        Reason::Blocked(_) => "Blocked",
        Reason::ReadBy(_) | Reason::Restored(_) => "ReadByRestore",
        Reason::NeededByClaims { .. } => "NeededByClaims",
        Reason::Unrecorded(_) => "Unrecorded",
        Reason::GoesElsewhere(_) => "OtherCluster",
        Reason::KeptBy(by) if by.iter().any(|keeper| matches!(keeper, Keeper::Hold(_))) => "Held",
        Reason::KeptBy(_) => "Retention",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The words between these marks that begin with a capital letter.
    fn words(text: &str, mark: char) -> BTreeSet<&str> {
        let words = text.split(mark).skip(1).step_by(2);
        words.filter(|word| word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphanumeric)).collect()
    }

    #[test]
    fn the_page_lists_all_codes_and_no_others() {
        let page = include_str!("../../../../docs/server.md");
        let tables = page.split("| `reason` of one with which").nth(1).expect("the first table");
        let tables = tables.split("Objects with which there is nothing to do").next().expect("what follows the second");
        let first_cells: Vec<&str> =
            tables.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next()).collect();
        let documented = first_cells.iter().flat_map(|cell| cell.split("`, `")).map(|word| word.trim_end_matches('`'));
        let code = include_str!("codes.rs").split("#[cfg(test)]").next().expect("the code");
        assert_eq!(documented.filter(|word| !word.starts_with("reason")).collect::<BTreeSet<_>>(), words(code, '"'));
    }
}
