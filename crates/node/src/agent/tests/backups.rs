use super::ground::{EMPTY, Ground, SAVED};
use crate::resources;
use crate::transfer::TransferKind::PodVolumeBackup;
use jiff::SignedDuration;
use serde_json::json;

/// A backup that runs: its pod, and that of its source.
async fn running_backup() -> (Ground, String) {
    let mut ground = Ground::start().await;
    let uid = ground.target_pod("db-0").await;
    ground.target_runs("db-0").await;
    ground.backup("pvb", "n1", ("db-0", &uid)).await;
    ground.agent();
    ground.pod_is("pvb", "Running", "").await;
    ground.phase(PodVolumeBackup, "pvb", "InProgress").await;
    (ground, uid)
}

#[tokio::test]
async fn a_volume_of_a_pod_is_saved() {
    let (ground, uid) = running_backup().await;
    let pod = ground.there(&resources::pods(), "velero", "pvb").await;
    let path = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/data");
    assert_eq!(
        pod["spec"]["volumes"].as_array().unwrap().last().unwrap()["hostPath"],
        json!({"path": path, "type": "Directory"})
    );
    let running = ground.there(&PodVolumeBackup.resource(), "velero", "pvb").await;
    assert_eq!(running["metadata"]["finalizers"], json!(["velero.io/pod-volume-finalizer"]));
    ground.pod_is("pvb", "Succeeded", SAVED).await;
    assert_eq!(ground.ended(PodVolumeBackup, "pvb", "Completed").await, "");
    let mut status = ground.there(&PodVolumeBackup.resource(), "velero", "pvb").await["status"].clone();
    for time in ["acceptedTimestamp", "startTimestamp", "completionTimestamp"] {
        assert!(status[time].take().is_string(), "{time}");
    }
    let expected = json!({
        "phase": "Completed", "snapshotID": "k1", "path": "/u", "incrementalBytes": 3,
        "progress": {"totalBytes": 7, "bytesDone": 7},
        "acceptedTimestamp": null, "startTimestamp": null, "completionTimestamp": null,
    });
    assert_eq!(status, expected);
}

#[tokio::test]
async fn an_empty_volume_is_saved_without_a_snapshot_and_says_so() {
    let (ground, _) = running_backup().await;
    ground.pod_is("pvb", "Succeeded", EMPTY).await;
    let message = "volume was empty so no snapshot was taken";
    assert_eq!(ground.ended(PodVolumeBackup, "pvb", "Completed").await, message);
    let status = ground.there(&PodVolumeBackup.resource(), "velero", "pvb").await["status"].clone();
    assert_eq!((status.get("snapshotID"), &status["path"]), (None, &json!("/u")));
}

#[tokio::test]
async fn a_backup_that_is_canceled_or_fails_says_so() {
    let (ground, uid) = running_backup().await;
    // The second waits for the slot of the first.
    ground.backup("pvb-2", "n1", ("db-0", &uid)).await;
    ground.pod_is("pvb-2", "Running", "").await;
    ground.phase(PodVolumeBackup, "pvb-2", "Prepared").await;
    ground.cancel(PodVolumeBackup, "pvb-2").await;
    let asked = "Cancel was asked for; nothing was saved";
    assert_eq!(ground.ended(PodVolumeBackup, "pvb-2", "Canceled").await, asked);
    ground.cancel(PodVolumeBackup, "pvb").await;
    ground.phase(PodVolumeBackup, "pvb", "Canceling").await;
    ground.pod_is("pvb", "Failed", "error: data path is canceled").await;
    assert_eq!(ground.ended(PodVolumeBackup, "pvb", "Canceled").await, "error: data path is canceled");
    ground.backup("pvb-3", "n1", ("db-0", &uid)).await;
    ground.pod_is("pvb-3", "Running", "").await;
    ground.phase(PodVolumeBackup, "pvb-3", "InProgress").await;
    ground.pod_is("pvb-3", "Failed", "the bucket is full").await;
    let message = "data path backup failed: the bucket is full";
    assert_eq!(ground.ended(PodVolumeBackup, "pvb-3", "Failed").await, message);
}

#[tokio::test]
async fn a_restart_of_the_agent_in_any_phase_of_a_backup_loses_nothing() {
    let mut ground = Ground::start().await;
    let uid = ground.target_pod("db-0").await;
    ground.target_runs("db-0").await;
    ground.backup("pvb", "n1", ("db-0", &uid)).await;
    ground.agent();
    ground.there(&resources::pods(), "velero", "pvb").await;
    ground.kill().await;
    ground.pod_is("pvb", "Running", "").await;
    ground.agent();
    ground.phase(PodVolumeBackup, "pvb", "InProgress").await;
    ground.kill().await;
    // The pod ends while there is no agent.
    ground.pod_is("pvb", "Succeeded", SAVED).await;
    ground.agent();
    assert_eq!(ground.ended(PodVolumeBackup, "pvb", "Completed").await, "");
    let status = ground.there(&PodVolumeBackup.resource(), "velero", "pvb").await["status"].clone();
    assert_eq!(status["snapshotID"], "k1");
}

#[tokio::test]
async fn a_backup_whose_pod_is_gone_or_has_ended_is_no_whole_one_and_fails() {
    let (ground, uid) = running_backup().await;
    let status = json!({"phase": "Succeeded"});
    ground.status(&resources::pods(), "shop", "db-0", status).await;
    let message = "the pod shop/db-0, whose volume is saved, has ended: it is Succeeded";
    assert_eq!(ground.ended(PodVolumeBackup, "pvb", "Failed").await, message);
    ground.delete(&resources::pods(), "shop", "db-0").await;
    ground.backup("pvb-2", "n1", ("db-0", &uid)).await;
    let ended = ground.ended(PodVolumeBackup, "pvb-2", "Failed").await;
    // The agent may not have seen yet that the pod is gone.
    let gone = "the pod shop/db-0, whose volume is to be saved, is gone";
    assert!([message, gone].contains(&ended.as_str()), "{ended}");
}

#[tokio::test]
async fn a_new_backup_of_a_node_without_an_agent_fails_with_the_reason() {
    let (ground, uid) = running_backup().await;
    ground.backup("pvb-2", "n2", ("db-0", &uid)).await;
    // An agent that has looked at it once takes up another one.
    ground.backup("pvb-3", "n1", ("db-0", &uid)).await;
    ground.there(&resources::pods(), "velero", "pvb-3").await;
    ground.pass(SignedDuration::from_mins(5), PodVolumeBackup, "pvb-2").await;
    let message = ground.ended(PodVolumeBackup, "pvb-2", "Failed").await;
    assert!(message.starts_with("the node n2, on which it was, has no running node agent since "), "{message}");
}
