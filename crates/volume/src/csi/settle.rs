//! Lets the status of a content that was made for what is in the storage say what that is.

use super::answer::text;
use lifeboat_cluster::{Cluster, ClusterError, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the csi-snapshotter may take to look at a content.
const LOOKED: Duration = Duration::from_secs(5);
/// Between two looks, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Puts the driver's name of a snapshot, or of a group of them, into this field of the status of a content, unless the csi-snapshotter
/// has done so: as long as it is not there, nothing of the content is deleted in the storage, and nothing restored from it.
///
/// A csi-snapshotter asks the driver when it sees a content for the first time, and writes the whole status when that fails. So its
/// answer is waited for, for a while: there may be none.
///
/// # Errors
/// [`ClusterError`]. A content that is gone is none.
pub(crate) async fn say_handle(
    cluster: &Cluster,
    resource: &ApiResource,
    name: &str,
    (field, handle): (&str, &str),
) -> Result<(), ClusterError> {
    let deadline = Instant::now() + LOOKED;
    let [mut pause, longest] = PAUSES;
    loop {
        let Some(body) = cluster.get(resource, None, name).await? else { return Ok(()) };
        let content: Value = serde_json::from_slice(&body).unwrap_or_default();
        if text(&content, &format!("/status/{field}")) == handle {
            return Ok(());
        }
        if content["status"].is_object() || Instant::now() + pause > deadline {
            break;
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
    let status = json!({"status": {field: handle, "readyToUse": true}}).to_string();
    let subresource = resource.has_subresource("status").then_some("status");
    match cluster.patch(resource, None, name, MergePatch { body: status.into(), subresource }).await {
        Ok(_) => Ok(()),
        Err(e) if e.is_not_found() => Ok(()),
        Err(e) => Err(e),
    }
}
