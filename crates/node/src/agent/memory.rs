//! The few facts that an agent remembers between two looks. An agent that starts without them only waits a little longer.

use crate::rules::Step;
use crate::transfer::{Transfer, TransferKey};
use jiff::Timestamp;
use lifeboat_api::DataPathPhase;
use lifeboat_mover::protocol::MovedData;
use lifeboat_reconcile::RetryMemory;
use std::collections::BTreeMap;
use std::mem::Discriminant;

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
    /// The last time at which bytes or files were moved, and how many in all.
    pub(super) moved: Option<(Timestamp, MovedData)>,
    pub(super) reported: Option<Timestamp>,
    pub(super) retries: RetryMemory<Discriminant<Step>>,
}

impl Remembered {
    /// Notes a look at a transfer, for which this agent may have to act.
    pub(super) fn look(&mut self, transfer: &Transfer, may_act: bool, now: Timestamp) {
        if transfer.cancel && !transfer.has_ended() {
            self.cancel_seen.get_or_insert(now);
        }
        if may_act && transfer.delivery().is_some() {
            self.delivery_seen.get_or_insert(now);
        }
        if may_act && transfer.phase == DataPathPhase::InProgress {
            self.moved.get_or_insert((now, MovedData::default()));
        }
    }

    /// Forgets what belongs to an attempt that is over.
    pub(super) fn begin_again(&mut self) {
        self.retries.clear();
        self.moved = None;
    }

    /// Notes how far a transfer has come.
    pub(super) fn has_moved(&mut self, moved: MovedData, now: Timestamp) {
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
