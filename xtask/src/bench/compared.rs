//! Programs that do the same in turn: the data and the page cache before a run, its cost, and the table of all rows.

pub(crate) mod cache;
pub(crate) mod data;
pub(crate) mod report;
pub(crate) mod sides;
