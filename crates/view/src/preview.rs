//! Prints the preview of an operation: `--dry-run`.

mod backup;
mod item;
mod left_out;
mod plan;
mod restore;

pub use backup::{print_backup, volume_name, volume_value};
pub use item::item_text;
pub use restore::{RestorePrinter, ShownParts, write_volumes};
