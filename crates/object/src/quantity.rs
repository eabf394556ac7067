//! Quantities of Kubernetes: `500m`, `1.5`, `512Mi`.

use std::fmt;

/// An amount that is not negative, in units of 10⁻⁹, and whether it was written with a suffix of powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    nano: i128,
    binary: bool,
}

const NANO: i128 = 1_000_000_000;
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From the smallest, each a thousand times the one before.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nano: 0, binary: false };

    /// Parses a quantity; `None` when the text is none, and for negative ones, which nothing has.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + decimals.len() == 0 || decimals.contains('.') || whole.len() > 18 || decimals.len() > 9 {
            return None;
        }
        let digits: i128 = format!("{whole}{decimals}").parse().ok()?;
        let (scale, binary) = scale(suffix)?;
        let divisor = 10i128.pow(u32::try_from(decimals.len()).ok()?);
        // What is smaller than a billionth is rounded up, as the API server does.
        Some(Self { nano: digits.checked_mul(scale)?.checked_add(divisor - 1)? / divisor, binary })
    }

    /// Returns true if the amount is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Returns true if it is more than the other, whatever the notation of either.
    #[must_use]
    pub fn exceeds(self, other: Self) -> bool {
        self.nano > other.nano
    }
}

/// The factor of a suffix in billionths, and whether it is a power of 1024.
fn scale(suffix: &str) -> Option<(i128, bool)> {
    if let Some(at) = BINARY.iter().position(|s| *s == suffix) {
        return Some((NANO << (10 * (at + 1)), true));
    }
    if let Some(at) = DECIMAL.iter().position(|s| *s == suffix) {
        return Some((1000i128.pow(u32::try_from(at).ok()?), false));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = u32::try_from(exponent.checked_add(9)?).ok().filter(|power| *power <= 27)?;
    Some((10i128.pow(power), false))
}

/// As the API server writes it: the largest suffix that leaves no fraction.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano == 0 {
            return f.write_str("0");
        }
        if self.binary && self.nano % NANO == 0 && self.nano >= 1024 * NANO {
            let (mut value, mut suffix) = (self.nano / NANO, "");
            for next in BINARY {
                if value % 1024 != 0 {
                    break;
                }
                (value, suffix) = (value / 1024, next);
            }
            return write!(f, "{value}{suffix}");
        }
        let (mut value, mut at) = (self.nano, 0);
        while value % 1000 == 0 && at + 1 < DECIMAL.len() {
            (value, at) = (value / 1000, at + 1);
        }
        write!(f, "{value}{}", DECIMAL[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_the_api_server_does() {
        for (text, expected) in [
            ("0", "0"),
            ("500m", "500m"),
            ("1000m", "1"),
            ("1", "1"),
            ("1.5", "1500m"),
            (".5", "500m"),
            ("0.1Gi", "107374182400m"),
            ("512Mi", "512Mi"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000", "1k"),
            ("2e3", "2k"),
            ("5E-1", "500m"),
            ("1E", "1E"),
            ("1023.5Ki", "1048064"),
            ("+3", "3"),
        ] {
            assert_eq!(Quantity::parse(text).map(|q| q.to_string()).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "m", "-1", "1 Gi", "1gi", "1.2.3", "12x", "1e", "99999999999999999999", "."] {
            assert_eq!(Quantity::parse(wrong), None, "{wrong}");
        }
        let parse = |text| Quantity::parse(text).unwrap();
        assert!(parse("1Gi").exceeds(parse("1G")) && !parse("1").exceeds(parse("1000m")));
    }
}
