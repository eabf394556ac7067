//! The next step of a transfer: resource, pod, node and time in, step and reason out. Pure.
//!
//! The phases are New, Accepted (the pod is made), Prepared (it runs and waits), InProgress, Canceling, and then Completed, Failed or Canceled.
//! The state machine is the same for all kinds. A step is taken again until the resource shows it, so each must be repeatable. A phase that ends
//! a transfer is written first; then what was made for it is removed, and the finalizer, which says that this is still owed, is
//! the last to go. So nothing is left when an agent dies in between.

mod preparation;
mod situation;

use crate::attempts::{KilledMover, killed_mover, killed_movers};
use crate::outcome::{self, TransferResult};
use crate::pod::PodView;
use crate::transfer::Transfer;
use jiff::SignedDuration;
use lifeboat_api::DataPathPhase;
use lifeboat_mover::protocol::PodEnd;
use preparation::{accepted, new, note_or_wait};
use situation::{after_kill, cancel_message, is_canceled, removed};

pub(crate) use situation::{Ending, Owner, Situation, Step};

/// Time in which a pod that was told to stop ends by itself; then it is removed.
pub(crate) const CANCEL_LIMIT: SignedDuration = SignedDuration::from_secs(8);
/// The longest time of a transfer in which no byte is moved.
pub(crate) const STALL_LIMIT: SignedDuration = SignedDuration::from_hours(1);

/// The next step.
pub(crate) fn next_step(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    if transfer.is_foreign() {
        return match transfer.is_left_behind() && at.owner != Owner::Other {
            true => Step::CleanUp,
            false => Step::Nothing,
        };
    }
    if transfer.has_ended() {
        return match transfer.has_finalizer() && at.owner != Owner::Other {
            true => Step::CleanUp,
            false => Step::Nothing,
        };
    }
    match transfer.phase {
        DataPathPhase::New => new(at),
        _ => match &at.owner {
            Owner::Other => Step::Nothing,
            // A volume that is on its way needs no node any more.
            Owner::Nobody(_) if has_delivery(transfer) => delivering(at),
            Owner::Nobody(why) if transfer.kind.is_of_any_node() => in_place_of(at, why),
            Owner::Nobody(why) if is_canceled(transfer) => Ending::canceled(format!("{}; {why}", cancel_message(at))),
            Owner::Nobody(why) => Ending::failed(why.clone()),
            Owner::Us => ours(at),
        },
    }
}

/// The next step of a transfer of this agent that was accepted.
fn ours(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    match transfer.phase {
        _ if !transfer.has_finalizer() && !transfer.is_being_deleted() => Step::AddFinalizer,
        DataPathPhase::Accepted => accepted(at),
        DataPathPhase::Prepared => prepared(at),
        _ => in_progress(at),
    }
}

/// The next step of a transfer that any node may do, and whose agent is gone for this reason. A mover needs no agent beside it: one that runs
/// is followed, one that has ended has left its result in the API, and one whose node is lost too was killed.
fn in_place_of(at: &Situation<'_>, why: &str) -> Step {
    let transfer = at.transfer;
    if is_canceled(transfer) {
        let is_lost = at.pod.is_some_and(PodView::is_lost_with_its_node);
        // A pod of a lost node does not hear that it shall stop.
        return if is_lost { Ending::canceled(format!("{}; {why}", cancel_message(at))) } else { ours(at) };
    }
    match at.pod {
        Some(pod) if killed_movers(transfer).iter().any(|killed| killed.pod == pod.uid) => ours(at),
        Some(pod) if pod.is_lost_with_its_node() => {
            let since = pod.not_ready_since.unwrap_or(at.now);
            after_kill(at, KilledMover::ended(&pod.uid, why).unconfirmed(since))
        }
        Some(pod) if pod.is_running() || pod.has_ended() => ours(at),
        // The pod is gone, which its node may not know.
        None if transfer.phase != DataPathPhase::Accepted => after_kill(at, removed(transfer).unconfirmed(at.now)),
        _ if transfer.phase == DataPathPhase::Accepted && transfer.has_finalizer() => Step::Accept,
        _ => ours(at),
    }
}

fn has_delivery(transfer: &Transfer) -> bool {
    transfer.kind.is_delivered() && transfer.delivery().is_some()
}

