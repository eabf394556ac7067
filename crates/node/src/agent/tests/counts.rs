//! The transfers that have begun and ended, as they are counted.

use super::ground::Ground;
use crate::agent::world::World;
use crate::agent::{Running, StepUnderWay};
use crate::rules::{Ending, Step};
use crate::transfer::{Transfer, TransferKind};
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{DataPathPhase, Time};
use serde_json::{Value, json};
use std::sync::Arc;

fn backup(status: Value) -> Transfer {
    let object = json!({
        "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
        "metadata": {"name": "b-1", "namespace": "velero", "uid": "u"},
        "spec": {
            "node": "n1", "pod": {"namespace": "shop", "name": "db-0", "uid": "p"}, "volume": "data",
            "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "kopia",
        },
        "status": status,
    });
    Transfer::parse(TransferKind::PodVolumeBackup, object.to_string().as_bytes()).unwrap()
}

/// A backup of a volume, made and begun so many minutes after twelve.
fn backup_of(name: &str, owner: &str, phase: &str, [made, begun]: [i64; 2]) -> Transfer {
    let at = |minutes: i64| Time::new(noon() + SignedDuration::from_mins(minutes));
    let mut transfer = backup(json!({"phase": phase}));
    transfer.meta.name = name.to_owned();
    transfer.meta.creation_timestamp = Some(at(made));
    let owners = json!([{"apiVersion": "velero.io/v1", "kind": "Backup", "name": owner, "uid": owner}]);
    transfer.meta.owner_references = serde_json::from_value(owners).unwrap();
    transfer.started = (begun > 0).then(|| at(begun));
    transfer
}

fn noon() -> Timestamp {
    "2026-11-28T12:00:00Z".parse().unwrap()
}

#[test]
fn a_volume_that_is_done_was_the_turn_of_its_backup() {
    let mut world = World::default();
    world.put(backup_of("l-runs", "large", "InProgress", [0, 1]));
    world.put(backup_of("l-next", "large", "Prepared", [0, 0]));
    world.put(backup_of("small", "small", "Prepared", [90, 0]));
    let order = |world: &mut World| -> Vec<String> {
        let keys = world.order(noon() + SignedDuration::from_mins(120));
        keys.into_iter().map(|key| key.name).collect()
    };
    assert_eq!(order(&mut world), ["l-runs", "l-next", "small"]);
    world.put(backup_of("l-done", "large", "Completed", [0, 100]));
    assert_eq!(order(&mut world), ["l-runs", "small", "l-next"]);
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
