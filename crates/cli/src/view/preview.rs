//! Prints the preview of an operation: `--dry-run`.

mod backup;
mod item;
mod left_out;
mod plan;
mod restore;

pub(crate) use backup::{print_backup, volume_name, volume_value};
pub(crate) use item::item_text;
pub(crate) use plan::PlanFiles;
pub(crate) use restore::{RestorePrinter, ShownParts, print_restore, write_volumes};

use clap::ValueEnum;

/// `--validate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validate {
    /// The API server, by dry runs of all writes
    Server,
}
