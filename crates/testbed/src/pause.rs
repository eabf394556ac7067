//! Pauses between two looks at something that another process does.

use std::time::Duration;

/// Waits for a tenth of a second.
#[allow(clippy::disallowed_methods, reason = "there is nothing to wait on but time")]
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}
