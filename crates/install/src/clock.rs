//! The clock that the caller hands in.

use jiff::Timestamp;

/// Tells the time.
pub type Clock<'a> = dyn Fn() -> Timestamp + Send + Sync + 'a;
