//! Exit codes other than 0 (docs/cli.md).

use crate::output::errors;
use anyhow::Result;
use std::process::ExitCode;

/// It was not done, or what was asked for is not so.
const NO: u8 = 1;
/// Something that was looked at needs attention, or the answer is not known.
pub const ATTENTION: u8 = 2;
/// It was done in part.
pub const PARTIALLY_FAILED: u8 = 3;
/// Of what a signal from the keyboard ends, as shells have it.
pub const INTERRUPTED: i32 = 130;

/// The answer of a command that answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// It is so.
    Yes,
    /// It is not so.
    No,
    /// Some of the necessary data could not be read; messages have said which.
    Unknown,
}

/// The exit code of a command that answers a question, as of `diff` and `grep`: an error is reported, and is no answer.
pub fn answered(answer: Result<CheckOutcome>) -> ExitCode {
    match answer {
        Ok(CheckOutcome::Yes) => ExitCode::SUCCESS,
        Ok(CheckOutcome::No) => ExitCode::from(NO),
        Ok(CheckOutcome::Unknown) => ExitCode::from(ATTENTION),
        Err(e) => {
            errors::report(&e);
            ExitCode::from(ATTENTION)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_no_answer() {
        for (answer, code) in [
            (Ok(CheckOutcome::Yes), 0),
            (Ok(CheckOutcome::No), 1),
            (Ok(CheckOutcome::Unknown), 2),
            (Err(anyhow::anyhow!("the bucket is away")), 2),
        ] {
            assert_eq!(answered(answer), ExitCode::from(code));
        }
    }
}
