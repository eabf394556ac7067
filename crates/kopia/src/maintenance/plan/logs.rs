//! Logs that are deleted (kopia: repo/maintenance/cleanup_logs.go).

use super::step::{Action, Step};
use crate::blobs::BlobInfo;
use crate::format::maintenance::{LogRetention, MaintenanceParameters};
use crate::format::time::UnixNanos;

/// The beginning of the names of logs. Kopia 0.23 deletes everything that begins with `_`; we do not.
pub const PREFIX: &str = "_log_";

/// Chooses the logs beyond the retention, the newest ones stay. One without time stays and takes its part.
pub fn logs(listing: &[BlobInfo], retention: LogRetention, now: UnixNanos) -> Option<Step> {
    // All three 0 stand for the defaults, as in kopia.
    let retention =
        if retention == LogRetention::default() { MaintenanceParameters::default().log_retention } else { retention };
    let mut newest_first: Vec<&BlobInfo> = listing.iter().filter(|blob| blob.name.starts_with(PREFIX)).collect();
    newest_first.sort_by_key(|blob| std::cmp::Reverse((blob.modified.unwrap_or(UnixNanos(i64::MAX)), &blob.name)));
    let exceeds = |number: u64, limit: i64| limit > 0 && u64::try_from(limit).is_ok_and(|limit| number > limit);
    let (mut bytes, mut count) = (0_u64, 0);
    let mut deleted = Vec::new();
    for blob in newest_first {
        bytes = bytes.saturating_add(blob.length);
        count += 1;
        let Some(stored) = blob.modified else { continue };
        let is_old = retention.max_age > 0 && now.0.saturating_sub(stored.0) > retention.max_age;
        if is_old || exceeds(bytes, retention.max_total_size) || exceeds(count, retention.max_count) {
            deleted.push(blob.clone());
        }
    }
    let reason = "they are beyond what is kept of logs".to_owned();
    (!deleted.is_empty()).then_some(Step { action: Action::DeleteLogs { logs: deleted }, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::time::DAY;

    const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

    fn deleted(retention: LogRetention) -> Vec<String> {
        let blob = |name: &str, days: Option<i64>| BlobInfo {
            name: name.to_owned(),
            length: 10,
            modified: days.map(|days| UnixNanos(NOW.0 - days * DAY)),
        };
        let listing = [
            blob("_log_c", Some(3)),
            blob("_log_a", Some(1)),
            blob("_log_b", Some(2)),
            blob("_log_z", Some(31)),
            blob("_log_u", None),
            blob("_other", Some(99)),
        ];
        let step = logs(&listing, retention, NOW);
        step.iter().flat_map(|step| step.action.deleted_blobs()).map(|blob| blob.name.clone()).collect()
    }

    #[test]
    fn the_newest_logs_stay_within_each_limit() {
        let none = LogRetention::default();
        assert_eq!(deleted(none), ["_log_z"]);
        assert_eq!(deleted(LogRetention { max_age: 3 * DAY, ..none }), ["_log_z"]);
        assert_eq!(deleted(LogRetention { max_age: 3 * DAY - 1, ..none }), ["_log_c", "_log_z"]);
        assert_eq!(deleted(LogRetention { max_count: 3, ..none }), ["_log_c", "_log_z"]);
        assert_eq!(deleted(LogRetention { max_total_size: 20, ..none }), ["_log_b", "_log_c", "_log_z"]);
        assert_eq!(deleted(LogRetention { max_count: 10, ..none }), [""; 0]);
    }
}
