//! Stops the data movement of a restore that is over, and the movers of files for a backup that has failed.

use crate::method::child::resource_type;
use futures::StreamExt;
use lifeboat_api::well_known::{LABEL_BACKUP_UID, LABEL_RESTORE_UID};
use lifeboat_api::{Backup, DataDownload, DataPathPhase, PodVolumeBackup, PodVolumeRestore, Restore};
use lifeboat_cluster::{Cluster, ClusterError, ListRequest, MergePatch};
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Longest time for it when the user has cancelled the restore.
const LONGEST: Duration = Duration::from_secs(4);
/// Patches at once.
const AT_ONCE: usize = 16;

/// Asks all PodVolumeRestores and DataDownloads of a restore that have not ended to stop. A cluster that serves no such types has
/// none.
///
/// # Errors
/// [`ClusterError`]: not all of them were asked.
pub async fn cancel_all(restore: &Restore, cluster: &Cluster) -> Result<(), ClusterError> {
    for resource in [resource_type::<PodVolumeRestore>(), resource_type::<DataDownload>()] {
        let selector = format!("{LABEL_RESTORE_UID}={}", restore.metadata.uid);
        let of = ListRequest::all(Arc::new(resource)).in_namespace(Some(restore.metadata.namespace.clone()));
        cancel_each(of.labelled(selector), |_| true, cluster).await?;
    }
    Ok(())
}

/// Asks all PodVolumeBackups of a backup that have not ended to stop: without its end nobody needs them. A cluster that serves none has none.
///
/// # Errors
/// [`ClusterError`]: not all of them were asked.
pub async fn stop_file_backups(backup: &Backup, cluster: &Cluster) -> Result<(), ClusterError> {
    match file_backups_of(backup) {
        Some(request) => cancel_each(request, |_| true, cluster).await,
        None => Ok(()),
    }
}

/// The number of movers that still save files for a backup: a snapshot that one of them finishes now is in no record yet.
///
/// # Errors
/// [`ClusterError`].
pub async fn working_file_backups(backup: &Backup, cluster: &Cluster) -> Result<usize, ClusterError> {
    let Some(request) = file_backups_of(backup) else { return Ok(0) };
    let mut list = cluster.list(request);
    let mut count = 0;
    loop {
        match list.next().await {
            Ok(Some(bodies)) => {
                let all = bodies.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap_or_default());
                count += all.filter(works).count();
            }
            Ok(None) => return Ok(count),
            Err(e) if e.is_not_found() => return Ok(0),
            Err(e) => return Err(e),
        }
    }
}

/// The list of the PodVolumeBackups of a backup; `None` for one that was made without a server, and so without movers.
fn file_backups_of(backup: &Backup) -> Option<ListRequest> {
    let of = &backup.metadata;
    let is_of_server = !of.uid.is_empty() && !of.namespace.is_empty();
    is_of_server.then(|| {
        let all = ListRequest::all(Arc::new(resource_type::<PodVolumeBackup>()));
        all.in_namespace(Some(of.namespace.clone())).labelled(format!("{LABEL_BACKUP_UID}={}", of.uid))
    })
}

/// Asks those of these resources to stop that are useless, by their names, and have not ended. A cluster that does not serve them has
/// none.
///
/// # Errors
/// [`ClusterError`]: not all of them were asked.
pub(crate) async fn cancel_each(
    request: ListRequest,
    is_useless: impl Fn(&str) -> bool,
    cluster: &Cluster,
) -> Result<(), ClusterError> {
    let (resource, namespace) = (Arc::clone(&request.resource), request.namespace.clone().unwrap_or_default());
    let mut list = cluster.list(request);
    let mut names = Vec::new();
    loop {
        let bodies = match list.next().await {
            Ok(Some(bodies)) => bodies,
            Ok(None) => break,
            Err(e) if e.is_not_found() => return Ok(()),
            Err(e) => return Err(e),
        };
        let all = bodies.iter().map(|body| serde_json::from_slice::<Value>(body).unwrap_or_default());
        let going_on = all.filter(goes_on).filter_map(|one| Some(one["metadata"]["name"].as_str()?.to_owned()));
        names.extend(going_on.filter(|name| is_useless(name)));
    }
    let namespace = namespace.as_str();
    let patches = names.into_iter().map(|name| {
        let resource = &resource;
        async move { cancel(cluster, resource, namespace, &name).await }
    });
    let done: Vec<_> = futures::stream::iter(patches).buffer_unordered(AT_ONCE).collect().await;
    done.into_iter().collect()
}

/// Asks one of them to stop. That it is gone is no error.
///
/// # Errors
/// [`ClusterError`].
pub(crate) async fn cancel(
    cluster: &Cluster,
    resource: &ApiResource,
    namespace: &str,
    name: &str,
) -> Result<(), ClusterError> {
    let patch = MergePatch::of(r#"{"spec":{"cancel":true}}"#.into());
    match cluster.patch(resource, Some(namespace), name, patch).await {
        Err(e) if e.is_not_found() => Ok(()),
        patched => patched.map(drop),
    }
}

/// Returns true if the movement has not ended and nobody has asked it to stop.
fn goes_on(one: &Value) -> bool {
    let ended = [DataPathPhase::Completed, DataPathPhase::Failed, DataPathPhase::Canceled].map(DataPathPhase::as_str);
    let phase = one["status"]["phase"].as_str().unwrap_or_default();
    !ended.contains(&phase) && one["spec"]["cancel"] != true
}

/// Returns true if a node agent works on the movement.
fn works(one: &Value) -> bool {
    use DataPathPhase as P;
    let phase = one["status"]["phase"].as_str().unwrap_or_default();
    [P::Accepted, P::Prepared, P::InProgress, P::Canceling].map(P::as_str).contains(&phase)
}

/// Asks all that moves data for a restore to stop, when the user has cancelled it, as its resource in the cluster says now. What a
/// server leaves that stops goes on.
///
/// # Errors
/// The reason for people: not all of them were asked.
pub async fn cancel_if_wanted(restore: &Restore, cluster: &Cluster) -> Result<(), String> {
    let resource = resource_type::<Restore>();
    let (namespace, name) = (&restore.metadata.namespace, &restore.metadata.name);
    let work = async {
        let found = cluster.get(&resource, Some(namespace), name).await?;
        let found = found.and_then(|body| serde_json::from_slice::<Value>(&body).ok()).unwrap_or_default();
        match found["metadata"]["uid"] == restore.metadata.uid.as_str() && found["spec"]["cancel"] == true {
            true => cancel_all(restore, cluster).await,
            false => Ok(()),
        }
    };
    match timeout(LONGEST, work).await {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(_) => Err(format!("the cluster did not answer within {} s", LONGEST.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_movement_that_goes_on_is_asked_to_stop() {
        let one = |phase: &str, cancel: bool| json!({"spec": {"cancel": cancel}, "status": {"phase": phase}});
        for (one, expected) in [
            (json!({"spec": {}}), true),
            (one("New", false), true),
            (one("InProgress", false), true),
            (one("InProgress", true), false),
            (one("Completed", false), false),
            (one("Failed", false), false),
            (one("Canceled", false), false),
        ] {
            assert_eq!(goes_on(&one), expected, "{one}");
        }
        let working = ["", "New", "Accepted", "Prepared", "InProgress", "Canceling", "Completed"]
            .map(|phase| works(&one(phase, true)));
        assert_eq!(working, [false, false, true, true, true, true, false]);
    }
}
