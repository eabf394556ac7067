//! The next step of a transfer: resource, pod, node and time in, step and reason out. Pure.
//!
//! The phases are New, Accepted (the pod is made), Prepared (it runs and waits), InProgress, Canceling, and then Completed, Failed or Canceled.
//! The state machine is the same for all kinds. A step is taken again until the resource shows it, so each must be repeatable. A phase that ends
//! a transfer is written first; then what was made for it is removed, and the finalizer, which says that this is still owed, is
//! the last to go. So nothing is left when an agent dies in between.

use crate::attachments::{WAITS_FOR_ATTACHMENT, is_about_attachments, is_about_storage};
use crate::attempts::{KilledMover, killed_mover, killed_movers, reasons};
use crate::exposer::copies::waits_for_copy;
use crate::outcome::{self, TransferResult};
use crate::pod::{PodView, Scheduling};
use crate::transfer::{Support, Transfer};
use crate::user_pod::UserPod;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{DataPathPhase, NodeOs};
use lifeboat_mover::protocol::PodEnd;
use lifeboat_volume::mover_pod::{MOST_ATTEMPTS, ROOM_LIMIT};

/// Time in which a pod that was told to stop ends by itself; then it is removed.
pub(crate) const CANCEL_LIMIT: SignedDuration = SignedDuration::from_secs(8);
/// The longest wait of a pod for a node that has room.
pub(crate) const PLACE_LIMIT: SignedDuration = SignedDuration::from_secs(ROOM_LIMIT.as_secs().cast_signed());
/// The longest time of a transfer in which no byte is moved.
pub(crate) const STALL_LIMIT: SignedDuration = SignedDuration::from_hours(1);
/// Interval between two looks at something that tells nothing when it changes.
pub(crate) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// Interval between two notes on a transfer that waits of how far the others are. Whoever waits for it takes half an hour without one for a
/// standstill.
pub(crate) const BETWEEN_NOTES_OF_OTHERS: SignedDuration = SignedDuration::from_mins(10);
/// The age of a transfer from which on the pod with its volume is looked for when no node has it.
pub(crate) const FIND_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// The agent that acts for a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This one.
    Us,
    /// That of another node.
    Other,
    /// None: the node's agent is gone, for this reason. This one acts in its place.
    Nobody(String),
}

/// Everything that the next step depends on.
#[derive(Clone, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) transfer: &'a Transfer,
    /// Its pod.
    pub(crate) pod: Option<&'a PodView>,
    pub(crate) owner: Owner,
    /// The pod with its volume, while it is new; ready where it needs none.
    pub(crate) user_pod: UserPod,
    /// The reason for which that pod is lost, once it has begun.
    pub(crate) lost_user_pod: Option<String>,
    /// The queue of transfers that are prepared has room.
    pub(crate) has_queue_room: bool,
    /// Others of its storage class wait for a node that can attach one more volume.
    pub(crate) class_is_full: bool,
    /// This node may do one more.
    pub(crate) has_slot: bool,
    /// No other working agent is on a node before this one, by name: of transfers that any node may do it says what they wait for.
    pub(crate) tells_of_waits: bool,
    /// The time at which this agent first saw that it shall stop.
    pub(crate) cancel_seen: Option<Timestamp>,
    /// The time at which this agent first saw that its volume is on its way to the claim.
    pub(crate) delivery_seen: Option<Timestamp>,
    /// The time at which this agent last saw that bytes were moved.
    pub(crate) moved_at: Option<Timestamp>,
    /// The time at which those that it waits for, on its node or in the queue, last moved something.
    pub(crate) others_moved_at: Option<Timestamp>,
    /// The next look at the progress is due.
    pub(crate) is_report_due: bool,
    pub(crate) prepare_timeout: SignedDuration,
    pub(crate) now: Timestamp,
}

/// A step of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// There is nothing to do until something changes.
    Nothing,
    /// There is nothing to do until something changes, or until then.
    Wait { reason: String, until: Timestamp },
    /// Adds the finalizer.
    AddFinalizer,
    /// Looks for a pod with its volume that is on no node.
    FindUserPod,
    /// Takes it for this node.
    Accept,
    /// Makes what its pod needs, and the pod.
    Expose,
    /// Its pod runs on this node.
    Prepare { node: String, os: NodeOs },
    /// Lets the pod begin.
    Begin,
    /// Tells the pod to stop.
    RequestCancel { message: String },
    /// Shows that it is being stopped.
    ShowCanceling,
    /// Shows what it waits for.
    Note { message: String },
    /// Notes when those that it waits for last moved something.
    NoteOthers { moved: Timestamp },
    /// Reads the progress and shows it.
    Report,
    /// Brings the volume to its claim. So many bytes are in it, and this agent does it since then.
    Deliver { result: TransferResult, since: Timestamp },
    /// Begins another attempt after these movers were killed.
    Again { killed: Vec<KilledMover> },
    /// Removes the pod of a mover that was killed.
    RemoveKilledPod,
    /// Ends it.
    End(Ending),
    /// Removes what was made for it, then the finalizer.
    CleanUp,
}

/// The end of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) phase: DataPathPhase,
    pub(crate) message: String,
    /// The result of one that is completed.
    pub(crate) result: Option<TransferResult>,
    /// The step counts on there being no pod, which is asked for once more.
    pub(crate) has_no_pod: bool,
}

