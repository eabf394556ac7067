//! The time, as whoever calls tells it.

use jiff::Timestamp;

/// Tells the time.
pub type Clock<'a> = dyn Fn() -> Timestamp + Send + Sync + 'a;
