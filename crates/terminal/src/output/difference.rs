//! A difference between two objects, as a line.

use lifeboat_object::printable;
use lifeboat_patch::Difference;
use serde_json::Value;

/// Characters of a value that are shown.
const SHOWN: usize = 100;

/// The path, what stands there on the left, and on the right; without a new line. In colours where they are wanted.
fn difference_line(difference: &Difference, colours: bool) -> String {
    let Difference { path, left, right } = difference;
    let path = printable(path);
    let [left, right] = [left, right].map(|value| shown(value.as_ref()));
    match colours {
        true => format!("{path}: \u{1b}[31m{left}\u{1b}[0m -> \u{1b}[32m{right}\u{1b}[0m"),
        false => format!("{path}: {left} -> {right}"),
    }
}

/// A line for each place, behind so many blanks.
pub fn difference_lines(differences: &[Difference], blanks: usize, colours: bool) -> String {
    let line = |one: &Difference| format!("{:blanks$}{}\n", "", difference_line(one, colours));
    differences.iter().map(line).collect()
}

/// Names of the two sides of a difference, of which one is earlier.
const SIDES: [&str; 2] = ["before", "after"];

/// Places where two objects differ, as JSON: what stands there before and after.
pub fn difference_documents(differences: &[Difference]) -> Value {
    differences.iter().map(|one| one.to_json(SIDES)).collect()
}

/// A value, cut when it is long, without control characters: JSON has those in its texts that are no ASCII.
fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "(absent)".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}… ({} bytes)", printable(&text[..at]), text.len()),
        None => printable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_and_values_from_users_start_no_lines_and_drive_no_terminal() {
        let difference = Difference {
            path: "/data/a\nremoved  secrets/key".to_owned(),
            left: Some(json!("\u{9b}2J\n")),
            right: Some(json!("\u{9b}".repeat(200))),
        };
        let long = r"\u{9b}".repeat(99);
        let expected = format!(r#"  /data/a\nremoved  secrets/key: "\u{{9b}}2J\n" -> "{long}… (402 bytes)"#);
        assert_eq!(difference_lines(&[difference], 2, false), format!("{expected}\n"));
    }
}
