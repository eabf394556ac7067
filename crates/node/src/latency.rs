//! The time that each PodVolumeBackup took, as a metric (velero: pkg/metrics/metrics.go).

use crate::transfer::{Transfer, TransferRequest};
use std::collections::VecDeque;

/// The upper bounds of the histogram, in seconds.
const BOUNDS: [u32; 9] = [60, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400];
/// The backups that are kept: each has labels of its own.
const KEPT: usize = 100;

/// The time of one backup of a volume, with its labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackupLatency {
    operation: String,
    backup: String,
    name: String,
    seconds: f64,
}

impl BackupLatency {
    /// The time of a PodVolumeBackup that is completed; `None` for any other transfer, and where it is not known.
    pub(crate) fn of(transfer: &Transfer) -> Option<Self> {
        let TransferRequest::PodVolumeBackup(spec) = &transfer.request else { return None };
        let (started, completed) = (transfer.started?.timestamp(), transfer.completed?.timestamp());
        let name = transfer.meta.name.clone();
        let uploader = match spec.uploader_type.as_str() {
            "" => "kopia",
            uploader => uploader,
        };
        let operation = format!("{name}-{}-{}-{uploader}-backup", spec.backup_storage_location, spec.pod.namespace);
        let owner = transfer.meta.owner_references.iter().find(|owner| owner.kind == "Backup");
        let backup = owner.map(|owner| owner.name.clone()).unwrap_or_default();
        Some(Self { operation, backup, name, seconds: completed.duration_since(started).as_secs_f64().max(0.0) })
    }

    fn has_labels_of(&self, other: &Self) -> bool {
        (&self.operation, &self.backup, &self.name) == (&other.operation, &other.backup, &other.name)
    }
}

/// The times of the last backups.
#[derive(Debug, Default)]
pub(crate) struct BackupLatencies {
    last: VecDeque<BackupLatency>,
}

impl BackupLatencies {
    /// Adds a time. It replaces that of a backup with the same labels, which two series must not have.
    pub(crate) fn add(&mut self, latency: BackupLatency) {
        self.last.retain(|known| !known.has_labels_of(&latency));
        self.last.push_back(latency);
        if self.last.len() > KEPT {
            self.last.pop_front();
        }
    }

    /// The histogram and the gauge, in the text format of Prometheus.
    pub(crate) fn metrics(&self, node: &str) -> String {
        const HISTOGRAM: &str = "podVolume_pod_volume_operation_latency_seconds";
        const HELP: &str = "Seconds that the last backups of volumes took.";
        if self.last.is_empty() {
            return String::new();
        }
        let mut histogram = format!("# HELP {HISTOGRAM} {HELP}\n# TYPE {HISTOGRAM} histogram\n");
        let mut gauge = format!("# HELP {HISTOGRAM}_gauge {HELP}\n# TYPE {HISTOGRAM}_gauge gauge\n");
        for BackupLatency { operation, backup, name, seconds } in &self.last {
            let labels = format!(
                "backupName=\"{backup}\",node=\"{node}\",operation=\"{operation}\",pod_volume_backup=\"{name}\""
            );
            for bound in BOUNDS {
                let count = u8::from(*seconds <= f64::from(bound));
                histogram.push_str(&format!("{HISTOGRAM}_bucket{{{labels},le=\"{bound}\"}} {count}\n"));
            }
            histogram.push_str(&format!("{HISTOGRAM}_bucket{{{labels},le=\"+Inf\"}} 1\n"));
            histogram.push_str(&format!("{HISTOGRAM}_sum{{{labels}}} {seconds}\n{HISTOGRAM}_count{{{labels}}} 1\n"));
            gauge.push_str(&format!("{HISTOGRAM}_gauge{{{labels}}} {seconds}\n"));
        }
        histogram + &gauge
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::TransferKind;
    use serde_json::json;

    #[test]
    fn the_time_of_a_backup_has_veleros_labels_and_old_ones_go() {
        let object = json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": "b-1", "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": "b", "uid": "u"}]},
            "spec": {"node": "n1", "pod": {"namespace": "shop", "name": "db-0"}, "volume": "data", "backupStorageLocation": "default",
                "repoIdentifier": "", "uploaderType": "kopia"},
            "status": {"phase": "Completed", "startTimestamp": "2026-11-29T12:00:00Z", "completionTimestamp": "2026-11-29T12:05:01Z"},
        });
        let transfer = Transfer::parse(TransferKind::PodVolumeBackup, object.to_string().as_bytes()).unwrap();
        let latency = BackupLatency::of(&transfer).unwrap();
        let mut all = BackupLatencies::default();
        assert_eq!(all.metrics("n1"), "");
        all.add(latency.clone());
        let text = all.metrics("n1");
        let labels = r#"backupName="b",node="n1",operation="b-1-default-shop-kopia-backup",pod_volume_backup="b-1""#;
        for line in [
            format!("podVolume_pod_volume_operation_latency_seconds_bucket{{{labels},le=\"300\"}} 0"),
            format!("podVolume_pod_volume_operation_latency_seconds_bucket{{{labels},le=\"600\"}} 1"),
            format!("podVolume_pod_volume_operation_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 1"),
            format!("podVolume_pod_volume_operation_latency_seconds_sum{{{labels}}} 301"),
            format!("podVolume_pod_volume_operation_latency_seconds_count{{{labels}}} 1"),
            format!("podVolume_pod_volume_operation_latency_seconds_gauge{{{labels}}} 301"),
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
        // One that completes under the name of an earlier one has its series.
        all.add(BackupLatency { seconds: 7.0, ..latency.clone() });
        let text = all.metrics("n1");
        let gauges =
            text.lines().filter(|line| line.starts_with("podVolume_pod_volume_operation_latency_seconds_gauge{"));
        let expected = format!("podVolume_pod_volume_operation_latency_seconds_gauge{{{labels}}} 7");
        assert_eq!(gauges.collect::<Vec<_>>(), [expected]);
        (0..=KEPT).for_each(|n| all.add(BackupLatency { name: format!("b-{n}"), ..latency.clone() }));
        assert_eq!(all.last.len(), KEPT);
    }
}
