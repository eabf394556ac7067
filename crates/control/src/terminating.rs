//! The end of the namespace that a server serves.
//!
//! Nothing can be created in a namespace that is being deleted, so a server whose Lease is gone cannot lead there again; yet
//! Restores hold the namespace by a finalizer that only a server takes off. Then a server does this, and nothing else. It is
//! safe without a Lease: it removes what goes with the namespace, and in the bucket, which outlives it, the files of these Restores, as
//! each deletion of a Restore does (originals of objects stay for the time that was promised); two servers may do it side by side.
//! Transfers of volumes hold the namespace, too: node agents take their finalizers off as long as there are any, and a server afterwards.

mod held;
mod transfers;

use self::held::list_with_finalizer;
use crate::work::finalizer::removal_of_finalizer;
use crate::work::restore::{LocatedBackup, clean_up};
use crate::work::{Context, StepError};
use lifeboat_api::{Backup, BackupStorageLocation, ObjectMeta, Restore};
use lifeboat_client::{SERVER_LEASE, api_resource};
use lifeboat_cluster::{Cluster, ClusterError};
use lifeboat_lifecycle::phase::restore::FINALIZER;
use lifeboat_object::ApiResource;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Pause between two looks at the namespace, or at its Restores.
const PAUSE: Duration = Duration::from_secs(5);
/// Time limit for a server that was told to stop to deal with the Restores of its namespace. Together with the time for
/// its tasks to end before, that is less than the default grace period of a pod.
const PARTING: Duration = Duration::from_secs(12);

/// Time limit for the question whether the namespace is being deleted. A server asks when it ends, often because the API server does
/// not answer; one that cannot know ends as if it were not.
const LOOK: Duration = Duration::from_secs(5);

/// Waits until the namespace is being deleted and nobody can lead there any more.
pub(crate) async fn until_nobody_can_lead(cluster: &Cluster, namespace: &str) {
    loop {
        sleep(PAUSE).await;
        if nobody_can_lead(cluster, namespace).await {
            return;
        }
    }
}

/// Returns true if the namespace is being deleted, and its Lease is gone. Where either cannot be read soon, returns false.
pub(crate) async fn nobody_can_lead(cluster: &Cluster, namespace: &str) -> bool {
    let leases = ApiResource::new("coordination.k8s.io", "v1", "leases", "Lease");
    is_terminating(cluster, namespace).await
        && matches!(timeout(LOOK, cluster.get(&leases, Some(namespace), SERVER_LEASE)).await, Ok(Ok(None)))
}

/// Returns true if the namespace is being deleted. Where it cannot be read soon, returns false.
async fn is_terminating(cluster: &Cluster, namespace: &str) -> bool {
    let Ok(Ok(found)) = timeout(LOOK, cluster.get(&ApiResource::namespaces(), None, namespace)).await else {
        return false;
    };
    let found: Value = found.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    found["metadata"]["deletionTimestamp"].is_string()
}

/// Lets the Restores of the namespace go before a leader stops, when the namespace is being deleted: its pods go first, and then
/// nobody is left who could.
pub(crate) async fn part(context: &Context) {
    let namespace = &context.options.namespace;
    if is_terminating(&context.client.cluster, namespace).await && timeout(PARTING, let_go(context)).await.is_err() {
        tracing::error!(
            namespace,
            "Restores, or transfers of volumes, are left with their finalizers ({FINALIZER} and those of node agents): the time to stop is \
             over; `lifeboat uninstall -n {namespace}` takes them off"
        );
    }
}

/// Deletes the files of the Restores of the namespace and takes the finalizer off them, again and again until none has it; false
/// when told to stop before.
pub(crate) async fn let_all_go(context: &Context, cancel: &CancellationToken) -> bool {
    tokio::select! {
        () = let_go(context) => true,
        () = cancel.cancelled() => false,
    }
}

async fn let_go(context: &Context) {
    loop {
        match list_with_finalizer(context, &api_resource::<Restore>(), FINALIZER).await {
            Ok(held) if held.is_empty() => match transfers::let_go(context).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(e) => {
                    tracing::warn!(error = %e, "transfers of volumes cannot go yet, though their namespace is being deleted");
                }
            },
            Ok(held) => {
                let mut is_done = true;
                for meta in &held {
                    if let Err(why) = let_one_go(context, meta).await {
                        let restore = &meta.name;
                        tracing::warn!(
                            restore,
                            "the restore cannot go yet, though its namespace is being deleted: {why}"
                        );
                        is_done = false;
                    }
                }
                if is_done {
                    continue;
                }
            }
            Err(e) => tracing::warn!(error = %e, "the restores of a namespace that is being deleted cannot be listed"),
        }
        sleep(PAUSE).await;
    }
}

async fn let_one_go(context: &Context, meta: &ObjectMeta) -> Result<(), StepError> {
    let name = &meta.name;
    let done = match context.client.get::<Restore>(name).await {
        Ok(None) => Ok(()),
        Ok(Some(restore)) => {
            let place = place(context, &restore).await?;
            clean_up(context, restore, place).await.map(drop)
        }
        Err(why) => {
            tracing::warn!(restore = name, "it cannot be read ({why}): it goes, and its files stay in the bucket");
            let patch = removal_of_finalizer(meta, FINALIZER);
            context.client.patch::<Restore>(name, &patch).await.map_err(StepError::from)
        }
    };
    match done {
        Err(StepError::Cluster(e)) if e.is_not_found() => Ok(()),
        done => done,
    }
}

