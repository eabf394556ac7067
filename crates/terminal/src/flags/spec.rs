//! Flags for the contents of a backup or restore: those of `velero backup create` and `velero restore create` that make
//! the `spec` (velero: pkg/cmd/cli).

mod backup;
mod config_map;
pub mod file;
mod restore;

use crate::flags::pflag;
use clap::{Args, Command};

pub use backup::BackupSpecArgs;
pub use restore::RestoreSpecArgs;

/// The flags of a command line that gives none of them.
///
/// # Errors
/// None: none of them is required.
pub fn no_flags<T: Args>() -> Result<T, clap::Error> {
    let grammar = pflag::with_rules(T::augment_args(Command::new("create").no_binary_name(true)));
    T::from_arg_matches(&grammar.try_get_matches_from(std::iter::empty::<&str>())?)
}

#[cfg(test)]
mod tests {
    use crate::flags::pflag;
    use clap::{Args, Command};

    /// The flags of a line, by Velero's rules.
    pub(crate) fn parsed<T: Args>(line: &str) -> T {
        let grammar = pflag::with_rules(T::augment_args(Command::new("create").no_binary_name(true)));
        let matches = grammar.try_get_matches_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{line}: {e}"));
        T::from_arg_matches(&matches).unwrap()
    }
}
