//! The command of an annotation.

/// Reads a command: a JSON array of strings, or one word (velero: internal/hook).
///
/// compat: what begins like an array and is none is taken for one word, which no container will have as a program; the
/// error of the hook then shows it.
pub(crate) fn command(text: &str) -> Vec<String> {
    if text.starts_with('[')
        && let Ok(words) = serde_json::from_str(text)
    {
        return words;
    }
    vec![text.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_or_one_word() {
        for (text, expected) in [
            ("/bin/freeze", &["/bin/freeze"][..]),
            (r#"["/bin/sh", "-c", "sync"]"#, &["/bin/sh", "-c", "sync"]),
            // No shell looks at it.
            ("echo a b", &["echo a b"]),
            (r#"["a", 1]"#, &[r#"["a", 1]"#]),
            ("[a", &["[a"]),
            ("[]", &[]),
        ] {
            assert_eq!(command(text), expected, "{text}");
        }
    }
}
