//! Results of an operation: its messages for people, and the exit code.

use crate::output::exit_code::PARTIALLY_FAILED;
use lifeboat_object::{Results, printable};
use std::io::Write;
use std::process::ExitCode;

/// The exit code of what was done, well or only in part.
pub fn exit_code(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::from(PARTIALLY_FAILED) }
}

/// Messages shown of each severity before the rest is only counted.
const SHOWN: usize = 20;

/// Prints warnings, errors and notes on standard error, each in one line.
pub fn print_results(results: &Results) {
    let mut out = std::io::stderr().lock();
    for (name, set) in [("warning", &results.warnings), ("error", &results.errors)] {
        for message in set.messages().take(SHOWN) {
            let _ = writeln!(out, "{name}: {}", printable(message.trim()));
        }
        if set.len() > SHOWN {
            let _ = writeln!(out, "… and {} more {name}s, all of them in the results file", set.len() - SHOWN);
        }
    }
    for note in &results.notes {
        let _ = writeln!(out, "note: {}", printable(note.trim()));
    }
}
