mod attempts;
mod backups;
mod configured;
mod counts;
mod deliveries;
mod ground;
mod unreadable;
mod uploads;
mod users;
mod waits;

use crate::config::NodeAgentConfig;
use crate::kube::ObjectName;
use crate::resources;
use crate::transfer::TransferKind::{DataDownload, PodVolumeBackup, PodVolumeRestore};
use ground::{Ground, NODE, RESULT};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// A restore that runs: its pod, and that of its target.
async fn running_restore() -> (Ground, String) {
    let mut ground = Ground::start().await;
    let uid = ground.target_pod("db-0").await;
    ground.restore("pvr", ("db-0", &uid)).await;
    ground.agent();
    ground.pod_is("pvr", "Running", "").await;
    ground.phase(PodVolumeRestore, "pvr", "InProgress").await;
    (ground, uid)
}

#[tokio::test]
async fn a_volume_of_a_pod_is_restored() {
    let (ground, uid) = running_restore().await;
    let pod = ground.there(&resources::pods(), "velero", "pvr").await;
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let path = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/data");
    assert_eq!(volumes.last().unwrap()["hostPath"], json!({"path": path, "type": "Directory"}));
    let transfer = ground.there(&PodVolumeRestore.resource(), "velero", "pvr").await;
    let object =
        json!({"kind": "PodVolumeRestore", "namespace": "velero", "name": "pvr", "uid": transfer["metadata"]["uid"]});
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "velero"}, "involvedObject": object,
        "reason": "Data-Path-Progress", "message": r#"{"totalBytes":7,"doneBytes":3,"totalFiles":2,"doneFiles":1}"#,
    });
    ground.create(&resources::events(), event).await;
    ground.pass(SignedDuration::from_secs(10), PodVolumeRestore, "pvr").await;
    let has_moved = |found: Option<&Value>| {
        found.is_some_and(|found| found["status"]["progress"] == json!({"totalBytes": 7, "bytesDone": 3}))
    };
    let moving = ground.until(&PodVolumeRestore.resource(), Some("velero"), "pvr", has_moved).await.unwrap();
    let (moved, began) =
        (&moving["metadata"]["annotations"]["lifeboat.io/moved-at"], &moving["status"]["startTimestamp"]);
    assert!(moved.as_str().unwrap() >= began.as_str().unwrap(), "{moved} {began}");
    assert_eq!(moving["metadata"]["annotations"]["lifeboat.io/moved-files"], "1/2");
    ground.pod_is("pvr", "Succeeded", RESULT).await;
    assert_eq!(ground.ended(PodVolumeRestore, "pvr", "Completed").await, "");
    let mut status = ground.there(&PodVolumeRestore.resource(), "velero", "pvr").await["status"].clone();
    for time in ["acceptedTimestamp", "startTimestamp", "completionTimestamp"] {
        assert!(status[time].take().is_string(), "{time}");
    }
    let progress = json!({"totalBytes": 7, "bytesDone": 7});
    let expected = json!({
        "phase": "Completed", "node": NODE, "progress": progress,
        "acceptedTimestamp": null, "startTimestamp": null, "completionTimestamp": null,
    });
    assert_eq!(status, expected);
}

#[tokio::test]
async fn a_download_brings_its_volume_to_the_target_claim() {
    let mut ground = Ground::start().await;
    let selector = json!({"matchLabels": {"velero.io/dynamic-pv-restore": "x"}});
    ground.target_claim(json!({"accessModes": ["ReadWriteOnce"], "selector": selector})).await;
    ground.download("dd").await;
    ground.agent();
    ground.provision("dd", "Delete").await;
    ground.pod_is("dd", "Running", "").await;
    ground.phase(DataDownload, "dd", "InProgress").await;
    ground.pod_is("dd", "Succeeded", RESULT).await;
    ground.bind_target().await;
    assert_eq!(ground.ended(DataDownload, "dd", "Completed").await, "");
    let volumes = resources::volumes();
    let volume =
        ground.kube.get(ObjectName { resource: &volumes, namespace: None, name: "pv-1" }).await.unwrap().unwrap();
    let claims = resources::claims();
    let target = ObjectName { resource: &claims, namespace: Some("shop"), name: "data" };
    let target = ground.kube.get(target).await.unwrap().unwrap();
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": target["metadata"]["uid"],
    });
    let expected = json!({"persistentVolumeReclaimPolicy": "Delete", "claimRef": claim});
    assert_eq!(
        (&volume["spec"], &volume["metadata"]["labels"]),
        (&expected, &json!({"velero.io/dynamic-pv-restore": "x"}))
    );
    let target = ground.there(&resources::claims(), "shop", "data").await;
    assert_eq!(target["spec"]["volumeName"], "pv-1");
}

