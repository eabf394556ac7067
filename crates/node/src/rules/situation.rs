//! Everything that the next step of a transfer depends on, and the steps. Pure.

use crate::attempts::{KilledMover, killed_movers, reasons};
use crate::outcome::TransferResult;
use crate::pod::PodView;
use crate::transfer::Transfer;
use crate::user_pod::UserPod;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{DataPathPhase, NodeOs};
use lifeboat_volume::mover_pod::MOST_ATTEMPTS;

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
    /// No other working agent is on a node before this one, by name: it says of new transfers that any node may do what
    /// they wait for.
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

    pub(crate) fn failed(message: impl Into<String>) -> Step {
        Self::step(DataPathPhase::Failed, message)
    }

    pub(crate) fn canceled(message: impl Into<String>) -> Step {
        Self::step(DataPathPhase::Canceled, message)
    }
}

pub(crate) fn is_canceled(transfer: &Transfer) -> bool {
    transfer.cancel || transfer.is_being_deleted()
}

/// The message of one that is canceled. A message that says why it was canceled stays.
pub(crate) fn cancel_message(at: &Situation<'_>) -> String {
    let transfer = at.transfer;
    match transfer.is_being_deleted() {
        true => format!("Cancel {} because it is being deleted", transfer.kind.short_word()),
        false if transfer.message.starts_with("Cancel") => transfer.message.clone(),
        false => format!("Cancel was asked for; nothing was {}", transfer.kind.participle()),
    }
}

/// The mover of a transfer whose pod is gone.
pub(crate) fn removed(transfer: &Transfer) -> KilledMover {
    let when = if transfer.phase == DataPathPhase::Prepared { "before it began" } else { "while it ran" };
    let (namespace, name) = (&transfer.meta.namespace, &transfer.meta.name);
    KilledMover::ended("", format!("the mover's pod {namespace}/{name} was removed {when}"))
}

/// The step after a mover was killed: another attempt, if there were not too many.
pub(crate) fn after_kill(at: &Situation<'_>, killed: KilledMover) -> Step {
    let has_no_pod = killed.pod.is_empty();
    let mut all = killed_movers(at.transfer);
    all.push(killed);
    if all.len() < MOST_ATTEMPTS {
        return Step::Again { killed: all };
    }
    let message = format!("{}: {}", at.transfer.kind.failure_context(), reasons(&all));
    Step::End(Ending { phase: DataPathPhase::Failed, message, result: None, has_no_pod })
}
