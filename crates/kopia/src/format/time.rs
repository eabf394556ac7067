//! Times as the format writes them: signed nanoseconds since 1970, RFC 3339 in text.

use super::FormatError;

/// Nanoseconds since 1970-01-01T00:00:00Z; 0 is the zero value of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixNanos(pub i64);

impl UnixNanos {
    /// Reads RFC 3339 with any offset.
    ///
    /// # Errors
    /// Other text, and times outside 64 bits.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        todo!()
    }
}