#[tokio::test]
async fn a_restart_of_the_agent_in_any_phase_loses_nothing() {
    let mut ground = Ground::start().await;
    ground.target_claim(json!({})).await;
    ground.download("dd").await;
    ground.agent();
    ground.there(&resources::pods(), "velero", "dd").await;
    ground.kill().await;
    ground.provision("dd", "Delete").await;
    ground.pod_is("dd", "Running", "").await;
    ground.agent();
    ground.phase(DataDownload, "dd", "InProgress").await;
    ground.kill().await;
    // The pod ends while there is no agent.
    ground.pod_is("dd", "Succeeded", RESULT).await;
    ground.agent();
    // The volume is on its way, and pod and claim are gone.
    let is_reserved =
        |volume: Option<&Value>| volume.is_some_and(|volume| volume["spec"]["claimRef"]["namespace"] == "shop");
    ground.until(&resources::volumes(), None, "pv-1", is_reserved).await;
    ground.kill().await;
    ground.bind_target().await;
    ground.agent();
    assert_eq!(ground.ended(DataDownload, "dd", "Completed").await, "");
}

#[tokio::test]
async fn what_a_dead_agent_left_behind_an_ended_transfer_is_removed() {
    let (mut ground, _) = running_restore().await;
    ground.kill().await;
    let failed = json!({"status": {"phase": "Failed", "message": "by hand"}});
    ground.patch(&PodVolumeRestore.resource(), "velero", "pvr", failed).await;
    ground.agent();
    assert_eq!(ground.ended(PodVolumeRestore, "pvr", "Failed").await, "by hand");
}

#[tokio::test]
async fn a_cancellation_ends_a_transfer_in_each_phase() {
    let asked = "Cancel was asked for; nothing was restored";
    let mut ground = Ground::start().await;
    // New: its target does not exist.
    ground.download("dd").await;
    ground.agent();
    ground.cancel(DataDownload, "dd").await;
    assert_eq!(ground.ended(DataDownload, "dd", "Canceled").await, asked);
    // Accepted: its pod has no node.
    ground.target_claim(json!({})).await;
    ground.download("dd-2").await;
    ground.there(&resources::pods(), "velero", "dd-2").await;
    ground.cancel(DataDownload, "dd-2").await;
    assert_eq!(ground.ended(DataDownload, "dd-2", "Canceled").await, asked);
    // Prepared: the node has no slot for a second one.
    let uid = ground.target_pod("db-0").await;
    ground.restore("pvr", ("db-0", &uid)).await;
    ground.pod_is("pvr", "Running", "").await;
    ground.phase(PodVolumeRestore, "pvr", "InProgress").await;
    ground.restore("pvr-2", ("db-0", &uid)).await;
    ground.pod_is("pvr-2", "Running", "").await;
    ground.phase(PodVolumeRestore, "pvr-2", "Prepared").await;
    ground.cancel(PodVolumeRestore, "pvr-2").await;
    assert_eq!(ground.ended(PodVolumeRestore, "pvr-2", "Canceled").await, asked);
    // In progress: its pod stops.
    ground.cancel(PodVolumeRestore, "pvr").await;
    ground.phase(PodVolumeRestore, "pvr", "Canceling").await;
    ground.pod_is("pvr", "Failed", "error: data path is canceled").await;
    assert_eq!(ground.ended(PodVolumeRestore, "pvr", "Canceled").await, "error: data path is canceled");
}

#[tokio::test]
async fn a_pod_that_does_not_stop_is_removed() {
    let (ground, _) = running_restore().await;
    ground.cancel(PodVolumeRestore, "pvr").await;
    ground.phase(PodVolumeRestore, "pvr", "Canceling").await;
    ground.pass(SignedDuration::from_secs(9), PodVolumeRestore, "pvr").await;
    let message = "the mover's pod did not stop in time and was removed; the volume is restored in part";
    assert_eq!(ground.ended(PodVolumeRestore, "pvr", "Canceled").await, message);
}

#[tokio::test]
async fn a_deleted_transfer_is_stopped_and_goes() {
    let (ground, _) = running_restore().await;
    ground.delete(&PodVolumeRestore.resource(), "velero", "pvr").await;
    let stopping = ground.phase(PodVolumeRestore, "pvr", "Canceling").await;
    let seen = (&stopping["spec"]["cancel"], &stopping["status"]["message"]);
    assert_eq!(seen, (&json!(true), &json!("Cancel PVR because it is being deleted")));
    ground.pod_is("pvr", "Failed", "data path is canceled").await;
    ground.gone(&PodVolumeRestore.resource(), "pvr").await;
    ground.gone(&resources::pods(), "pvr").await;
}

