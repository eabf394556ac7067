//! The time.

use lifeboat_operation::Clock;
use std::sync::Arc;

/// The real clock.
pub fn clock() -> Clock {
    Arc::new(jiff::Timestamp::now)
}
