//! The steps of a transfer before its pod runs: those that are new, and those that are accepted. Pure.

use crate::attachments::{WAITS_FOR_ATTACHMENT, is_about_attachments, is_about_storage};
use crate::attempts::{KilledMover, killed_mover, killed_movers, reasons};
use crate::exposer::copies::waits_for_copy;
use crate::pod::{PodView, Scheduling};
use crate::rules::situation::{Ending, Owner, Situation, Step, after_kill, cancel_message, is_canceled};
use crate::transfer::Support;
use crate::user_pod::UserPod;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{DataPathPhase, NodeOs, Time};
use lifeboat_volume::mover_pod::ROOM_LIMIT;

/// The longest wait of a pod for a node that has room.
pub(crate) const PLACE_LIMIT: SignedDuration = SignedDuration::from_secs(ROOM_LIMIT.as_secs().cast_signed());
/// Interval between two looks at something that tells nothing when it changes.
pub(crate) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// Interval between two notes on a transfer that waits of how far the others are. Whoever waits for it takes half an hour without one for a
/// standstill.
pub(crate) const BETWEEN_NOTES_OF_OTHERS: SignedDuration = SignedDuration::from_mins(10);
/// The age of a transfer from which on the pod with its volume is looked for when no node has it.
pub(crate) const FIND_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// The next step of a transfer that is new.
pub(crate) fn new(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    // Any agent may end it: there is nothing to remove.
    if is_canceled(transfer) {
        return match transfer.has_finalizer() || !transfer.is_being_deleted() {
            true => Ending::canceled(cancel_message(at)),
            false => Step::Nothing,
        };
    }
    match &at.owner {
        Owner::Us => {}
        Owner::Other => return Step::Nothing,
        Owner::Nobody(why) => return Ending::failed(why.clone()),
    }
    match &at.user_pod {
        UserPod::Unseen => Step::FindUserPod,
        UserPod::Elsewhere => match transfer.meta.creation_timestamp.map(Time::timestamp) {
            Some(made) if at.now.duration_since(made) >= FIND_AFTER => Step::FindUserPod,
            _ => Step::Nothing,
        },
        UserPod::Lost(why) => Ending::failed(why.clone()),
        UserPod::Waiting(reason) => note_or_wait(at, reason.clone(), None),
        UserPod::Ready => match transfer.support() {
            Support::Refused(why) => Ending::failed(why),
            Support::Unreadable(why) => unreadable(at, why),
            _ if !at.has_queue_room => {
                let reason = "as many are prepared in the cluster as prepareQueueLength allows".to_owned();
                note_or_wait(at, reason, at.others_moved_at)
            }
            _ if at.class_is_full => {
                let reason = "others of its storage class wait for a node that can attach one more volume".to_owned();
                note_or_wait(at, reason, at.others_moved_at)
            }
            _ => Step::Accept,
        },
    }
}

/// Waits for an agent that can read it, as in an update, and ends it when none has come in time. Such an update goes on
/// while others move: agents are replaced one after the other.
fn unreadable(at: &Situation<'_>, why: String) -> Step {
    let made = at.transfer.meta.creation_timestamp.map_or(at.now, Time::timestamp);
    let since = [at.others_moved_at, at.transfer.others_moved_at()].into_iter().flatten().fold(made, Timestamp::max);
    match at.tells_of_waits && at.now.duration_since(since) >= at.prepare_timeout {
        true => Ending::failed(why),
        false => note_or_wait(at, why, at.others_moved_at),
    }
}

/// Waits for others, which last moved something then, and shows what for.
pub(crate) fn note_or_wait(at: &Situation<'_>, reason: String, others: Option<Timestamp>) -> Step {
    let transfer = at.transfer;
    // A new one is seen by all agents, and one of them writes.
    let tells = at.tells_of_waits || transfer.phase != DataPathPhase::New || !transfer.kind.is_of_any_node();
    let is_news = |moved: &Timestamp| {
        transfer.others_noted_at().is_some_and(|noted| moved.duration_since(noted) >= BETWEEN_NOTES_OF_OTHERS)
    };
    match others.filter(is_news) {
        _ if tells && transfer.message != reason => Step::Note { message: reason },
        Some(moved) if tells => Step::NoteOthers { moved },
        _ => Step::Wait { reason, until: at.now + LOOK_AGAIN },
    }
}

