//! The moments at which the clocks of a zone show times that match. Between two changes of its offset a zone's clocks go on
//! evenly: each such stretch is searched as it is, and what lies between is decided at the change.

use super::fields::{CronFields, LONGEST_WAIT_YEARS, minute_after};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// Longer than the time between two matches of any fields that match at all.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(24 * 366 * LONGEST_WAIT_YEARS);

/// Times that match, by the clocks of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Zoned {
    pub(super) fields: CronFields,
    pub(super) zone: TimeZone,
}

/// A change of the offset.
#[derive(Clone, Copy)]
struct OffsetChange {
    at: Timestamp,
    before: Offset,
    after: Offset,
}

impl OffsetChange {
    /// The time that the clocks would show without the change, and the time that they show instead.
    fn times(self) -> (DateTime, DateTime) {
        (self.before.to_datetime(self.at), self.after.to_datetime(self.at))
    }
}

impl Zoned {
    /// The first moment after this one.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let end = after.checked_add(LONGEST_WAIT).unwrap_or(Timestamp::MAX);
        let mut offset = self.zone.to_offset(after);
        let mut from = minute_after(offset.to_datetime(after))?;
        if let Some(last) = self.change_up_to(after) {
            from = from.max(self.begin(last));
        }
        let mut at = after;
        while at < end {
            let change = self.change_after(at, offset);
            let before = change.map_or_else(|| offset.to_datetime(end), |change| change.times().0);
            if let Some(found) = self.fields.first(from, before) {
                return offset.to_timestamp(found).ok();
            }
            let change = change?;
            if self.is_due_at(change) {
                return Some(change.at);
            }
            (at, offset, from) = (change.at, change.after, self.begin(change));
        }
        None
    }

    /// The last moment up to `now`, unless there was none after `since`.
    pub(super) fn latest(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let mut offset = self.zone.to_offset(now);
        let (mut at, mut to) = (now, offset.to_datetime(now));
        while at > since {
            let change = self.change_up_to(at);
            let oldest = offset.to_datetime(since);
            let from = change.map_or(oldest, |change| self.begin(change).max(oldest));
            if let Some(found) = self.fields.last(from, to) {
                return offset.to_timestamp(found).ok().filter(|found| *found > since);
            }
            let change = change.filter(|change| change.at > since)?;
            if self.is_due_at(change) {
                return Some(change.at);
            }
            at = change.at.checked_sub(SignedDuration::from_nanos(1)).ok()?;
            (offset, to) = (change.before, change.before.to_datetime(at));
        }
        None
    }

    /// The first time that counts after a change. A time that the clocks show twice counted before the change, unless
    /// the schedule takes hours as they pass.
    fn begin(&self, change: OffsetChange) -> DateTime {
        let (old, new) = change.times();
        if self.fields.is_hourly { new } else { new.max(old) }
    }

    /// Returns true if a time matches that the clocks leave out at this change.
    fn is_due_at(&self, change: OffsetChange) -> bool {
        let (old, new) = change.times();
        !self.fields.is_hourly && self.fields.first(old, new).is_some()
    }

    /// The first change after a moment at which this was the offset.
    fn change_after(&self, at: Timestamp, before: Offset) -> Option<OffsetChange> {
        let next = self.zone.following(at).find(|next| next.offset() != before)?;
        Some(OffsetChange { at: next.timestamp(), before, after: next.offset() })
    }

    /// The last change up to a moment.
    fn change_up_to(&self, at: Timestamp) -> Option<OffsetChange> {
        let until = at.checked_add(SignedDuration::from_nanos(1)).ok()?;
        let changes = self.zone.preceding(until).map_while(|last| {
            let before = last.timestamp().checked_sub(SignedDuration::from_nanos(1)).ok()?;
            Some(OffsetChange { at: last.timestamp(), before: self.zone.to_offset(before), after: last.offset() })
        });
        // Some change only the name of the zone.
        { changes }.find(|change| change.before != change.after)
    }
}
