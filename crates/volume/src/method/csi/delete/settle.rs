//! Puts the handle of a snapshot or group into the status of a content that was made for it, and deletes by such a
//! content.

use crate::method::csi::answer::{is_being_deleted, text};
use lifeboat_cluster::{Cluster, ClusterError, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The first and the longest pause between two looks at a content that the csi-snapshotter is to look at.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// The first and the longest pause between two looks at a content that its driver is to delete.
const PAUSES_OF_DELETION: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(3)];

/// The result of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Deletion {
    /// The content is still there.
    Left(Value),
    /// It is gone.
    Done {
        /// True when the driver had shown before that it knows the snapshot, or group, behind the content.
        was_seen: bool,
    },
}

/// A content that stands for a snapshot in the storage, or for a group of them.
#[derive(Clone, Copy)]
pub(crate) struct ContentOf<'a> {
    /// Its type.
    pub(crate) resource: &'a ApiResource,
    /// Its name.
    pub(crate) name: &'a str,
    /// The field of its status with the handle of that snapshot or group.
    pub(crate) field: &'static str,
    /// The driver's name of that.
    pub(crate) handle: &'a str,
}

impl ContentOf<'_> {
    /// Returns true if the status has the handle.
    fn is_said(&self, content: &Value) -> bool {
        text(content, &format!("/status/{}", self.field)) == self.handle
    }
}

/// Puts the driver's name of a snapshot, or of a group of them, into the status of its content, unless the csi-snapshotter
/// has done so: as long as it is not there, nothing of the content is deleted in the storage, and nothing restored from it.
///
/// A csi-snapshotter asks the driver when it sees a content for the first time, and writes the whole status when that fails. So its
/// answer is waited for, for so long: there may be none.
///
/// Returns true if the driver has shown that it knows the snapshot or group, by its creation time or size: a
/// csi-snapshotter whose driver lists no snapshots takes every name for that of one.
///
/// # Errors
/// [`ClusterError`]. A content that is gone is none.
pub(crate) async fn say_handle(cluster: &Cluster, of: ContentOf<'_>, within: Duration) -> Result<bool, ClusterError> {
    let ContentOf { resource, name, .. } = of;
    let deadline = Instant::now() + within;
    let [mut pause, longest] = PAUSES;
    loop {
        let Some(body) = cluster.get(resource, None, name).await? else { return Ok(false) };
        let content: Value = serde_json::from_slice(&body).unwrap_or_default();
        if of.is_said(&content) {
            return Ok(is_known(&content));
        }
        // Nobody asks for one that is being deleted.
        let is_looked_at = content["status"].is_object() || is_being_deleted(&content);
        if is_looked_at || Instant::now() + pause > deadline {
            return put_handle(cluster, of).await.map(|()| false);
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Returns true if a driver has told more of the snapshot behind a content than its name.
fn is_known(content: &Value) -> bool {
    let number = |pointer: &str| content.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    number("/status/restoreSize") > 0
        || number("/status/creationTime") > 0
        || !text(content, "/status/creationTime").is_empty()
}

/// The name of the content by which a snapshot in the storage, or a group of them, is deleted with its backup: the same each time that it is
/// tried.
pub(crate) fn temporary_name(backup_uid: &str, driver: &str, handle: &str) -> String {
    let hash = Sha256::digest(format!("{backup_uid}/{driver}/{handle}"));
    format!("velero-delete-{}", &hex::encode(hash)[..20])
}

/// Deletes a content that was made for a snapshot, or for a group of them, and waits until its driver has deleted that, for so long.
///
/// A csi-snapshotter lets a content go without a word to the driver when the status has no handle, and one that was
/// slow to answer may take the handle out of the status again: it is put there until the content is gone.
///
/// # Errors
/// [`ClusterError`].
pub(crate) async fn delete_by_content(
    cluster: &Cluster,
    of: ContentOf<'_>,
    within: Duration,
) -> Result<Deletion, ClusterError> {
    let ContentOf { resource, name, .. } = of;
    let deadline = Instant::now() + within;
    let was_seen = say_handle(cluster, of, within).await?;
    cluster.delete(resource, None, name).await?;
    let [mut pause, longest] = PAUSES_OF_DELETION;
    while let Some(body) = cluster.get(resource, None, name).await? {
        let content: Value = serde_json::from_slice(&body).unwrap_or_default();
        if !of.is_said(&content) {
            put_handle(cluster, of).await?;
        }
        if Instant::now() + pause > deadline {
            return Ok(Deletion::Left(content));
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
    Ok(Deletion::Done { was_seen })
}

/// Puts the handle into the status, whatever is there.
async fn put_handle(cluster: &Cluster, of: ContentOf<'_>) -> Result<(), ClusterError> {
    let ContentOf { resource, name, field, handle } = of;
    let status = json!({"status": {field: handle, "readyToUse": true}}).to_string();
    let subresource = resource.has_subresource("status").then_some("status");
    match cluster.patch(resource, None, name, MergePatch { body: status.into(), subresource }).await {
        Ok(_) => Ok(()),
        Err(e) if e.is_not_found() => Ok(()),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_knows_a_snapshot_of_which_it_says_more_than_the_name() {
        for (status, expected) in [
            (json!({"snapshotHandle": "s", "readyToUse": true, "creationTime": 1_700_000_000_000_000_000_i64}), true),
            (json!({"snapshotHandle": "s", "readyToUse": true, "restoreSize": 1024, "creationTime": 0}), true),
            (json!({"volumeGroupSnapshotHandle": "g", "creationTime": "2026-01-01T00:00:00Z"}), true),
            // A csi-snapshotter whose driver lists no snapshots.
            (json!({"snapshotHandle": "s", "readyToUse": true, "restoreSize": 0}), false),
            (json!({"snapshotHandle": "s", "readyToUse": true}), false),
        ] {
            assert_eq!(is_known(&json!({"status": status})), expected, "{status}");
        }
    }
}
