//! The few facts that an agent remembers between two looks. An agent that starts without them only waits a little longer.

use crate::rules::Step;
use crate::transfer::TransferKey;
use jiff::Timestamp;
use lifeboat_mover::protocol::Bytes as Moved;
use lifeboat_reconcile::StepBackoff;
use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use tokio::time::Instant;

/// Facts about the transfers that are known.
#[derive(Debug, Default)]
pub(super) struct TransferMemory {
    of: BTreeMap<TransferKey, Remembered>,
    /// The first looks at which no node agent worked on a node.
    without_agent: BTreeMap<String, Timestamp>,
}

/// Facts about a transfer.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) cancel_seen: Option<Timestamp>,
    /// The first look at which its volume was on its way.
    pub(super) delivery_seen: Option<Timestamp>,
    /// The last time at which bytes were moved, and how many in all.
    pub(super) moved: Option<(Timestamp, Moved)>,
    pub(super) reported: Option<Timestamp>,
    backoffs: Vec<(Discriminant<Step>, StepBackoff)>,
}

impl Remembered {
    /// The moment before which a step is not tried again.
    pub(super) fn paused_until(&self, step: &Step, now: Instant) -> Option<Instant> {
        let kind = discriminant(step);
        self.backoffs.iter().find(|(of, backoff)| *of == kind && backoff.until > now).map(|(_, backoff)| backoff.until)
    }

    /// Pauses a step; a failure longer than the one before.
    pub(super) fn pause(&mut self, step: Discriminant<Step>, pause: impl FnOnce(Option<StepBackoff>) -> StepBackoff) {
        let before = self.backoffs.iter().position(|(of, _)| *of == step).map(|at| self.backoffs.swap_remove(at).1);
        self.backoffs.push((step, pause(before)));
    }

    /// Forgets the failures of a step.
    pub(super) fn succeeded(&mut self, step: Discriminant<Step>) {
        self.backoffs.retain(|(of, _)| *of != step);
    }

    /// Forgets what belongs to an attempt that is over.
    pub(super) fn begin_again(&mut self) {
        self.backoffs.clear();
        self.moved = None;
    }

    /// Notes how far a transfer has come.
    pub(super) fn has_moved(&mut self, moved: Moved, now: Timestamp) {
        if self.moved.is_none_or(|(_, before)| before != moved) {
            self.moved = Some((now, moved));
        }
    }
}

impl TransferMemory {
    pub(super) fn of(&mut self, key: &TransferKey) -> &mut Remembered {
        self.of.entry(key.clone()).or_default()
    }

    /// Forgets what no longer exists.
    pub(super) fn keep(&mut self, is_there: impl Fn(&TransferKey) -> bool) {
        self.of.retain(|key, _| is_there(key));
    }

    /// The time since which no node agent works on a node; `None` when one does.
    pub(super) fn without_agent(&mut self, node: &str, has_agent: bool, now: Timestamp) -> Option<Timestamp> {
        if has_agent {
            self.without_agent.remove(node);
            return None;
        }
        Some(*self.without_agent.entry(node.to_owned()).or_insert(now))
    }
}
