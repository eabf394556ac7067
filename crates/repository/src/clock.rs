//! The clock of an operation, as repositories count.

use jiff::Timestamp;
use lifeboat_kopia::Clock;
use lifeboat_kopia::format::time::UnixNanos;
use std::sync::Arc;

/// The same clock in nanoseconds since 1970.
pub fn repository_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Clock {
    Arc::new(move || UnixNanos(i64::try_from(clock().as_nanosecond()).unwrap_or(i64::MAX)))
}
