//! The object lock of a put, where the settings of a repository ask for one.

use crate::format::repository::{Retention, RetentionMode};
use crate::format::time::UnixNanos;
use std::time::{Duration, UNIX_EPOCH};

/// The lock of a blob with this name that is put at `now`; `None` where the settings lock no such blobs.
pub(crate) fn object_lock(
    retention: Option<&Retention>,
    name: &str,
    now: UnixNanos,
) -> Option<lifeboat_bucket::Retention> {
    retention.filter(|_| Retention::covers(name)).map(|retention| lock_until(retention, now))
}

/// The lock that settings ask for at `now`.
pub(crate) fn lock_until(retention: &Retention, now: UnixNanos) -> lifeboat_bucket::Retention {
    let mode = match retention.mode {
        RetentionMode::Governance => lifeboat_bucket::RetentionMode::Governance,
        RetentionMode::Compliance | RetentionMode::Locked => lifeboat_bucket::RetentionMode::Compliance,
    };
    let nanoseconds = now.0.saturating_add(retention.period);
    let until = UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
    lifeboat_bucket::Retention { mode, until }
}
