//! Rates by several samples of the same transfers.

use super::VolumeTransfer;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The time over which a rate is taken.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// The time without progress from which on it is told. A node agent writes it every ten seconds.
const IDLE: SignedDuration = SignedDuration::from_secs(60);

/// Samples at transfers, by the UIDs of their resources.
#[derive(Clone, Debug, Default)]
pub struct TransferRates {
    of: BTreeMap<String, Samples>,
}

/// The different states in which a transfer was seen lately, the oldest first.
#[derive(Clone, Debug)]
struct Samples {
    samples: VecDeque<TransferSample>,
    /// The time here at which the last one was seen.
    changed: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TransferSample {
    /// The time at which so much was moved, by the clock of the node agent where it tells that.
    at: Timestamp,
    bytes: i64,
    files: i64,
}

impl TransferRates {
    /// Takes a sample, and gives the transfers that move their rates, and the times for which nothing was moved.
    pub fn note(&mut self, transfers: &mut [VolumeTransfer], now: Timestamp) {
        let moving: BTreeSet<&str> =
            transfers.iter().filter(|one| one.is_moving()).map(|one| one.uid.as_str()).collect();
        self.of.retain(|uid, _| moving.contains(uid.as_str()));
        for transfer in transfers.iter_mut().filter(|transfer| transfer.is_moving()) {
            let sample = TransferSample {
                at: transfer.moved_at.unwrap_or(now),
                bytes: transfer.bytes.bytes_done,
                files: transfer.files.map_or(0, |files| files.done),
            };
            let first = || Samples { samples: VecDeque::new(), changed: now };
            let known = self.of.entry(transfer.uid.clone()).or_insert_with(first);
            known.see(sample, now);
            transfer.rate = known.rate().or(transfer.rate);
            let idle = now.duration_since(known.changed);
            transfer.idle = (idle >= IDLE).then_some(idle);
            if transfer.idle.is_some() {
                transfer.rate = None;
            }
        }
    }
}

impl Samples {
    fn see(&mut self, sample: TransferSample, now: Timestamp) {
        if let Some(last) = self.samples.back() {
            if (last.bytes, last.files) == (sample.bytes, sample.files) {
                return;
            }
            // Another attempt counts anew.
            if sample.bytes < last.bytes || sample.at < last.at {
                self.samples.clear();
            }
        }
        self.changed = now;
        self.samples.push_back(sample);
        while self.samples.len() > 2
            && self.samples.front().is_some_and(|first| sample.at.duration_since(first.at) > WINDOW)
        {
            self.samples.pop_front();
        }
    }

    /// Bytes in a second; `None` before there were two samples.
    fn rate(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        (seconds >= 1.0).then(|| last.bytes.saturating_sub(first.bytes) as f64 / seconds)
    }
}
