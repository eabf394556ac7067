//! Rates by several looks at the same transfers.

use super::VolumeTransfer;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The time over which a rate is taken.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// The time without progress from which on it is told. A node agent writes it every ten seconds.
const IDLE: SignedDuration = SignedDuration::from_secs(60);

/// Looks at transfers, by the UIDs of their resources.
#[derive(Clone, Debug, Default)]
pub struct TransferRates {
    of: BTreeMap<String, Looks>,
}

/// The different states in which a transfer was seen lately, the oldest first.
#[derive(Clone, Debug)]
struct Looks {
    looks: VecDeque<Look>,
    /// The time here at which the last one was seen.
    changed: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// The time at which so much was moved, by the clock of the node agent where it tells that.
    at: Timestamp,
    bytes: i64,
    files: i64,
}

impl TransferRates {
    /// Takes a look, and gives the transfers that move their rates, and the times for which nothing was moved.
    pub fn note(&mut self, transfers: &mut [VolumeTransfer], now: Timestamp) {
        let moving: BTreeSet<&str> = transfers.iter().filter(|one| one.moves()).map(|one| one.uid.as_str()).collect();
        self.of.retain(|uid, _| moving.contains(uid.as_str()));
        for transfer in transfers.iter_mut().filter(|transfer| transfer.moves()) {
            let look = Look {
                at: transfer.moved_at.unwrap_or(now),
                bytes: transfer.bytes.bytes_done,
                files: transfer.files.map_or(0, |files| files.done),
            };
            let first = || Looks { looks: VecDeque::new(), changed: now };
            let known = self.of.entry(transfer.uid.clone()).or_insert_with(first);
            known.see(look, now);
            transfer.rate = known.rate().or(transfer.rate);
            let idle = now.duration_since(known.changed);
            transfer.idle = (idle >= IDLE).then_some(idle);
            if transfer.idle.is_some() {
                transfer.rate = None;
            }
        }
    }
}

impl Looks {
    fn see(&mut self, look: Look, now: Timestamp) {
        if let Some(last) = self.looks.back() {
            if (last.bytes, last.files) == (look.bytes, look.files) {
                return;
            }
            // Another attempt counts anew.
            if look.bytes < last.bytes || look.at < last.at {
                self.looks.clear();
            }
        }
        self.changed = now;
        self.looks.push_back(look);
        while self.looks.len() > 2 && self.looks.front().is_some_and(|first| look.at.duration_since(first.at) > WINDOW)
        {
            self.looks.pop_front();
        }
    }

    /// Bytes in a second; `None` before there were two looks.
    fn rate(&self) -> Option<f64> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        (seconds >= 1.0).then(|| last.bytes.saturating_sub(first.bytes) as f64 / seconds)
    }
}
