//! Completion of the plugin's commands, as kubectl asks for it.

use crate::commands::completion::with_names;
use clap::Command;
use clap_complete::engine::{CompletionCandidate, complete};
use lifeboat_terminal::process::program::PLUGIN;
use std::ffi::OsString;
use std::io::Write;

/// Answers kubectl, which asks by the words of a line: the last one is completed. Whatever goes wrong, there is nothing to offer:
/// kubectl has no place for an error. `grammar` gives the commands of a program of this name.
pub(crate) fn answer_kubectl(words: impl Iterator<Item = OsString>, grammar: fn(&str) -> Command) {
    let mut line: Vec<OsString> = std::iter::once(PLUGIN.into()).chain(words).collect();
    if line.len() == 1 {
        line.push(OsString::new());
    }
    let last = line.len() - 1;
    let mut grammar = with_names(grammar(PLUGIN));
    let here = std::env::current_dir().ok();
    let found = complete(&mut grammar, line, last, here.as_deref()).unwrap_or_default();
    // It fails only when kubectl is gone.
    let _ = write!(std::io::stdout(), "{}", answer(&found));
}

/// The answer in cobra's form: a line for each choice with a tab before its help, and what the shell is to do with them.
fn answer(found: &[CompletionCandidate]) -> String {
    /// No blank behind the choice.
    const NO_SPACE: u8 = 2;
    /// No names of files where there is no choice.
    const NO_FILES: u8 = 4;
    let mut text = String::new();
    let values: Vec<_> = found.iter().map(|one| one.get_value().to_string_lossy()).collect();
    for (one, value) in found.iter().zip(&values) {
        let help = one.get_help().map(ToString::to_string).unwrap_or_default();
        match help.lines().next() {
            Some(help) => text.push_str(&format!("{value}\t{help}\n")),
            None => text.push_str(&format!("{value}\n")),
        }
    }
    // A folder or a type is no whole word.
    let goes_on = !values.is_empty() && values.iter().all(|value| value.ends_with(['/', '=']));
    text.push_str(&format!(":{}\n", if goes_on { NO_SPACE | NO_FILES } else { NO_FILES }));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_line_for_each_choice_and_ends_with_what_to_do() {
        let named = |name: &str| CompletionCandidate::new(name);
        assert_eq!(answer(&[]), ":4\n");
        assert_eq!(answer(&[named("a"), named("b").help(Some("What\nmore".into()))]), "a\nb\tWhat\n:4\n");
        assert_eq!(answer(&[named("configmaps/"), named("secrets/")]), "configmaps/\nsecrets/\n:6\n");
    }
}
