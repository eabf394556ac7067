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

    /// Whether it is zero.
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

/// The text is no Go duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time: invalid duration {0:?}")]
pub struct ParseDurationError(String);

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self).ok_or_else(|| ParseDurationError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(end);
        let (unit, tail) = [
            ("ns", NANO),
            ("us", MICRO),
            ("µs", MICRO),
            ("μs", MICRO),
            ("ms", MILLI),
            ("s", SECOND),
            ("m", MINUTE),
            ("h", HOUR),
        ]
        .into_iter()
        .find_map(|(name, unit)| {
            let tail = tail.strip_prefix(name)?;
            tail.chars().next().is_none_or(|c| c == '.' || c.is_ascii_digit()).then_some((i128::from(unit), tail))
        })?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && decimals.is_empty()) || decimals.contains('.') || whole.len() > 19 {
            return None;
        }
        total += whole.parse::<i128>().or(if whole.is_empty() { Ok(0) } else { Err(()) }).ok()? * unit;
        let decimals = &decimals[..decimals.len().min(18)];
        if !decimals.is_empty() {
            total += decimals.parse::<i128>().ok()? * unit / 10i128.pow(u32::try_from(decimals.len()).ok()?);
        }
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).ok()
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
        for text in ["", "1", "s", "1d", "1h-1m", ".s", "1..2s", "9999999999999h", "1h 1m", "-"] {
            assert_eq!(text.parse::<Duration>(), Err(ParseDurationError(text.to_owned())), "{text}");
        }
    }
}