fn delivering(at: &Situation<'_>) -> Step {
    let result = at.transfer.delivery().map_or_else(|| TransferResult::restored(0), |delivery| delivery.result());
    Step::Deliver { result, since: at.delivery_seen.unwrap_or(at.now) }
}

fn prepared(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    if is_canceled(transfer) {
        return Ending::canceled(cancel_message(at));
    }
    if let Some(why) = &at.lost_user_pod {
        return Ending::failed(why.clone());
    }
    let Some(pod) = at.pod else { return without_pod(at) };
    if let Some(killed) = killed_mover(pod) {
        return after_kill(at, killed);
    }
    let why = pod.unrecoverable().or_else(|| pod.has_ended().then(|| format!("its pod has ended: {}", pod.phase)));
    if let Some(why) = why {
        let word = transfer.kind.short_word();
        return Ending::canceled(format!(
            "Cancel {word} because the exposing pod {}/{} is in abnormal status for reason {why}",
            pod.namespace, pod.name
        ));
    }
    match at.has_slot {
        true => Step::Begin,
        false => note_or_wait(at, "as many run on this node as loadConcurrency allows".to_owned(), at.others_moved_at),
    }
}

fn in_progress(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    if has_delivery(transfer) {
        return delivering(at);
    }
    if let (None, Some(why)) = (at.pod, &at.lost_user_pod)
        && !is_canceled(transfer)
    {
        return Ending::failed(why.clone());
    }
    let Some(pod) = at.pod else { return without_pod(at) };
    match outcome::of_transfer(transfer.kind, pod) {
        // The kubelet takes a volume away with its pod: a mover that ends well then may have read a part.
        Some(PodEnd::Completed(_)) if transfer.kind.is_backup() && at.lost_user_pod.is_some() => {}
        Some(PodEnd::Completed(result)) if transfer.kind.is_delivered() => {
            return Step::Deliver { result, since: at.now };
        }
        Some(PodEnd::Completed(result)) => {
            let is_empty = result.saved.as_ref().is_some_and(|saved| saved.snapshot_id.is_none());
            let message = if is_empty { transfer.kind.empty_message().to_owned() } else { String::new() };
            let phase = DataPathPhase::Completed;
            return Step::End(Ending { phase, message, result: Some(result), has_no_pod: false });
        }
        Some(PodEnd::Canceled(message)) => return Ending::canceled(message),
        Some(PodEnd::Failed(_)) if at.lost_user_pod.is_some() => {}
        Some(PodEnd::Failed(message)) => {
            if let Some(killed) = killed_mover(pod).filter(|_| !is_canceled(transfer)) {
                return after_kill(at, killed);
            }
            return Ending::failed(format!("{}: {message}", transfer.kind.failure_context()));
        }
        None => {}
    }
    if let Some(why) = &at.lost_user_pod {
        return Ending::failed(why.clone());
    }
    if let Some(why) = pod.unrecoverable() {
        return Ending::failed(format!("{}: {why}", transfer.kind.failure_context()));
    }
    if is_canceled(transfer) {
        return stopping(at);
    }
    let stalled = at.moved_at.filter(|moved| at.now.duration_since(*moved) >= STALL_LIMIT);
    if stalled.is_some() {
        let hours = STALL_LIMIT.as_hours();
        return Ending::failed(format!(
            "{}: no byte was moved for {hours} h; look into the log of the node agent, and whether the bucket can be reached from this node",
            transfer.kind.failure_context()
        ));
    }
    match at.is_report_due {
        true => Step::Report,
        false => Step::Nothing,
    }
}

/// A transfer that runs and shall stop: its pod is told, and waited for, but not for long.
fn stopping(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    if !transfer.cancel {
        return Step::RequestCancel { message: cancel_message(at) };
    }
    if transfer.phase == DataPathPhase::InProgress {
        return Step::ShowCanceling;
    }
    let until = at.cancel_seen.unwrap_or(at.now) + CANCEL_LIMIT;
    match at.now >= until {
        true => {
            let partial = transfer.kind.partial_result();
            Ending::canceled(format!("the mover's pod did not stop in time and was removed; {partial}"))
        }
        false => Step::Wait { reason: "its pod stops".to_owned(), until },
    }
}

fn without_pod(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    if is_canceled(transfer) {
        let (phase, message) = (DataPathPhase::Canceled, cancel_message(at));
        return Step::End(Ending { phase, message, result: None, has_no_pod: true });
    }
    after_kill(at, removed(transfer))
}

#[cfg(test)]
mod tests;
