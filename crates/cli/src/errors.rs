//! Prints errors and ends with the right code.

use std::process::ExitCode;

/// Prints the whole chain in one line; every cause is said once.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    #[allow(clippy::print_stderr, reason = "errors go to standard error")]
    {
        eprintln!("An error occurred: {}", chain(error));
    }
    ExitCode::FAILURE
}

/// Prints help, or what is wrong with the command line. 1 like every refusal: 2 would be the parser's own choice.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed standard output is no reason for another code.
    let _ = error.print();
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn chain(error: &anyhow::Error) -> String {
    let mut out = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if out.contains(&text) {
            continue;
        }
        if !out.is_empty() {
            out.push_str(": ");
        }
        out.push_str(&text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_said_once() {
        let error = anyhow::anyhow!("it does not exist").context("cannot get \"a\": it does not exist").context("open");
        assert_eq!(chain(&error), "open: cannot get \"a\": it does not exist");
    }
}
