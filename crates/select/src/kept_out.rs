//! The label that keeps objects out of backups.

use lifeboat_api::well_known::LABEL_EXCLUDE_FROM_BACKUP;
use std::collections::BTreeMap;

/// Returns true if the labels of an object or namespace keep it out of every backup.
#[must_use]
pub fn is_kept_out(labels: &BTreeMap<String, String>) -> bool {
    labels.get(LABEL_EXCLUDE_FROM_BACKUP).is_some_and(|value| value == "true")
}
