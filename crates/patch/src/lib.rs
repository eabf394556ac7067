//! Patches and comparison of objects. Pure.
//!
//! [`differences`] says where two values differ; [`merge_diff`] makes the merge patch between them (RFC 7386) and
//! [`merge`] applies one; [`restored`] knows which fields of an object belong to one life of it, so that a restored
//! object can be compared with the one in the backup. Start reading at [`restored`].

mod difference;
mod merge;
pub mod restored;

pub use difference::{Difference, differences, hide_secret_values};
pub use merge::{merge, merge_diff};
