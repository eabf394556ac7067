//! Times as the format writes them: signed nanoseconds since 1970, RFC 3339 in text.

use super::FormatError;
use std::fmt;

/// Nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;
/// Nanoseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Nanoseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Nanoseconds of a day.
pub const DAY: i64 = 24 * HOUR;

const NANOS: i128 = SECOND as i128;
const SECONDS_OF_DAY: i64 = DAY / SECOND;

/// Nanoseconds since 1970-01-01T00:00:00Z; 0 is the zero value of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixNanos(pub i64);

impl UnixNanos {
    /// Reads RFC 3339 with any offset, as strictly as Go does: capital `T` and `Z`, two digits each, a fraction after a
    /// point. Digits beyond nanoseconds are cut off.
    ///
    /// # Errors
    /// Other text, and times outside 64 bits.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let nanos = parse_wide(text)?;
        i64::try_from(nanos).map(Self).map_err(|_| bad(text, "is outside the years 1678 to 2261"))
    }
    /// Reads RFC 3339 as [`UnixNanos::parse`]; a time outside 64 bits becomes the nearest inside.
    ///
    /// # Errors
    /// Other text.
    pub fn parse_saturating(text: &str) -> Result<Self, FormatError> {
        let nanos = parse_wide(text)?;
        let nanos = nanos.clamp(i64::MIN.into(), i64::MAX.into());
        Ok(Self(i64::try_from(nanos).unwrap_or_default()))
    }
    /// The time of so many seconds since 1970; one outside 64 bits becomes the latest inside.
    pub fn of_seconds(seconds: u64) -> Self {
        Self(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(SECOND))
    }
    /// The nanoseconds since an earlier time; negative since a later one.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
    /// The time so many nanoseconds before.
    #[must_use]
    pub fn before(self, nanos: i64) -> Self {
        Self(self.0.saturating_sub(nanos))
    }
    /// The time so many nanoseconds later.
    #[must_use]
    pub fn after(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
    /// The whole seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(SECOND)
    }
    /// The nanoseconds after [`UnixNanos::seconds`].
    pub fn subsecond_nanos(self) -> u32 {
        u32::try_from(self.0.rem_euclid(SECOND)).unwrap_or_default()
    }
}

/// RFC 3339 in UTC with up to nine digits of a fraction, without trailing zeros.
impl fmt::Display for UnixNanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.seconds().div_euclid(SECONDS_OF_DAY);
        let second = self.seconds().rem_euclid(SECONDS_OF_DAY);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        let mut nanos = self.subsecond_nanos();
        if nanos != 0 {
            let mut digits = 9;
            while nanos.is_multiple_of(10) {
                nanos /= 10;
                digits -= 1;
            }
            write!(f, ".{nanos:0digits$}")?;
        }
        f.write_str("Z")
    }
}

fn bad(text: &str, why: &str) -> FormatError {
    let text: String = text.chars().take(64).collect();
    FormatError::new("time", format!("{text:?} {why}"))
}

fn parse_wide(text: &str) -> Result<i128, FormatError> {
    parse_parts(text.as_bytes()).ok_or_else(|| bad(text, "is no time of RFC 3339"))
}

fn parse_parts(text: &[u8]) -> Option<i128> {
    let (date, rest) = text.split_at_checked(19)?;
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| date[*at] != *byte) {
        return None;
    }
    let year = number(&date[0..4])?;
    let month = number(&date[5..7])?;
    let day = number(&date[8..10])?;
    let hour = number(&date[11..13])?;
    let minute = number(&date[14..16])?;
    let second = number(&date[17..19])?;
    if !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanos, rest) = match rest.strip_prefix(b".") {
        None => (0, rest),
        Some(rest) => {
            let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (digits, rest) = rest.split_at(count);
            let mut nanos = number(&digits[..count.min(9)])?;
            for _ in count..9 {
                nanos *= 10;
            }
            (nanos, rest)
        }
    };
    let offset = match rest {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let hours = number(&[*h1, *h2])?;
            let minutes = number(&[*m1, *m2])?;
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = hours * 3600 + minutes * 60;
            if *sign == b'+' { offset } else { -offset }
        }
        _ => return None,
    };
    let seconds = days_since_epoch(year, month, day) * SECONDS_OF_DAY + hour * 3600 + minute * 60 + second - offset;
    Some(i128::from(seconds) * NANOS + i128::from(nanos))
}

fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i64, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        Some(value * 10 + i64::from(digit))
    })
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The days from 1970-01-01 to a day of the Gregorian calendar. Years begin in March here, so that a leap day is the last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let century4 = year.div_euclid(400);
    let year_of = year.rem_euclid(400);
    let month_of = (month + 9) % 12;
    let day_of_year = (153 * month_of + 2) / 5 + day - 1;
    century4 * 146_097 + year_of * 365 + year_of / 4 - year_of / 100 + day_of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let century4 = days.div_euclid(146_097);
    let day_of = days.rem_euclid(146_097);
    let year_of = (day_of - day_of / 1460 + day_of / 36_524 - day_of / 146_096) / 365;
    let day_of_year = day_of - (365 * year_of + year_of / 4 - year_of / 100);
    let month_of = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_of + 2) / 5 + 1;
    let month = (month_of + 2) % 12 + 1;
    let year = century4 * 400 + year_of + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::UnixNanos;
    use proptest::prelude::*;

    #[test]
    fn times_are_written_without_zeros_at_the_end_and_read_again() {
        let vectors = [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (-7, "1969-12-31T23:59:59.999999993Z"),
            (1_704_164_645_123_456_789, "2024-01-02T03:04:05.123456789Z"),
            (1_704_164_645_120_000_000, "2024-01-02T03:04:05.12Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00Z"),
            // The zero time of Go, as its nanoseconds overflow.
            (-6_795_364_578_871_345_152, "1754-08-30T22:43:41.128654848Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
        ];
        for (nanos, text) in vectors {
            assert_eq!((UnixNanos(nanos).to_string().as_str(), UnixNanos::parse(text)), (text, Ok(UnixNanos(nanos))));
        }
    }

    #[test]
    fn any_offset_is_read_and_digits_beyond_nanoseconds_are_cut_off() {
        let same = ["2024-01-02T05:34:05+02:30", "2024-01-01T23:04:05-04:00", "2024-01-02T03:04:05.0000000009Z"];
        for text in same {
            assert_eq!(UnixNanos::parse(text), Ok(UnixNanos(1_704_164_645_000_000_000)), "{text}");
        }
    }

    #[test]
    fn a_time_outside_64_bits_is_an_error_or_the_nearest_inside() {
        for (text, nearest) in [("0001-01-01T00:00:00Z", i64::MIN), ("9999-12-31T23:59:59Z", i64::MAX)] {
            assert!(UnixNanos::parse(text).is_err());
            assert_eq!(UnixNanos::parse_saturating(text), Ok(UnixNanos(nearest)));
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        let texts = [
            "",
            "2024-01-02",
            "2024-01-02T03:04:05",
            "2024-01-02t03:04:05Z",
            "2024-01-02T03:04:05z",
            "2024-01-02 03:04:05Z",
            "2024-1-02T03:04:05Z",
            "2024-13-02T03:04:05Z",
            "2023-02-29T03:04:05Z",
            "1900-02-29T03:04:05Z",
            "2024-01-00T03:04:05Z",
            "2024-01-02T24:04:05Z",
            "2024-01-02T03:60:05Z",
            "2024-01-02T03:04:60Z",
            "2024-01-02T03:04:05.Z",
            "2024-01-02T03:04:05,5Z",
            "2024-01-02T03:04:05+0200",
            "2024-01-02T03:04:05+24:00",
            "2024-01-02T03:04:05Zx",
            "+024-01-02T03:04:05Z",
        ];
        for text in texts {
            assert!(UnixNanos::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_time_is_read_as_it_was_written(nanos in any::<i64>()) {
            prop_assert_eq!(UnixNanos::parse(&UnixNanos(nanos).to_string()), Ok(UnixNanos(nanos)));
        }

        #[test]
        fn no_text_panics(text in any::<String>(), digits in "[0-9TZ:.+-]{0,40}") {
            let _ = (UnixNanos::parse(&text), UnixNanos::parse(&digits));
        }
    }
}
