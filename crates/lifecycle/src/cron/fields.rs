//! The five fields, and the times of a clock that match them. No zone is known here.

use super::error::CronError;
use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, ToSpan};
use std::ops::RangeInclusive;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A rare day, such as the 29th of February, comes in this many years at least once, also where a century has no leap year.
pub(super) const LONGEST_WAIT_YEARS: i64 = 9;

/// The values of each field that match; bit `n` stands for the value `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CronFields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Days of month and of week are alternatives: neither is a star.
    are_alternatives: bool,
    /// Every hour matches, by a star.
    pub(super) is_hourly: bool,
}

/// A field: its values, and the names of some.
struct CronField {
    values: RangeInclusive<u64>,
    names: &'static [&'static str],
}

/// The values of a field that match, and whether it has a star.
#[derive(Clone, Copy)]
struct MatchingValues {
    bits: u64,
    has_star: bool,
}

const fn field(least: u64, most: u64, names: &'static [&'static str]) -> CronField {
    CronField { values: least..=most, names }
}

const MINUTE: CronField = field(0, 59, &[]);
const HOUR: CronField = field(0, 23, &[]);
const DAY: CronField = field(1, 31, &[]);
const MONTH: CronField = field(1, 12, &MONTHS);
const WEEKDAY: CronField = field(0, 6, &WEEKDAYS);

impl CronFields {
    /// Reads five fields that blanks separate.
    pub(super) fn parse(text: &str) -> Result<Self, CronError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = words[..] else {
            return Err(CronError::Count { count: words.len(), fields: words.join(" ") });
        };
        let (minutes, hours) = (MINUTE.parse(minute)?, HOUR.parse(hour)?);
        let (days, months, weekdays) = (DAY.parse(day)?, MONTH.parse(month)?, WEEKDAY.parse(weekday)?);
        Ok(Self {
            minutes: minutes.bits,
            hours: hours.bits,
            days: days.bits,
            months: months.bits,
            weekdays: weekdays.bits,
            are_alternatives: !days.has_star && !weekdays.has_star,
            is_hourly: hours.has_star,
        })
    }

    /// Parses a word such as `@daily`.
    pub(super) fn of_word(word: &str) -> Result<Self, CronError> {
        Self::parse(match word {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => return Err(CronError::UnknownWord(word.to_owned())),
        })
    }

    /// Returns true if no time ever matches, such as the 30th of February.
    pub(super) fn is_never(&self) -> bool {
        let from = jiff::civil::date(2096, 1, 1).at(0, 0, 0, 0);
        let before = from.checked_add(LONGEST_WAIT_YEARS.years()).unwrap_or(DateTime::MAX);
        self.first(from, before).is_none()
    }

    /// The first time that matches, from one on (with seconds, from the next full minute on) and before another one.
    pub(super) fn first(&self, from: DateTime, before: DateTime) -> Option<DateTime> {
        let from = if from.second() > 0 || from.subsec_nanosecond() > 0 { minute_after(from)? } else { from };
        let (mut date, mut hour, mut minute) = (from.date(), from.hour(), from.minute());
        while date <= before.date() {
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if let Some((hour, minute)) = self.first_of_day(date, hour, minute) {
                return Some(date.at(hour, minute, 0, 0)).filter(|found| *found < before);
            } else {
                date = date.tomorrow().ok()?;
            }
            (hour, minute) = (0, 0);
        }
        None
    }

    /// The last time that matches, down from one and not before another one.
    pub(super) fn last(&self, from: DateTime, to: DateTime) -> Option<DateTime> {
        let (mut date, mut hour, mut minute) = (to.date(), to.hour(), to.minute());
        while date >= from.date() {
            if !has(self.months, date.month()) {
                date = date.first_of_month().yesterday().ok()?;
            } else if let Some((hour, minute)) = self.last_of_day(date, hour, minute) {
                return Some(date.at(hour, minute, 0, 0)).filter(|found| *found >= from);
            } else {
                date = date.yesterday().ok()?;
            }
            (hour, minute) = (23, 59);
        }
        None
    }

    fn matches_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.are_alternatives { day || weekday } else { day && weekday }
    }

    /// The first time of a day from an hour and minute on.
    fn first_of_day(&self, date: Date, hour: i8, minute: i8) -> Option<(i8, i8)> {
        if !self.matches_day(date) {
            return None;
        }
        let in_hour = if has(self.hours, hour) { lowest(self.minutes, minute) } else { None };
        match in_hour {
            Some(minute) => Some((hour, minute)),
            None => Some((lowest(self.hours, hour + 1)?, lowest(self.minutes, 0)?)),
        }
    }

    /// The last time of a day up to an hour and minute.
    fn last_of_day(&self, date: Date, hour: i8, minute: i8) -> Option<(i8, i8)> {
        if !self.matches_day(date) {
            return None;
        }
        let in_hour = if has(self.hours, hour) { highest(self.minutes, minute) } else { None };
        match in_hour {
            Some(minute) => Some((hour, minute)),
            None => Some((highest(self.hours, hour - 1)?, highest(self.minutes, 59)?)),
        }
    }
}

