//! Modes as text: octal with a leading zero, setuid, setgid and sticky at the positions of Go's `os.FileMode`.

use std::fmt;

const PERMISSIONS: u32 = 0o777;
/// The bits of Go beside those of POSIX.
const FLAGS: [(u32, u32); 3] = [(1 << 23, 0o4000), (1 << 22, 0o2000), (1 << 20, 0o1000)];

/// A mode of POSIX that is written as kopia does.
pub(super) struct Mode(pub(super) u32);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = FLAGS.iter().filter(|(_, posix)| self.0 & posix != 0);
        let mode = flags.fold(self.0 & PERMISSIONS, |mode, (go, _)| mode | go);
        write!(f, "0{mode:o}")
    }
}

/// Reads a mode into the bits of POSIX: an integer of 32 bits with the prefixes of C. Other bits are dropped.
pub(super) fn parse(text: &str) -> Option<u32> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i64::from_str_radix(digits, base).ok()?;
    let value = if is_negative { -value } else { value };
    let bits = i32::try_from(value).ok()?.cast_unsigned();
    let flags = FLAGS.iter().filter(|(go, _)| bits & go != 0);
    Some(flags.fold(bits & PERMISSIONS, |mode, (_, posix)| mode | posix))
}

#[cfg(test)]
mod tests {
    use super::{Mode, parse};

    #[test]
    fn a_mode_has_the_flags_of_go_and_a_leading_zero() {
        let vectors = [
            (0o644, "0644"),
            (0o4755, "040000755"),
            (0o1777, "04000777"),
            (0o777, "0777"),
            (0o2755, "020000755"),
            (0o7777, "064000777"),
        ];
        for (mode, text) in vectors {
            assert_eq!((Mode(mode).to_string().as_str(), parse(text)), (text, Some(mode)));
        }
    }

    #[test]
    fn a_mode_is_read_with_any_prefix_of_c() {
        let vectors = [
            ("420", Some(0o644)),
            ("0x1A4", Some(0o644)),
            ("0o644", Some(0o644)),
            ("0b110100100", Some(0o644)),
            ("-1", Some(0o7777)),
            ("0", Some(0)),
            ("020000000000", None),
            ("0x", None),
            ("08", None),
            ("--1", None),
            ("0-1", None),
            ("", None),
        ];
        for (text, mode) in vectors {
            assert_eq!(parse(text), mode, "{text}");
        }
    }
}
