//! The exit codes beside 0 and 1 (docs/cli.md).

/// Something that was looked at needs attention.
pub(crate) const ATTENTION: u8 = 2;
/// It was done in part.
pub(crate) const PARTIALLY_FAILED: u8 = 3;
