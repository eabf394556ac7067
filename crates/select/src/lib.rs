//! Decides what is in scope of a backup or restore. Pure.
//!
//! [`BackupFilter`] and [`RestoreFilter`] answer the engines' questions; beneath them are globs with Velero's semantics,
//! label selectors and include/exclude lists. Start reading at [`BackupFilter`].

mod glob;
mod selector;

pub use glob::{Globs, has_wildcard, validate_wildcards};
pub use selector::{Selector, SelectorError, parse_selector};

