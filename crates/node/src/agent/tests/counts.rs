//! The counts of transfers that have begun and ended.

use super::ground::Ground;
use crate::agent::{Running, StepUnderWay};
use crate::rules::{Ending, Step};
use crate::transfer::{Transfer, TransferKind};
use lifeboat_api::DataPathPhase;
use serde_json::{Value, json};
use std::sync::Arc;

fn backup(status: Value) -> Transfer {
    let object = json!({
        "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": {"name": "b-1", "namespace": "velero", "uid": "u"},
        "spec": {
            "node": "n1", "pod": {"namespace": "shop", "name": "db-0", "uid": "p"}, "volume": "data",
            "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia",
        },
        "status": status,
    });
    Transfer::parse(TransferKind::PodVolumeBackup, object.to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn a_backup_counts_once_whoever_sees_first_that_it_has_begun_or_ended() {
    let ground = Ground::start().await;
    let started = "2026-11-28T11:00:00Z";
    let prepared = backup(json!({"phase": "Prepared"}));
    let begun = backup(json!({"phase": "InProgress", "startTimestamp": started}));
    let ended =
        backup(json!({"phase": "Completed", "startTimestamp": started, "completionTimestamp": "2026-11-28T11:01:00Z"}));
    let ending = Ending { phase: DataPathPhase::Completed, message: String::new(), result: None, has_no_pod: false };
    let steps =
        [(&prepared, Step::Begin, &begun), (&begun, Step::End(ending), &ended), (&ended, Step::CleanUp, &ended)];
    for mirror_is_first in [false, true] {
        let agent = ground.new_agent();
        let health = Arc::clone(&agent.health);
        let mut running = Running::new(agent);
        for (before, step, stored) in &steps {
            if mirror_is_first {
                running.world.put((*stored).clone());
            }
            running.store((*stored).clone(), Some(StepUnderWay::of(before, step)));
        }
        let text = health.metrics();
        for metric in [
            "podVolume_pod_volume_backup_enqueue_count{node=\"n1\"} 1",
            "podVolume_pod_volume_backup_success_total{node=\"n1\"} 1",
            "podVolume_pod_volume_backup_dequeue_count{node=\"n1\"} 1",
        ] {
            assert!(text.lines().any(|line| line == metric), "{mirror_is_first}: no {metric} in\n{text}");
        }
    }
}
