//! The time, as it is given.

use jiff::Timestamp;
use std::sync::Arc;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
