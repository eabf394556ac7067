//! The retention rules of a schedule as text.

use lifeboat_api::Retention;

/// Rules in one line, by the names of the fields.
pub fn retention_text(rules: &Retention) -> String {
    let numbers = rules.numbers().into_iter().filter_map(|(name, number)| Some((name, number?)));
    let numbers: Vec<String> = numbers.map(|(name, number)| format!("{name} {number}")).collect();
    if numbers.is_empty() { "the last good one".to_owned() } else { numbers.join(", ") }
}
