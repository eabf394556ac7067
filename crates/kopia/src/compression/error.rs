//! Errors and limits of all streams.

use crate::format::FormatError;

/// The most that is reserved before a stream has shown that it is so long.
pub(super) const FIRST_CAPACITY: usize = 4 << 20;

pub(super) fn bad(why: impl Into<String>) -> FormatError {
    FormatError::new("compressed content", why)
}

pub(super) fn too_long(limit: usize) -> FormatError {
    bad(format!("it is longer than {limit} bytes"))
}
