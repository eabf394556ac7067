//! Durations as Go prints and parses them: `1h30m0s`, `1.5s`, `300ms`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A Go `time.Duration`: signed nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

const NANO: i64 = 1;
const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

impl Duration {
    /// No time at all; most fields read it as "use the default".
    pub const ZERO: Self = Self(0);

    /// Whole seconds; saturates at about 292 years.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }

    /// The nanoseconds.
    #[must_use]
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }

    /// Returns true if it is zero.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// As a standard duration; negative ones become zero.
    #[must_use]
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let total = self.0.unsigned_abs();
        let unit = |n: i64| n.unsigned_abs();
        if total < unit(SECOND) {
            let (size, name) = match total {
                n if n < unit(MICRO) => (unit(NANO), "ns"),
                n if n < unit(MILLI) => (unit(MICRO), "µs"),
                _ => (unit(MILLI), "ms"),
            };
            return write!(f, "{}{name}", fraction(total, size));
        }
        let (hours, rest) = (total / unit(HOUR), total % unit(HOUR));
        let (minutes, rest) = (rest / unit(MINUTE), rest % unit(MINUTE));
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", fraction(rest, unit(SECOND)))
    }
}

/// `value / size` with as many decimals as needed.
fn fraction(value: u64, size: u64) -> String {
    let digits = size.ilog10() as usize;
    let text = format!("{}.{:0digits$}", value / size, value % size);
    if digits == 0 { (value / size).to_string() } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// The text is no Go duration; in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// It is not made of numbers and units, or too long.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {0:?}")]
    NoUnit(String),
    /// A number has a unit that there is not.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// The error in a text that is no duration.
enum Wrong<'a> {
    Form,
    NoUnit,
    Unit(&'a str),
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self).map_err(|wrong| match wrong {
            Wrong::Form => ParseDurationError::Invalid(text.to_owned()),
            Wrong::NoUnit => ParseDurationError::NoUnit(text.to_owned()),
            Wrong::Unit(unit) => ParseDurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() },
        })
    }
}

fn parse(text: &str) -> Result<i64, Wrong<'_>> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(Wrong::Form);
    }
    let is_number = |c: char| c == '.' || c.is_ascii_digit();
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c| !is_number(c)).unwrap_or(rest.len()));
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && decimals.is_empty()) || whole.len() > 19 {
            return Err(Wrong::Form);
        }
        // A second point is no part of the number, and no unit.
        if decimals.contains('.') || tail.is_empty() {
            return Err(Wrong::NoUnit);
        }
        let (unit, tail) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
        let size = match unit {
            "ns" => NANO,
            "us" | "µs" | "μs" => MICRO,
            "ms" => MILLI,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            _ => return Err(Wrong::Unit(unit)),
        };
        total += digits(whole)? * i128::from(size);
        let decimals = &decimals[..decimals.len().min(18)];
        let one = u32::try_from(decimals.len()).map_err(|_| Wrong::Form)?;
        total += digits(decimals)? * i128::from(size) / 10i128.pow(one);
        if total > i128::from(i64::MAX) + 1 {
            return Err(Wrong::Form);
        }
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| Wrong::Form)
}

/// The number; none is zero.
fn digits(text: &str) -> Result<i128, Wrong<'_>> {
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| Wrong::Form) }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_as_go() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (HOUR * 720, "720h0m0s"),
            (10 * MINUTE, "10m0s"),
            (HOUR + SECOND + 1_000_000, "1h0m1.001s"),
            (-HOUR, "-1h0m0s"),
            (i64::MAX, "2562047h47m16.854775807s"),
        ] {
            assert_eq!(Duration(nanoseconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Duration(nanoseconds)));
        }
        for (text, nanoseconds) in
            [("1h", HOUR), ("+5s", 5 * SECOND), ("1.5h", 90 * MINUTE), (".5s", SECOND / 2), ("1us", MICRO)]
        {
            assert_eq!(text.parse(), Ok(Duration(nanoseconds)), "{text}");
        }
        for (text, why) in [
            ("", "invalid duration \"\""),
            ("s", "invalid duration \"s\""),
            (".s", "invalid duration \".s\""),
            ("-", "invalid duration \"-\""),
            ("9999999999999h", "invalid duration \"9999999999999h\""),
            ("1", "missing unit in duration \"1\""),
            ("1..2s", "missing unit in duration \"1..2s\""),
            ("1d", "unknown unit \"d\" in duration \"1d\""),
            ("1h-1m", "unknown unit \"h-\" in duration \"1h-1m\""),
            ("1h 1m", "unknown unit \"h \" in duration \"1h 1m\""),
        ] {
            let wrong = text.parse::<Duration>().map_err(|e| e.to_string());
            assert_eq!(wrong, Err(format!("time: {why}")), "{text}");
        }
    }
}
