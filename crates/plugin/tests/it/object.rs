//! Objects and resources that plugins are called with.

use lifeboat_api::{Backup, Restore};
use serde_json::{Value, json};

/// A pod that tells the fixture what to do.
pub(crate) fn pod(order: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "shop", "annotations": {"fixture": order}, "labels": {}},
    })
}

/// A backup.
pub(crate) fn backup() -> Backup {
    let mut backup = Backup::default();
    backup.metadata.name = "nightly".to_owned();
    backup
}

/// A restore.
pub(crate) fn restore() -> Restore {
    let mut restore = Restore::default();
    restore.metadata.name = "again".to_owned();
    restore
}