/// The next step of a transfer that this agent has accepted.
pub(crate) fn accepted(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    if is_canceled(transfer) {
        return Ending::canceled(cancel_message(at));
    }
    if let Some(why) = &at.lost_user_pod {
        return Ending::failed(why.clone());
    }
    let accepted = transfer.accepted.map_or(at.now, Time::timestamp);
    let killed = killed_movers(transfer);
    let Some(pod) = at.pod else { return without_pod_yet(at, accepted, &killed) };
    if killed.iter().any(|killed| killed.pod == pod.uid) {
        return remove_killed(at, accepted, &killed);
    }
    if let Some(killed) = killed_mover(pod) {
        return after_kill(at, killed);
    }
    if let Some(why) = pod.unrecoverable() {
        let word = transfer.kind.word_of_exposer();
        let (namespace, name) = (&transfer.meta.namespace, &transfer.meta.name);
        return Ending::canceled(format!(
            "found a {word} {namespace}/{name} with expose error: {why}. mark it as cancel"
        ));
    }
    if pod.is_running() {
        let os = if pod.os == "windows" { NodeOs::Windows } else { NodeOs::Linux };
        return Step::Prepare { node: pod.node.clone(), os };
    }
    let PodWait { since, limit, reason } = wait_of_pod(at, pod, accepted);
    if at.now.duration_since(since) >= limit {
        return Ending::failed(timeout_message(at, &reason));
    }
    // The nodes that are full may be told behind it.
    if matches!(pod.scheduling, Scheduling::Unschedulable(_)) && !transfer.message.starts_with(&reason) {
        return Step::Note { message: reason };
    }
    Step::Wait { reason, until: since + limit }
}

/// The next step of one that was accepted then, and whose pod is not made, after these movers.
fn without_pod_yet(at: &Situation<'_>, accepted: Timestamp, killed: &[KilledMover]) -> Step {
    let transfer = at.transfer;
    let last = killed.last().and_then(|killed| killed.may_run_until).map(Time::timestamp);
    if let Some(until) = last.filter(|until| *until > at.now) {
        let reason = "nobody has confirmed the end of the mover before: it ends by itself until then".to_owned();
        return Step::Wait { reason, until };
    }
    // Others may take long, as where nodes are full.
    let limit = match waits_for_copy(transfer) {
        true => PLACE_LIMIT.max(at.prepare_timeout),
        false => at.prepare_timeout,
    };
    match at.now.duration_since(accepted) >= limit {
        true if transfer.message.is_empty() => Ending::failed(timeout_message(at, "its pod could not be made")),
        // It was noted what was waited for.
        true => Ending::failed(timeout_message(at, &transfer.message)),
        false => Step::Expose,
    }
}

/// The next step of one that was accepted then, and whose pod is that of the last of these movers.
fn remove_killed(at: &Situation<'_>, accepted: Timestamp, killed: &[KilledMover]) -> Step {
    let Some(pod) = at.pod.filter(|_| at.now.duration_since(accepted) >= at.prepare_timeout) else {
        return Step::RemoveKilledPod;
    };
    let (namespace, name, attempts) = (&pod.namespace, &pod.name, killed.len());
    Ending::failed(timeout_message(
        at,
        &format!(
            "the pod {namespace}/{name} of attempt {attempts} was killed and does not go: look at its finalizers, and whether its node \
             {} is still there; {}",
            pod.node,
            reasons(killed)
        ),
    ))
}

/// The wait of a pod that does not run.
struct PodWait {
    since: Timestamp,
    limit: SignedDuration,
    reason: String,
}

fn wait_of_pod(at: &Situation<'_>, pod: &PodView, accepted: Timestamp) -> PodWait {
    // Copies of Secrets may have been waited for before it was made.
    let begun = pod.made.map_or(accepted, |made| made.max(accepted));
    let (since, limit, reason) = match &pod.scheduling {
        Scheduling::Unschedulable(why) if is_about_attachments(why) => {
            (begun, PLACE_LIMIT.max(at.prepare_timeout), format!("{WAITS_FOR_ATTACHMENT}: {why}"))
        }
        Scheduling::Unschedulable(why) if !is_about_storage(why) => {
            (begun, PLACE_LIMIT.max(at.prepare_timeout), format!("its pod waits for a node: {why}"))
        }
        Scheduling::Unschedulable(why) => (begun, at.prepare_timeout, format!("its pod waits for its volume: {why}")),
        Scheduling::Scheduled(scheduled) => {
            ((*scheduled).max(accepted), at.prepare_timeout, format!("its pod begins on node {}", pod.node))
        }
        Scheduling::Unknown => {
            (begun, at.prepare_timeout, "its pod has not been looked at by the scheduler".to_owned())
        }
    };
    PodWait { since, limit, reason }
}

fn timeout_message(at: &Situation<'_>, why: &str) -> String {
    format!("{}: {why}", at.transfer.kind.timeout_message())
}
