//! Rows of the lists of objects, a file for each kind.

mod backup;
mod location;
mod repository;
mod restore;
mod schedule;
mod snapshot_location;

use jiff::Timestamp;
use lifeboat_api::ObjectMeta;

/// A kind that can be shown as a table.
pub trait TableKind: Sized {
    /// Headings.
    const COLUMNS: &'static [&'static str];

    /// The metadata of an object.
    fn meta(&self) -> &ObjectMeta;

    /// Cells in the order of the headings.
    fn cells(&self, now: Timestamp) -> Vec<String>;

    /// The order of a list.
    fn sort(_: &mut [Self]) {}
}
