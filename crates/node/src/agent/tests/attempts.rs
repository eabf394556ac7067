use super::ground::{Ground, RESULT, SAVED};
use super::running_restore;
use crate::resources;
use crate::transfer::TransferKind::{DataUpload, PodVolumeBackup, PodVolumeRestore};
use serde_json::{Value, json};

const EVICTED: &str = "data path pod was evicted, message: low on memory";

/// Plays the kubelet: evicts the mover's pod.
async fn evict(ground: &Ground, name: &str) {
    let evicted =
        json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory", "containerStatuses": null});
    ground.status(&resources::pods(), "velero", name, evicted).await;
}

#[tokio::test]
async fn a_killed_mover_is_made_anew_and_says_why_in_the_meantime() {
    let (ground, _) = running_restore().await;
    let first = ground.there(&resources::pods(), "velero", "pvr").await;
    evict(&ground, "pvr").await;
    ground.another_pod("pvr", &first).await;
    let waiting = ground.phase(PodVolumeRestore, "pvr", "Accepted").await;
    assert_eq!(waiting["status"]["message"], format!("attempt 2 of 3, after attempt 1: {EVICTED}"));
    ground.pod_is("pvr", "Running", "").await;
    let runs = ground.phase(PodVolumeRestore, "pvr", "InProgress").await;
    assert_eq!(runs["status"]["message"], waiting["status"]["message"]);
    assert_eq!(runs["metadata"]["labels"].get("velero.io/expose-on-going"), None);
    ground.pod_is("pvr", "Succeeded", RESULT).await;
    assert_eq!(ground.ended(PodVolumeRestore, "pvr", "Completed").await, "");
}

#[tokio::test]
async fn a_mover_that_is_killed_three_times_fails_with_each_reason() {
    let (ground, _) = running_restore().await;
    let mut pod = ground.there(&resources::pods(), "velero", "pvr").await;
    for _ in 0..2 {
        ground.delete(&resources::pods(), "velero", "pvr").await;
        pod = ground.another_pod("pvr", &pod).await;
        ground.pod_is("pvr", "Running", "").await;
        ground.phase(PodVolumeRestore, "pvr", "InProgress").await;
    }
    evict(&ground, "pvr").await;
    let removed = "the mover's pod velero/pvr was removed while it ran";
    let message = format!("data path restore failed: attempt 1: {removed}; attempt 2: {removed}; attempt 3: {EVICTED}");
    assert_eq!(ground.ended(PodVolumeRestore, "pvr", "Failed").await, message);
}

#[tokio::test]
async fn a_mover_that_failed_by_itself_is_not_made_anew() {
    let (ground, _) = running_restore().await;
    ground.pod_is("pvr", "Failed", "no space").await;
    let message = "data path restore failed: no space";
    assert_eq!(ground.ended(PodVolumeRestore, "pvr", "Failed").await, message);
}

#[tokio::test]
async fn another_mover_reads_the_volume_of_the_same_pod_only() {
    let mut ground = Ground::start().await;
    let uid = ground.target_pod("db-0").await;
    ground.target_runs("db-0").await;
    ground.backup("pvb", "n1", ("db-0", &uid)).await;
    ground.agent();
    ground.pod_is("pvb", "Running", "").await;
    ground.phase(PodVolumeBackup, "pvb", "InProgress").await;
    ground.kill().await;
    // Both pods are gone when an agent comes, and there is another one of the name.
    ground.delete(&resources::pods(), "velero", "pvb").await;
    ground.delete(&resources::pods(), "shop", "db-0").await;
    ground.target_pod("db-0").await;
    ground.agent();
    let message = "the pod shop/db-0, whose volume is saved, is gone";
    assert_eq!(ground.ended(PodVolumeBackup, "pvb", "Failed").await, message);
}

#[tokio::test]
async fn an_agent_that_dies_between_two_attempts_loses_none() {
    let mut ground = Ground::start().await;
    ground.snapshot(true).await;
    ground.upload("du").await;
    ground.agent();
    ground.provision("du", "Delete").await;
    ground.pod_is("du", "Running", "").await;
    ground.phase(DataUpload, "du", "InProgress").await;
    ground.kill().await;
    let first = ground.there(&resources::pods(), "velero", "du").await;
    evict(&ground, "du").await;
    ground.agent();
    ground.another_pod("du", &first).await;
    let accepted = ground.phase(DataUpload, "du", "Accepted").await;
    let killed: Value =
        serde_json::from_str(accepted["metadata"]["annotations"]["lifeboat.io/killed-movers"].as_str().unwrap())
            .unwrap();
    assert_eq!(killed, json!([{"pod": first["metadata"]["uid"], "reason": EVICTED}]));
    assert_eq!(accepted["status"].get("node"), None);
    ground.pod_is("du", "Running", "").await;
    ground.phase(DataUpload, "du", "InProgress").await;
    ground.pod_is("du", "Succeeded", SAVED).await;
    ground.phase(DataUpload, "du", "Completed").await;
}
