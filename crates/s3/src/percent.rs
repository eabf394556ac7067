//! Decodes percent signs in the URL of a bucket and in listings.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Decodes percent signs; `None` when a sign is broken, or when the bytes are no UTF-8.
#[must_use]
pub fn percent_decoded(text: &str) -> Option<String> {
    // The library leaves a sign that no two digits follow as it is.
    let is_escape = |after: &str| after.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_sign_is_not_passed_through() {
        let table = [
            ("a+b%2Bc%20d", Some("a+b+c d")),
            ("%e6%BC%A2", Some("漢")),
            ("%2541", Some("%41")),
            ("%", None),
            ("%4", None),
            ("%%41", None),
            ("%4%41", None),
            ("%zz", None),
            ("%+1", None),
            ("%é", None),
            ("%ff", None),
        ];
        for (text, expected) in table {
            assert_eq!(percent_decoded(text).as_deref(), expected, "{text}");
        }
    }
}