/// The backup of a restore, and where that lies; `None` when they are gone already.
async fn place(context: &Context, restore: &Restore) -> Result<Option<LocatedBackup>, ClusterError> {
    let Some(backup) = context.client.get::<Backup>(&restore.spec.backup_name).await? else { return Ok(None) };
    let location = context.client.get::<BackupStorageLocation>(&backup.spec.storage_location).await?;
    Ok(location.map(|location| (backup, location)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::{OneBucket, api_server, context, sandbox};
    use bytes::Bytes;
    use lifeboat_api::well_known::{FINALIZER_DATA_PATH, FINALIZER_POD_VOLUME};
    use lifeboat_api::{DataDownload, DataUpload, PodVolumeBackup, PodVolumeRestore};
    use lifeboat_bucket::{BlobStore, Body, Memory, PutOptions};
    use lifeboat_cluster::WriteBody;
    use serde_json::json;
    use std::sync::Arc;
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    /// Otherwise one that was cut off from the API server would go on for minutes after it lost its Lease.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_ends_asks_for_its_namespace_for_seconds_only() {
        let mut tasks = JoinSet::new();
        let silent = api_server(&mut tasks, Vec::new()).await;
        let begun = Instant::now();
        assert!(!nobody_can_lead(&silent, "velero").await);
        assert!(begun.elapsed() <= 2 * LOOK, "{:?}", begun.elapsed());
    }

    async fn put(cluster: &Cluster, resource: &ApiResource, object: Value) {
        let namespace = (resource.kind != "Namespace").then_some("velero");
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let body = Bytes::from(object.to_string());
        cluster.create(resource, namespace, &name, WriteBody::of(body)).await.unwrap();
    }

    /// After `kubectl delete namespace velero`, while a server runs that cannot lead any more
    #[tokio::test]
    async fn a_namespace_that_is_deleted_ends_though_its_server_has_no_lease() {
        let (_sandbox, cluster) = sandbox().await;
        let bucket = Arc::new(Memory::default());
        let file = "restores/done/restore-done-logs.gz";
        bucket.put(file, Body::Bytes(Bytes::from_static(b"log")), PutOptions::default()).await.unwrap();
        let metadata =
            |name: &str, finalizers: Value| json!({"name": name, "namespace": "velero", "finalizers": finalizers});
        let object = |kind: &str, metadata: Value, spec: Value, status: Value| json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status});
        let location = object(
            "BackupStorageLocation",
            metadata("main", json!(["example.com/stays"])),
            json!({"provider": "memory", "objectStorage": {"bucket": "b"}}),
            json!({"phase": "Available"}),
        );
        put(&cluster, &api_resource::<BackupStorageLocation>(), location).await;
        let of_backup = json!({"storageLocation": "main"});
        let backup =
            object("Backup", metadata("b", json!(["example.com/stays"])), of_backup, json!({"phase": "Completed"}));
        put(&cluster, &api_resource::<Backup>(), backup).await;
        let begun = json!({"phase": "Completed", "startTimestamp": "2026-11-22T10:00:00Z"});
        for (name, backup, status) in [
            ("done", "b", begun.clone()),
            ("refused", "b", json!({"phase": "FailedValidation"})),
            ("orphan", "gone", begun),
        ] {
            let spec = json!({"backupName": backup});
            put(
                &cluster,
                &api_resource::<Restore>(),
                object("Restore", metadata(name, json!([FINALIZER])), spec, status),
            )
            .await;
        }
        let pod = json!({"pod": {"namespace": "shop", "name": "web"}, "volume": "files"});
        for (resource, finalizer) in [
            (api_resource::<DataUpload>(), FINALIZER_DATA_PATH),
            (api_resource::<DataDownload>(), FINALIZER_DATA_PATH),
            (api_resource::<PodVolumeBackup>(), FINALIZER_POD_VOLUME),
            (api_resource::<PodVolumeRestore>(), FINALIZER_POD_VOLUME),
        ] {
            let metadata = metadata("t", json!([finalizer]));
            let api_version = resource.api_version();
            let transfer = json!({"apiVersion": api_version, "kind": resource.kind, "metadata": metadata, "spec": pod});
            put(&cluster, &resource, transfer).await;
        }
        let context = context(cluster.clone(), Arc::new(OneBucket(bucket.clone())));
        assert!(!nobody_can_lead(&cluster, "velero").await, "the namespace stays");

        cluster.delete(&ApiResource::namespaces(), None, "velero").await.unwrap();
        assert!(nobody_can_lead(&cluster, "velero").await);
        assert!(let_all_go(&context, &CancellationToken::new()).await);

        assert!(context.client.list::<Restore>("").await.unwrap().is_empty());
        assert!(context.client.list::<DataUpload>("").await.unwrap().is_empty());
        assert!(context.client.list::<DataDownload>("").await.unwrap().is_empty());
        assert!(context.client.list::<PodVolumeBackup>("").await.unwrap().is_empty());
        assert!(context.client.list::<PodVolumeRestore>("").await.unwrap().is_empty());
        assert!(!bucket.exists(file).await.unwrap(), "the files of a restore go with it");
    }
}
