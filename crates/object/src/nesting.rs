//! The nesting depth of a JSON text, found without parsing it.

/// Deeper than any object that an API server stores: it refuses JSON beyond 10,000 levels itself.
pub const DEEPEST: usize = 10_000;

/// The most levels of an object that can be restored: those that the parser of JSON takes.
pub const RESTORABLE: usize = 127;

/// Returns true if an object is nested too deeply to be restored.
#[must_use]
pub fn is_too_deep(json: &[u8]) -> bool {
    // Each level takes two brackets.
    json.len() > 2 * RESTORABLE && nesting(json) > RESTORABLE
}

/// The number of arrays and objects around the innermost value. Brackets inside strings do not count.
#[must_use]
pub fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = end_of_string(json, at),
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// The position of the closing quote of the string that begins here; the end of the text when there is none.
fn end_of_string(json: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at;
        }
        at += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn what_is_restorable_is_what_can_be_parsed() {
        for (levels, expected) in [(1, true), (RESTORABLE, true), (RESTORABLE + 1, false), (DEEPEST, false)] {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
                let json = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                assert_eq!(serde_json::from_slice::<Value>(json.as_bytes()).is_ok(), expected, "{levels}");
                assert_eq!(!is_too_deep(json.as_bytes()), expected, "{levels}");
            }
        }
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        for (json, expected) in [
            ("", 0),
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[{"b":1}],"c":{}}"#, 3),
            (r#"{"a":"[[[\"[[[\\"}"#, 1),
            (r#"{"a\\":["x"]}"#, 2),
            (r#""[[["#, 0),
            (r#""\"#, 0),
            ("]]][", 1),
        ] {
            assert_eq!(nesting(json.as_bytes()), expected, "{json}");
        }
        assert_eq!(nesting("[".repeat(50_000).as_bytes()), 50_000);
    }
}
