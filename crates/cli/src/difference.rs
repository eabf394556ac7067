//! One place where two objects differ, as a line.

use lifeboat_patch::Difference;
use serde_json::Value;

/// Characters of a value that are shown.
const SHOWN: usize = 100;

/// The path, what stands there on the left, and on the right; without a new line. In colours where they are wanted.
fn difference_line(difference: &Difference, colours: bool) -> String {
    let Difference { path, left, right } = difference;
    let [left, right] = [left, right].map(|value| shown(value.as_ref()));
    match colours {
        true => format!("{path}: \u{1b}[31m{left}\u{1b}[0m -> \u{1b}[32m{right}\u{1b}[0m"),
        false => format!("{path}: {left} -> {right}"),
    }
}

/// A line for each place, behind so many blanks.
pub(crate) fn difference_lines(differences: &[Difference], blanks: usize, colours: bool) -> String {
    let line = |one: &Difference| format!("{:blanks$}{}\n", "", difference_line(one, colours));
    differences.iter().map(line).collect()
}

/// Names of the two sides of a difference, of which one is earlier.
const SIDES: [&str; 2] = ["before", "after"];

/// Places where two objects differ, as JSON: what stands there before and after.
pub(crate) fn difference_documents(differences: &[Difference]) -> Value {
    differences.iter().map(|one| one.to_json(SIDES)).collect()
}

/// A value, cut when it is long.
fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "(absent)".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
        None => text,
    }
}