/// The next full minute.
pub(super) fn minute_after(time: DateTime) -> Option<DateTime> {
    let minute = time.date().at(time.hour(), time.minute(), 0, 0);
    minute.checked_add(SignedDuration::from_mins(1)).ok()
}

fn has(bits: u64, value: i8) -> bool {
    bits >> value & 1 == 1
}

/// The lowest value from this one on.
fn lowest(bits: u64, from: i8) -> Option<i8> {
    let rest = bits.checked_shr(u32::try_from(from).ok()?).filter(|rest| *rest != 0)?;
    i8::try_from(rest.trailing_zeros()).ok()?.checked_add(from)
}

/// The highest value up to this one.
fn highest(bits: u64, to: i8) -> Option<i8> {
    let above = 63u32.checked_sub(u32::try_from(to).ok()?)?;
    let rest = (bits << above >> above != 0).then_some(bits << above >> above)?;
    i8::try_from(rest.ilog2()).ok()
}

impl CronField {
    /// A list of ranges; an empty one matches nothing.
    fn parse(&self, text: &str) -> Result<MatchingValues, CronError> {
        let mut all = MatchingValues { bits: 0, has_star: false };
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let one = self.range(range)?;
            all = MatchingValues { bits: all.bits | one.bits, has_star: all.has_star || one.has_star };
        }
        Ok(all)
    }

    /// A number, a name, two of them with a hyphen, or a star; a step after a slash.
    fn range(&self, text: &str) -> Result<MatchingValues, CronError> {
        let (least, most) = (*self.values.start(), *self.values.end());
        let own = || text.to_owned();
        let (range, step) = match text.split('/').collect::<Vec<_>>()[..] {
            [range] => (range, None),
            [range, step] => (range, Some(step)),
            _ => return self.before_slashes(text),
        };
        let ends: Vec<&str> = range.split('-').collect();
        let is_star = matches!(ends[0], "*" | "?");
        let (start, mut end) = match ends[..] {
            // compat: what follows the hyphen after a star is not looked at.
            _ if is_star => (least, most),
            [only] => self.value(only).map(|value| (value, value))?,
            [start, end] => (self.value(start)?, self.value(end)?),
            _ => {
                self.value(ends[0])?;
                return Err(CronError::Hyphens(own()));
            }
        };
        let given = step.map(number).transpose()?;
        if given.is_some() && ends.len() == 1 {
            end = most;
        }
        if start < least {
            return Err(CronError::TooLow { start, least, text: own() });
        }
        if end > most {
            return Err(CronError::TooHigh { end, most, text: own() });
        }
        if start > end {
            return Err(CronError::Backward { start, end, text: own() });
        }
        let step = given.unwrap_or(1);
        let width = usize::try_from(step).unwrap_or(usize::MAX);
        if width == 0 {
            return Err(CronError::NoStep(own()));
        }
        let bits = (start..=end).step_by(width).fold(0, |bits, value| bits | (1 << value));
        Ok(MatchingValues { bits, has_star: is_star && step == 1 })
    }

    /// Too many slashes; what is wrong before the first one is said first.
    fn before_slashes(&self, text: &str) -> Result<MatchingValues, CronError> {
        let before = text.split('/').next().unwrap_or_default();
        match self.range(before) {
            Err(e @ (CronError::Number { .. } | CronError::Negative { .. })) => Err(e),
            Err(CronError::Hyphens(_)) => Err(CronError::Hyphens(text.to_owned())),
            _ => Err(CronError::Slashes(text.to_owned())),
        }
    }

    /// A name, in any case, or a number.
    fn value(&self, text: &str) -> Result<u64, CronError> {
        let name = self.names.iter().position(|name| text.to_lowercase() == *name);
        match name {
            Some(at) => Ok(self.values.start() + at as u64),
            None => number(text),
        }
    }
}

/// A number as Go reads it.
fn number(text: &str) -> Result<u64, CronError> {
    let wrong = |why| CronError::Number { text: text.to_owned(), why };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| wrong("value out of range"))?;
    u64::try_from(number).map_err(|_| CronError::Negative { number, text: text.to_owned() })
}