#[tokio::test]
async fn a_restore_whose_pod_is_deleted_fails_and_does_not_hang() {
    let (ground, uid) = running_restore().await;
    ground.delete(&resources::pods(), "shop", "db-0").await;
    let message = "the pod shop/db-0, whose volume is restored, is gone";
    assert_eq!(ground.ended(PodVolumeRestore, "pvr", "Failed").await, message);
    // And one that was never begun.
    ground.restore("pvr-2", ("db-0", &uid)).await;
    ground.pass(SignedDuration::from_secs(60), PodVolumeRestore, "pvr-2").await;
    let message = "the pod shop/db-0, whose volume is to be restored, is gone";
    assert_eq!(ground.ended(PodVolumeRestore, "pvr-2", "Failed").await, message);
}

#[tokio::test]
async fn a_download_that_cannot_be_prepared_fails_at_once_or_in_time() {
    let mut ground = Ground::start().await;
    ground.target_claim(json!({"volumeName": "pv-0"})).await;
    ground.download("dd").await;
    ground.agent();
    let bound = "error exposing snapshot: Target PVC shop/data has already been bound, abort";
    assert_eq!(ground.ended(DataDownload, "dd", "Failed").await, bound);
    ground.delete(&resources::claims(), "shop", "data").await;
    ground.download("dd-2").await;
    ground.pass(SignedDuration::from_mins(30), DataDownload, "dd-2").await;
    assert_eq!(ground.ended(DataDownload, "dd-2", "Failed").await, "the target claim shop/data does not exist");
}

#[tokio::test]
async fn a_pod_without_room_waits_with_the_words_of_the_scheduler() {
    let mut ground = Ground::start().await;
    ground.target_claim(json!({})).await;
    ground.download("dd").await;
    ground.agent();
    ground.there(&resources::pods(), "velero", "dd").await;
    let full = "0/3 nodes are available: 3 Insufficient memory.";
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": full});
    let status = json!({"phase": "Pending", "conditions": [condition]});
    ground.status(&resources::pods(), "velero", "dd", status).await;
    let says = |found: Option<&Value>| {
        found.is_some_and(|found| found["status"]["message"] == format!("its pod waits for a node: {full}"))
    };
    ground.until(&DataDownload.resource(), Some("velero"), "dd", says).await;
    ground.pass(SignedDuration::from_mins(31), DataDownload, "dd").await;
    // It is prepared once there is room, and says nothing more.
    ground.provision("dd", "Delete").await;
    ground.pod_is("dd", "Running", "").await;
    let running = ground.phase(DataDownload, "dd", "InProgress").await;
    assert_eq!((&running["status"]["message"], &running["status"]["node"]), (&Value::Null, &json!(NODE)));
}

#[tokio::test]
async fn a_pod_that_never_begins_times_out() {
    let mut ground = Ground::start().await;
    ground.target_claim(json!({})).await;
    ground.download("dd").await;
    ground.agent();
    ground.provision("dd", "Retain").await;
    ground.there(&resources::pods(), "velero", "dd").await;
    ground.pass(SignedDuration::from_mins(30), DataDownload, "dd").await;
    let message = "timeout on preparing data download: its pod has not been looked at by the scheduler";
    assert_eq!(ground.ended(DataDownload, "dd", "Failed").await, message);
    // The volume that was made for it goes with its claim.
    let volumes = resources::volumes();
    let volume =
        ground.kube.get(ObjectName { resource: &volumes, namespace: None, name: "pv-1" }).await.unwrap().unwrap();
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
}

