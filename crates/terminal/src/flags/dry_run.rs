//! Flags of the dry run of a restore.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `--validate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Validate {
    /// The API server, by dry runs of all writes
    Server,
}

/// Files for the plan of a restore: one to keep it in, and one to compare it with.
#[derive(Clone, Debug, Default, Args)]
pub struct PlanFiles {
    /// Write the plan of the restore into this file, for --compare
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Say how the plan differs from the one in this file, which --save has written; the exit code is 3 when it does
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
}

impl PlanFiles {
    /// Returns true if the user has asked for any.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.save.is_some() || self.compare.is_some()
    }
}
