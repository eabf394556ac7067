//! Takes the objects of snapshots out of the cluster (velero: pkg/util/csi).

use crate::method::csi::answer::{is_being_deleted, text};
use crate::method::csi::api::SnapshotApi;
use crate::method::csi::content::DeletionPolicy;
use crate::method::csi::error::CsiError;
use crate::method::csi::objects::SNAPSHOT_CONTENT_FINALIZER;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Annotation of a content whose driver was asked for the snapshot, and has not answered yet.
const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// The longest time that a driver may take to take a snapshot before it is asked to delete it all the same.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest time that a driver may take to begin; after it the driver is taken to ignore the request.
const BEGUN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(250);

/// Annotation of a content that is to be deleted with its VolumeSnapshot. Its driver is not told of a deletion before.
const SNAPSHOT_BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

/// Removes a VolumeSnapshot of a backup with its content, and leaves the snapshot in the storage: the content is told
/// to retain it first. Done again, it finds less to do. Returns true if there was one.
///
/// # Errors
/// [`CsiError`]: what is left can be released by another call.
pub(crate) async fn release(api: SnapshotApi<'_>, namespace: &str, name: &str) -> Result<bool, CsiError> {
    let Some(found) = find(api, namespace, name).await? else { return Ok(false) };
    if let Some(content) = found.bound {
        // Nothing is removed from the cluster before the content is known to keep what it stands for.
        api.set_policy(&api.types.contents, &content, DeletionPolicy::Retain).await?;
        api.cluster.delete(&api.types.contents, None, &content).await?;
    }
    api.cluster.delete(&api.types.snapshots, Some(namespace), name).await?;
    Ok(true)
}

/// Removes a VolumeSnapshot, and with it the snapshot in the storage, whatever its class says.
///
/// # Errors
/// [`CsiError`]: the rest can be removed by another call.
pub(crate) async fn remove(api: SnapshotApi<'_>, namespace: &str, name: &str) -> Result<(), CsiError> {
    let Some(found) = find(api, namespace, name).await? else { return Ok(()) };
    let content = found.content();
    api.set_policy(&api.types.contents, &content, DeletionPolicy::Delete).await?;
    api.cluster.delete(&api.types.snapshots, Some(namespace), name).await?;
    if found.bound.is_some() && !found.is_being_deleted {
        return Ok(());
    }
    // The controller may have made the content in between, and leaves it there if the class says so; or it has let go of a content that was
    // to keep its snapshot, when somebody else deleted the VolumeSnapshot. One without the finalizer it has not looked at yet: then it sees
    // the policy, and the object may not go before its driver has been told.
    if api
        .set_policy(&api.types.contents, &content, DeletionPolicy::Delete)
        .await?
        .is_some_and(|content| is_kept_for_driver(&content))
    {
        api.cluster.delete(&api.types.contents, None, &content).await?;
    }
    Ok(())
}

/// Waits until the driver of a VolumeSnapshot has ended its work, for 20 s at most, and for two seconds until it
/// begins. The csi-snapshotter overlooks a deletion that comes before: it hears of it when it looks at all contents
/// again, after a quarter of an hour.
///
/// # Errors
/// [`CsiError`]: of the API server.
pub(crate) async fn until_ended(api: SnapshotApi<'_>, namespace: &str, name: &str) -> Result<(), CsiError> {
    let since = Instant::now();
    let Some(found) = find(api, namespace, name).await? else { return Ok(()) };
    let content = found.content();
    loop {
        let patience = match api.read(&api.types.contents, None, &content).await? {
            Some(content) => patience(&content),
            // Not yet made, or gone.
            None if found.bound.is_none() => BEGUN,
            None => Duration::ZERO,
        };
        if since.elapsed() >= patience {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// The longest wait for the driver of a content.
fn patience(content: &Value) -> Duration {
    let has = |pointer: &str| content.pointer(pointer).is_some_and(|value| !value.is_null());
    match content["metadata"]["annotations"].get(BEING_CREATED) {
        Some(_) => PATIENCE,
        None if has("/status/snapshotHandle") || has("/status/error") || has("/metadata/deletionTimestamp") => {
            Duration::ZERO
        }
        None => BEGUN,
    }
}

/// A VolumeSnapshot that is there.
struct FoundSnapshot {
    uid: String,
    /// The content that it is bound to, if it is.
    bound: Option<String>,
    is_being_deleted: bool,
}

impl FoundSnapshot {
    /// The content that it is bound to, or will be: the snapshot controller names it after the VolumeSnapshot.
    fn content(&self) -> String {
        self.bound.clone().unwrap_or_else(|| format!("snapcontent-{}", self.uid))
    }
}

/// `None` when there is no such VolumeSnapshot.
async fn find(api: SnapshotApi<'_>, namespace: &str, name: &str) -> Result<Option<FoundSnapshot>, CsiError> {
    let Some(snapshot) = api.read(&api.types.snapshots, Some(namespace), name).await? else { return Ok(None) };
    Ok(Some(FoundSnapshot {
        uid: text(&snapshot, "/metadata/uid").to_owned(),
        bound: content_of(&snapshot).map(str::to_owned),
        is_being_deleted: is_being_deleted(&snapshot),
    }))
}

/// The name of the content that a VolumeSnapshot is bound to.
pub(crate) fn content_of(snapshot: &Value) -> Option<&str> {
    Some(text(snapshot, "/status/boundVolumeSnapshotContentName")).filter(|name| !name.is_empty())
}

/// Returns true for a content that stays until its driver has deleted the snapshot behind it.
fn is_kept_for_driver(content: &Value) -> bool {
    content["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one == SNAPSHOT_CONTENT_FINALIZER))
}

/// Removes a content whose VolumeSnapshot is gone; the snapshot behind it is deleted or stays, as this policy says. A
/// content that is gone is no error.
pub(crate) async fn remove_content(
    api: SnapshotApi<'_>,
    content: &str,
    policy: DeletionPolicy,
) -> Result<(), CsiError> {
    let patch = json!({"metadata": {"annotations": {SNAPSHOT_BEING_DELETED: "yes"}}, "spec": {"deletionPolicy": policy.as_str()}});
    if api.patch_content(&api.types.contents, content, patch).await?.is_some() {
        api.cluster.delete(&api.types.contents, None, content).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_works_is_waited_for_longer_than_one_that_has_not_begun() {
        let working = json!({BEING_CREATED: "yes"});
        for (content, expected) in [
            (json!({"metadata": {}}), BEGUN),
            (json!({"metadata": {"annotations": working}}), PATIENCE),
            (json!({"metadata": {"annotations": working}, "status": {"snapshotHandle": "s"}}), PATIENCE),
            (json!({"metadata": {}, "status": {"snapshotHandle": null}}), BEGUN),
            (json!({"metadata": {}, "status": {"snapshotHandle": "s"}}), Duration::ZERO),
            (json!({"metadata": {}, "status": {"error": {"message": "full"}}}), Duration::ZERO),
            (json!({"metadata": {"deletionTimestamp": "2026-11-25T15:38:51Z"}}), Duration::ZERO),
        ] {
            assert_eq!(patience(&content), expected, "{content}");
        }
    }
}
