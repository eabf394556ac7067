//! Follows the volumes of a backup or restore and the pods that move them.

use super::processes::Processes;
use crate::bench::bed::pause;
use crate::bench::compared::sides::Cost;
use anyhow::{Context, Result, bail, ensure};
use lifeboat_testbed::ApiClient;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The longest backup or restore of the benchmark.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

/// The direction in which bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Backup,
    Restore,
}

/// The words by which the volumes of an operation are found.
struct OperationTypes {
    /// The type of the whole operation.
    operations: &'static str,
    /// The type of the transfer of one volume.
    transfers: &'static str,
    /// The label of a transfer that names its operation.
    label: &'static str,
}

impl Direction {
    fn types(self) -> OperationTypes {
        match self {
            Self::Backup => OperationTypes {
                operations: "backups.velero.io",
                transfers: "podvolumebackups.velero.io",
                label: "velero.io/backup-name",
            },
            Self::Restore => OperationTypes {
                operations: "restores.velero.io",
                transfers: "podvolumerestores.velero.io",
                label: "velero.io/restore-name",
            },
        }
    }
}

/// A backup or restore, by its namespace and name.
#[derive(Clone, Copy, Debug)]
pub(super) struct FollowedOperation<'a> {
    pub(super) direction: Direction,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// The transfer of a volume that has completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct MovedVolume {
    pub(super) accepted: Instant,
    pub(super) ended: Instant,
    /// Seconds from its pod's first sight until the container of that ran.
    pub(super) start: f64,
    /// The time from accepted to completed without the start of the pod, and the work and memory of the mover.
    pub(super) cost: Cost,
}

/// The moments of a transfer that were seen.
#[derive(Debug, Default)]
struct SeenTransfer {
    accepted: Option<Instant>,
    ended: Option<Instant>,
    pod: Option<String>,
    pod_seen: Option<Instant>,
    pod_runs: Option<Instant>,
}

impl SeenTransfer {
    /// Takes in its resource.
    fn see(&mut self, transfer: &Value, now: Instant) -> Result<()> {
        let phase = transfer["status"]["phase"].as_str().unwrap_or_default();
        if !["", "New"].contains(&phase) {
            self.accepted.get_or_insert(now);
        }
        match phase {
            "Completed" => {
                self.ended.get_or_insert(now);
            }
            "Failed" | "Canceled" | "Canceling" => {
                bail!("the transfer {} is {phase}: {}", transfer["metadata"]["name"], transfer["status"]["message"])
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in its pod.
    fn see_pod(&mut self, pod: &Value, now: Instant) {
        self.pod_seen.get_or_insert(now);
        self.pod = pod["metadata"]["uid"].as_str().map(str::to_owned);
        let state = &pod["status"]["containerStatuses"][0]["state"];
        if state.get("running").is_some() || state.get("terminated").is_some() {
            self.pod_runs.get_or_insert(now);
        }
    }

    fn moved(&self, processes: &Processes) -> Result<MovedVolume> {
        let accepted = self.accepted.context("it was not seen when it was accepted")?;
        let ended = self.ended.context("it was not seen at its end")?;
        let seen = self.pod_seen.context("its pod was not seen")?;
        let runs = self.pod_runs.context("its pod was not seen when it ran")?;
        let used = processes.of(self.pod.as_deref().unwrap_or_default());
        let start = (runs - seen).as_secs_f64();
        let wall = (ended - accepted).as_secs_f64() - start;
        let cost = Cost { wall, user: used.user, system: used.system, peak_mib: used.peak_mib };
        Ok(MovedVolume { accepted, ended, start, cost })
    }
}

/// Follows an operation to its end, which has to be good, and gives its volumes.
pub(super) fn follow(client: &ApiClient, of: FollowedOperation<'_>) -> Result<Vec<MovedVolume>> {
    let FollowedOperation { direction, namespace, name } = of;
    let OperationTypes { operations, transfers, label } = direction.types();
    let (end, mut seen, mut processes) =
        (Instant::now() + PATIENCE, BTreeMap::<String, SeenTransfer>::new(), Processes::default());
    loop {
        let operation = client.get(operations, name, namespace)?.unwrap_or_default();
        let now = Instant::now();
        for transfer in client.list(transfers, Some(namespace))? {
            if transfer["metadata"]["labels"][label] == name {
                seen.entry(name_of(&transfer)).or_default().see(&transfer, now)?;
            }
        }
        for pod in client.list("pods", Some(namespace))? {
            let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
            if let Some(transfer) = seen.get_mut(owner) {
                transfer.see_pod(&pod, now);
            }
        }
        let pods: Vec<String> = seen.values().filter_map(|one| one.pod.clone()).collect();
        processes.look(&pods)?;
        match operation["status"]["phase"].as_str().unwrap_or_default() {
            "Completed" => break,
            phase @ ("PartiallyFailed" | "Failed" | "FailedValidation") => {
                bail!("{operations} {name} is {phase}: {}", operation["status"])
            }
            _ => {}
        }
        ensure!(now < end, "{operations} {name} has not ended within {} s", PATIENCE.as_secs());
        pause();
    }
    let moved = seen.iter().map(|(name, one)| one.moved(&processes).with_context(|| format!("the transfer {name}")));
    moved.collect()
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_time_of_a_transfer_is_without_the_start_of_its_pod() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let transfer = |phase: &str| json!({"metadata": {"name": "a"}, "status": {"phase": phase}});
        let pod = |state: Value| json!({"metadata": {"uid": "u"}, "status": {"containerStatuses": [{"state": state}]}});
        let mut seen = SeenTransfer::default();
        assert!(seen.moved(&Processes::default()).is_err());
        seen.see(&transfer("New"), at(0)).unwrap();
        seen.see(&transfer("Accepted"), at(1)).unwrap();
        seen.see_pod(&pod(json!({"waiting": {}})), at(2));
        seen.see_pod(&pod(json!({"running": {}})), at(5));
        seen.see(&transfer("InProgress"), at(6)).unwrap();
        seen.see_pod(&pod(json!({"terminated": {}})), at(9));
        seen.see(&transfer("Completed"), at(10)).unwrap();
        seen.see(&transfer("Completed"), at(11)).unwrap();
        let moved = seen.moved(&Processes::default()).unwrap();
        assert_eq!((moved.accepted, moved.ended, moved.start, moved.cost.wall), (at(1), at(10), 3.0, 6.0));
        assert!(seen.see(&transfer("Failed"), at(12)).is_err());
    }
}
