//! Prints errors and ends with the right code.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use lifeboat_api::Resource;
use lifeboat_object::{chain, printable};
use std::io::Write;
use std::process::ExitCode;

/// Prints the whole chain of causes, each of them once.
pub fn report(error: &anyhow::Error) -> ExitCode {
    // The program that reads our output, such as `head`, has seen enough: the user need not read of an error.
    if is_closed_output(error) {
        return ExitCode::FAILURE;
    }
    say(&text_of(error));
    ExitCode::FAILURE
}

/// Formats an error for people. Some errors have several lines, as Velero's have; control characters in quoted names
/// and values are escaped, so that no line drives the terminal.
fn text_of(error: &anyhow::Error) -> String {
    let text = chain(error.as_ref());
    let lines: Vec<String> = text.lines().map(printable).collect();
    format!("An error occurred: {}\n", lines.join("\n"))
}

/// Returns true if the error is that nobody reads the output any more.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    error.chain().any(is_broken_pipe)
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints help, or what is wrong with the command line. 1 like every refusal: 2 would be the parser's own choice.
pub fn usage(error: &clap::Error, program: &str) -> ExitCode {
    if error.use_stderr() {
        say(&refusal(error, program));
        return ExitCode::FAILURE;
    }
    // A closed standard output is no reason for another code.
    let _ = error.print();
    ExitCode::SUCCESS
}

/// Prints a warning of several lines at most, if there is one.
///
/// # Errors
/// When standard error is closed.
pub fn tell(warning: Option<String>) -> std::io::Result<()> {
    warning.map_or(Ok(()), |warning| writeln!(std::io::stderr(), "{warning}"))
}

/// The error of an object that does not exist.
#[must_use]
pub fn missing<T: Resource>(name: &str) -> anyhow::Error {
    anyhow::anyhow!("{}.velero.io \"{name}\" not found", T::PLURAL)
}

/// Prints in one line what the user should know before a command runs, or while it does.
pub fn warn(warning: Option<&str>) {
    if let Some(warning) = warning {
        say(&format!("{}\n", printable(warning)));
    }
}

#[allow(clippy::print_stderr, reason = "errors go to standard error")]
fn say(text: &str) {
    eprint!("{text}");
}

/// Formats an error of the command line as Velero lays it out: the message, the usage, the message again.
pub fn refusal(error: &clap::Error, program: &str) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut parts = text.trim_end().split("\n\n");
    let message = parts.next().unwrap_or_default();
    // That it may be meant as a value helps with names only, and we have no objects whose names begin with a dash.
    let kept = parts.filter(|part| !part.starts_with("  tip: to pass "));
    let usage: String = kept.map(|part| format!("{part}\n\n")).collect();
    let named = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(value)) => Some(value.as_str()),
        _ => None,
    };
    let (message, usage) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = named(ContextKind::InvalidSubcommand).unwrap_or_default();
            let path = path(error).unwrap_or_else(|| program.to_owned());
            let meant = meant(error);
            (format!("unknown command {word:?} for {path:?}"), format!("{meant}Run '{path} --help' for usage.\n"))
        }
        ErrorKind::UnknownArgument => match named(ContextKind::InvalidArg) {
            Some(flag) if flag.starts_with("--") => (format!("unknown flag: {flag}"), usage),
            Some(flag) if flag.starts_with('-') => {
                let letter = flag.trim_start_matches('-');
                (format!("unknown shorthand flag: '{letter}' in -{letter}"), usage)
            }
            _ => (message.to_owned(), usage),
        },
        _ => (message.to_owned(), usage),
    };
    format!("Error: {message}\n{usage}An error occurred: {message}\n")
}

/// The command whose line is wrong: the words of its usage before the placeholders.
fn path(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    let words = usage.trim_start().strip_prefix("Usage:")?.split_whitespace();
    let words: Vec<&str> = words.take_while(|word| !word.starts_with(['[', '<'])).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The command whose name is most like the one that is not known, in cobra's layout.
fn meant(error: &clap::Error) -> String {
    match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => {
            names.last().map_or_else(String::new, |name| format!("\nDid you mean this?\n\t{name}\n\n"))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_said_once() {
        let error = anyhow::anyhow!("it does not exist").context("cannot get \"a\": it does not exist").context("open");
        assert_eq!(chain(error.as_ref()), "open: cannot get \"a\": it does not exist");
    }

    #[test]
    fn who_names_an_object_drives_no_terminal() {
        let error = anyhow::anyhow!("\"a\" is no object").context("two lines:\n  read configmaps/shop/a\u{1b}[2J");
        let text = "An error occurred: two lines:\n  read configmaps/shop/a\\u{1b}[2J: \"a\" is no object\n";
        assert_eq!(text_of(&error), text);
    }
}