#[tokio::test]
async fn a_node_runs_as_many_as_it_may_and_the_queue_holds_the_others() {
    let mut ground = Ground::start().await;
    let text = json!({"loadConcurrency": {"prepareQueueLength": 1}}).to_string();
    ground.config = NodeAgentConfig::parse("c", &[("k".to_owned(), text)].into()).unwrap().config;
    let uid = ground.target_pod("db-0").await;
    ground.agent();
    ground.restore("pvr-1", ("db-0", &uid)).await;
    ground.pod_is("pvr-1", "Running", "").await;
    ground.phase(PodVolumeRestore, "pvr-1", "InProgress").await;
    ground.restore("pvr-2", ("db-0", &uid)).await;
    ground.pod_is("pvr-2", "Running", "").await;
    ground.phase(PodVolumeRestore, "pvr-2", "Prepared").await;
    ground.restore("pvr-3", ("db-0", &uid)).await;
    // Each says what it waits for.
    for (name, phase, waits) in [
        ("pvr-2", "Prepared", "as many run on this node as loadConcurrency allows"),
        ("pvr-3", "", "as many are prepared in the cluster as prepareQueueLength allows"),
    ] {
        let says = |found: Option<&Value>| {
            let status = found.map(|found| &found["status"]);
            status.is_some_and(|status| {
                status["phase"].as_str().unwrap_or_default() == phase && status["message"] == waits
            })
        };
        ground.until(&PodVolumeRestore.resource(), Some("velero"), name, says).await;
    }
    ground.pod_is("pvr-1", "Succeeded", RESULT).await;
    ground.ended(PodVolumeRestore, "pvr-1", "Completed").await;
    // The second has its slot, and the third its place in the queue.
    ground.phase(PodVolumeRestore, "pvr-2", "InProgress").await;
    ground.pod_is("pvr-3", "Running", "").await;
    let third = ground.phase(PodVolumeRestore, "pvr-3", "Prepared").await;
    assert_eq!(third["metadata"]["labels"]["velero.io/expose-on-going"], "true");
}

/// A download that the agent of another node has begun.
async fn begun_elsewhere(status: Value) -> Ground {
    let mut ground = Ground::start().await;
    ground.target_claim(json!({})).await;
    ground.download("dd").await;
    let begun = json!({"metadata": {"finalizers": [DataDownload.finalizer()]}, "status": status});
    ground.patch(&DataDownload.resource(), "velero", "dd", begun).await;
    ground.agent();
    // An agent that has looked at it once takes up another one.
    let uid = ground.target_pod("db-0").await;
    ground.restore("pvr", ("db-0", &uid)).await;
    ground.there(&resources::pods(), "velero", "pvr").await;
    ground
}

#[tokio::test]
async fn a_move_whose_node_vanished_goes_on_at_another() {
    let ground = begun_elsewhere(json!({"phase": "InProgress", "node": "n2", "acceptedByNode": "n2"})).await;
    ground.pass(SignedDuration::from_mins(5), DataDownload, "dd").await;
    let accepted = ground.phase(DataDownload, "dd", "Accepted").await;
    let status = &accepted["status"];
    let message = "attempt 2 of 3, after attempt 1: the mover's pod velero/dd was removed while it ran";
    assert_eq!((&status["acceptedByNode"], &status["message"]), (&json!(NODE), &json!(message)));
    // Until the first mover has ended by itself, wherever it is, there is no second one.
    ground.pass(SignedDuration::from_mins(5), DataDownload, "dd").await;
    ground.provision("dd", "Delete").await;
    ground.pod_is("dd", "Running", "").await;
    ground.phase(DataDownload, "dd", "Prepared").await;
}

#[tokio::test]
async fn what_a_vanished_node_has_accepted_is_prepared_by_another() {
    let accepted = json!({"phase": "Accepted", "acceptedByNode": "n2", "acceptedTimestamp": "2020-01-01T00:00:00Z"});
    let ground = begun_elsewhere(accepted).await;
    ground.pass(SignedDuration::from_mins(5), DataDownload, "dd").await;
    ground.provision("dd", "Delete").await;
    let accepted = ground.there(&DataDownload.resource(), "velero", "dd").await;
    assert_eq!(accepted["status"]["acceptedByNode"], NODE);
    ground.pod_is("dd", "Running", "").await;
    ground.phase(DataDownload, "dd", "Prepared").await;
}

#[tokio::test]
async fn a_backup_of_files_on_a_vanished_node_fails_with_the_reason() {
    let mut ground = Ground::start().await;
    let uid = ground.target_pod("db-0").await;
    ground.backup("pvb", "n2", ("db-0", &uid)).await;
    let begun = json!({"metadata": {"finalizers": [PodVolumeBackup.finalizer()]}, "status": {"phase": "InProgress"}});
    ground.patch(&PodVolumeBackup.resource(), "velero", "pvb", begun).await;
    ground.agent();
    ground.restore("pvr", ("db-0", &uid)).await;
    ground.there(&resources::pods(), "velero", "pvr").await;
    ground.pass(SignedDuration::from_mins(5), PodVolumeBackup, "pvb").await;
    let message = ground.ended(PodVolumeBackup, "pvb", "Failed").await;
    assert!(message.starts_with("the node n2, on which it was, has no running node agent since "), "{message}");
}
