//! Names as restic writes them: quoted as Go's `strconv.Quote` does, without the quotes, so that bytes that are no UTF-8
//! survive the JSON (restic: internal/restic/node.go).

use super::FormatError;

/// The bytes of a quoted name.
///
/// # Errors
/// An escape that Go does not write.
pub fn unquote(text: &str) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(rest.get(..at).unwrap_or_default().as_bytes());
        let escape = rest.get(at + 1..).unwrap_or_default();
        let Some(length) = take_escape(escape, &mut bytes) else {
            return Err(FormatError::new(format_args!("the name {text:?} has an escape that is none")));
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// Adds what an escape stands for, and gives the bytes that it takes behind the backslash.
fn take_escape(escape: &str, bytes: &mut Vec<u8>) -> Option<usize> {
    let simple = match *escape.as_bytes().first()? {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        same @ (b'\\' | b'"' | b'\'') => same,
        b'x' => {
            bytes.push(u8::try_from(digits(escape, 1..3, 16)?).ok()?);
            return Some(3);
        }
        b'0'..=b'7' => {
            bytes.push(u8::try_from(digits(escape, 0..3, 8)?).ok()?);
            return Some(3);
        }
        kind @ (b'u' | b'U') => {
            let length = if kind == b'u' { 5 } else { 9 };
            let character = char::from_u32(digits(escape, 1..length, 16)?)?;
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(length);
        }
        _ => return None,
    };
    bytes.push(simple);
    Some(1)
}

fn digits(text: &str, range: std::ops::Range<usize>, radix: u32) -> Option<u32> {
    let digits = text.get(range)?;
    let are_digits = digits.bytes().all(|byte| char::from(byte).is_digit(radix));
    if are_digits { u32::from_str_radix(digits, radix).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_name_gives_its_bytes_back() {
        let vectors: [(&str, &[u8]); 9] = [
            ("plain", b"plain"),
            ("", b""),
            ("ümläut", "ümläut".as_bytes()),
            (r"\xff\xfe.bin", b"\xff\xfe.bin"),
            (r#"a\"b\\c"#, br#"a"b\c"#),
            (r"\a\b\f\n\r\t\v\'", b"\x07\x08\x0c\n\r\t\x0b'"),
            (r"\u00ad\U0001f600", "\u{ad}\u{1f600}".as_bytes()),
            (r"\x7f\101", b"\x7fA"),
            (r"\ufffd", "\u{fffd}".as_bytes()),
        ];
        for (text, bytes) in vectors {
            assert_eq!(unquote(text).as_deref(), Ok(bytes), "{text}");
        }
        for bad in [r"\", r"\x", r"\xf", r"\xzz", r"\q", r"\u12", r"\ud800", r"\U99999999", r"\400", r"\x+1", r"\uü"] {
            assert!(unquote(bad).is_err(), "{bad}");
        }
    }
}
