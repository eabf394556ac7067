//! Texts for people about what others have named.

use std::fmt::Display;

/// A text without control characters, which are written as they would be in a program: an archive may name objects so that a new line forges
/// another sentence, or an escape sequence drives the terminal.
#[must_use]
pub fn printable(text: impl Display) -> String {
    let mut printable = String::new();
    for character in text.to_string().chars() {
        match character.is_control() {
            true => printable.extend(character.escape_default()),
            false => printable.push(character),
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\nb\u{1b}[2J\u{9b}\t\"é…\" \\"), r#"a\nb\u{1b}[2J\u{9b}\t"é…" \"#);
    }
}
