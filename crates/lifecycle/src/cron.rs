//! When a schedule is due: the cron dialect of Velero's releases, which is that of robfig/cron. Pure.
//!
//! A text is five fields (minute, hour, day of month, month, day of week), one of the words from `@yearly` to `@hourly`, or
//! `@every` with a duration; `CRON_TZ=ZONE` or `TZ=ZONE` may go before. Days of month and of week, when both are given, are
//! alternatives.
//!
//! Where a zone sets its clocks forward or back, Velero's releases leave out what falls into the gap and repeat what comes
//! twice. Here a time in the gap is due at its end, and one that comes twice is due the first time, as in later versions of
//! Velero; a schedule for every hour goes by the hours as they pass.

mod error;
mod fields;
#[cfg(test)]
pub mod tests;
mod zoned;

pub use error::CronError;

use fields::CronFields;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::Duration;
use zoned::Zoned;

/// The times at which a schedule is due.
#[derive(Clone, Debug, PartialEq)]
pub enum Cron {
    /// A number of seconds after the last time, at least one.
    Every(i64),
    /// Times by the clocks of a zone.
    At(Zoned),
}

impl Cron {
    /// Reads a schedule; `local` is the zone of one that names none.
    ///
    /// # Errors
    /// [`CronError`], in the words of Velero's releases.
    pub fn parse(text: &str, local: &TimeZone) -> Result<Self, CronError> {
        if text.is_empty() {
            return Err(CronError::Empty);
        }
        let (zone, text) = zone(text, local)?;
        let fields = if text.starts_with('@') {
            if let Some(delay) = text.strip_prefix("@every ") {
                return every(text, delay);
            }
            CronFields::of_word(text)?
        } else {
            CronFields::parse(text)?
        };
        if fields.is_never() {
            return Err(CronError::Never(text.to_owned()));
        }
        Ok(Self::At(Zoned { fields, zone }))
    }

    /// The first time after this one; `None` when there is none that could be written down.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(seconds) => whole(after)?.checked_add(SignedDuration::from_secs(*seconds)).ok(),
            Self::At(times) => times.next(after),
        }
    }

    /// The last time up to `now`, unless there was none after `since`, when the last run was.
    pub fn latest(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(seconds) => {
                let since = whole(since)?;
                let passed = now.as_second().saturating_sub(since.as_second());
                let runs = (passed >= *seconds).then(|| passed / seconds)?;
                since.checked_add(SignedDuration::from_secs(runs * seconds)).ok()
            }
            Self::At(times) => times.latest(since, now),
        }
    }
}

/// The time without the fraction of its second.
fn whole(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second()).ok()
}

/// The zone of a schedule; `local` is that of one that names none, or one that is not known.
pub fn zone_of(text: &str, local: &TimeZone) -> TimeZone {
    zone(text, local).map_or_else(|_| local.clone(), |(zone, _)| zone)
}

/// The zone that a text begins with, and the rest of it.
fn zone<'a>(text: &'a str, local: &TimeZone) -> Result<(TimeZone, &'a str), CronError> {
    let Some(named) = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) else {
        return Ok((local.clone(), text));
    };
    let (name, rest) = named.split_once(' ').ok_or_else(|| CronError::OnlyZone(text.to_owned()))?;
    let zone = match name {
        "" | "UTC" => TimeZone::UTC,
        "Local" => local.clone(),
        name => {
            // A name in other letters than those of the database would be refused by Velero.
            let found = TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name));
            found.ok_or_else(|| CronError::UnknownZone(name.to_owned()))?
        }
    };
    Ok((zone, rest.trim()))
}

fn every(text: &str, delay: &str) -> Result<Cron, CronError> {
    let wrong = |why| CronError::Duration { text: text.to_owned(), why };
    let delay: Duration = delay.parse().map_err(wrong)?;
    Ok(Cron::Every((delay.nanoseconds() / 1_000_000_000).max(1)))
}