impl Ending {
    fn step(phase: DataPathPhase, message: impl Into<String>) -> Step {
        Step::End(Self { phase, message: message.into(), result: None, has_no_pod: false })
    }

    fn failed(message: impl Into<String>) -> Step {
        Self::step(DataPathPhase::Failed, message)
    }

    fn canceled(message: impl Into<String>) -> Step {
        Self::step(DataPathPhase::Canceled, message)
    }
}

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

fn is_canceled(transfer: &Transfer) -> bool {
    transfer.cancel || transfer.is_being_deleted()
}

/// The message of one that is canceled. A message that says why it was canceled stays.
fn cancel_message(at: &Situation<'_>) -> String {
    let transfer = at.transfer;
    match transfer.is_being_deleted() {
        true => format!("Cancel {} because it is being deleted", transfer.kind.short_word()),
        false if transfer.message.starts_with("Cancel") => transfer.message.clone(),
        false => format!("Cancel was asked for; nothing was {}", transfer.kind.participle()),
    }
}

fn new(at: &Situation<'_>) -> Step {
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
        UserPod::Elsewhere => match transfer.meta.creation_timestamp.map(lifeboat_api::Time::timestamp) {
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

/// Waits for an agent that can read it, as in an update, and ends it when none has come in time.
fn unreadable(at: &Situation<'_>, why: String) -> Step {
    let made = at.transfer.meta.creation_timestamp.map_or(at.now, lifeboat_api::Time::timestamp);
    match at.tells_of_waits && at.now.duration_since(made) >= at.prepare_timeout {
        true => Ending::failed(why),
        false => note_or_wait(at, why, None),
    }
}

/// Waits for others, which last moved something then, and shows what for.
fn note_or_wait(at: &Situation<'_>, reason: String, others: Option<Timestamp>) -> Step {
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

fn accepted(at: &Situation<'_>) -> Step {
    let transfer = at.transfer;
    if is_canceled(transfer) {
        return Ending::canceled(cancel_message(at));
    }
    if let Some(why) = &at.lost_user_pod {
        return Ending::failed(why.clone());
    }
    let accepted = transfer.accepted.map_or(at.now, lifeboat_api::Time::timestamp);
    let killed = killed_movers(transfer);
    let Some(pod) = at.pod else {
        let last = killed.last().and_then(|killed| killed.may_run_until).map(lifeboat_api::Time::timestamp);
        if let Some(until) = last.filter(|until| *until > at.now) {
            let reason = "nobody has confirmed the end of the mover before: it ends by itself until then".to_owned();
            return Step::Wait { reason, until };
        }
        // Others may take long, as where nodes are full.
        let limit = match waits_for_copy(transfer) {
            true => PLACE_LIMIT.max(at.prepare_timeout),
            false => at.prepare_timeout,
        };
        return match at.now.duration_since(accepted) >= limit {
            true if transfer.message.is_empty() => Ending::failed(timeout_message(at, "its pod could not be made")),
            // It was noted what was waited for.
            true => Ending::failed(timeout_message(at, &transfer.message)),
            false => Step::Expose,
        };
    };
    if killed.iter().any(|killed| killed.pod == pod.uid) {
        if at.now.duration_since(accepted) < at.prepare_timeout {
            return Step::RemoveKilledPod;
        }
        let (namespace, name, attempts) = (&pod.namespace, &pod.name, killed.len());
        return Ending::failed(timeout_message(
            at,
            &format!(
                "the pod {namespace}/{name} of attempt {attempts} was killed and does not go: look at its finalizers, and whether its node \
                 {} is still there; {}",
                pod.node,
                reasons(&killed)
            ),
        ));
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
    if at.now.duration_since(since) >= limit {
        return Ending::failed(timeout_message(at, &reason));
    }
    // The nodes that are full may be told behind it.
    if matches!(pod.scheduling, Scheduling::Unschedulable(_)) && !transfer.message.starts_with(&reason) {
        return Step::Note { message: reason };
    }
    Step::Wait { reason, until: since + limit }
}

fn timeout_message(at: &Situation<'_>, why: &str) -> String {
    format!("{}: {why}", at.transfer.kind.timeout_message())
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

/// The mover of a transfer whose pod is gone.
fn removed(transfer: &Transfer) -> KilledMover {
    let when = if transfer.phase == DataPathPhase::Prepared { "before it began" } else { "while it ran" };
    let (namespace, name) = (&transfer.meta.namespace, &transfer.meta.name);
    KilledMover::ended("", format!("the mover's pod {namespace}/{name} was removed {when}"))
}

/// The step after a mover was killed: another attempt, if there were not too many.
fn after_kill(at: &Situation<'_>, killed: KilledMover) -> Step {
    let has_no_pod = killed.pod.is_empty();
    let mut all = killed_movers(at.transfer);
    all.push(killed);
    if all.len() < MOST_ATTEMPTS {
        return Step::Again { killed: all };
    }
    let message = format!("{}: {}", at.transfer.kind.failure_context(), reasons(&all));
    Step::End(Ending { phase: DataPathPhase::Failed, message, result: None, has_no_pod })
}

#[cfg(test)]
mod tests;
