//! A line with a single command, for tests of the flags that every command has.

use crate::flags::globals::Globals;
use crate::flags::pflag;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[derive(Debug, Parser)]
pub(crate) struct TestLine {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    _command: TestCommand,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    Version,
}

impl TestLine {
    /// The flags of words separated by blanks.
    pub(crate) fn parsed(line: &str) -> Self {
        let words = std::iter::once("velero").chain(line.split_whitespace());
        let matches = pflag::with_rules(Self::command()).try_get_matches_from(words);
        let matches = matches.unwrap_or_else(|e| panic!("{line}: {e}"));
        Self::from_arg_matches(&matches).unwrap_or_else(|e| panic!("{line}: {e}"))
    }
}
