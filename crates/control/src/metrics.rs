//! The metrics of the server, under Velero's names (velero: pkg/metrics/metrics.go): those of events here, those of the
//! present state in `observed`.

mod observed;

use lifeboat_api::{Backup, BackupPhase, Restore, RestorePhase, label_value};
use prometheus::{Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Upper bounds of durations, in seconds.
const BUCKETS: [f64; 9] = [60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 14400.0];
const SCHEDULE: &[&str] = &["schedule"];
const BACKUP: &[&str] = &["schedule", "backupName"];
const REPOSITORY: &[&str] = &["repository_name"];

macro_rules! metrics {
    ($($field:ident: $kind:ident $name:literal [$labels:expr] $help:literal;)*) => {
        /// The registry and what is in it.
        #[derive(Debug)]
        pub(crate) struct Metrics {
            registry: Registry,
            /// The labels of the schedules that were there at the last look.
            schedules: Mutex<BTreeSet<String>>,
            $($field: $kind,)*
        }

        impl Metrics {
            fn make() -> Result<Self, prometheus::Error> {
                let registry = Registry::new();
                $(
                    let $field = <$kind as New>::new($name, $help, $labels)?;
                    registry.register(Box::new($field.clone()))?;
                )*
                Ok(Self { registry, schedules: Mutex::default(), $($field,)* })
            }
        }
    };
}

trait New: Sized {
    fn new(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error>;
}

impl New for IntCounterVec {
    fn new(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        Self::new(Opts::new(name, help), labels)
    }
}

impl New for GaugeVec {
    fn new(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        Self::new(Opts::new(name, help), labels)
    }
}

impl New for HistogramVec {
    fn new(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        Self::new(HistogramOpts::new(name, help).buckets(BUCKETS.to_vec()), labels)
    }
}

metrics! {
    backup_total: GaugeVec "velero_backup_total" [&[]] "Backups there are";
    backup_attempt: IntCounterVec "velero_backup_attempt_total" [SCHEDULE] "Backups begun";
    backup_success: IntCounterVec "velero_backup_success_total" [SCHEDULE] "Backups completed";
    backup_partial: IntCounterVec "velero_backup_partial_failure_total" [SCHEDULE] "Backups that failed in part";
    backup_failure: IntCounterVec "velero_backup_failure_total" [SCHEDULE] "Backups that failed";
    backup_invalid: IntCounterVec "velero_backup_validation_failure_total" [SCHEDULE] "Backups that were refused";
    deletion_attempt: IntCounterVec "velero_backup_deletion_attempt_total" [SCHEDULE] "Deletions of backups begun";
    deletion_success: IntCounterVec "velero_backup_deletion_success_total" [SCHEDULE] "Backups deleted";
    deletion_failure: IntCounterVec "velero_backup_deletion_failure_total" [SCHEDULE] "Deletions of backups that failed";
    backup_duration: HistogramVec "velero_backup_duration_seconds" [SCHEDULE] "Seconds from start to completion of a backup";
    backup_size: GaugeVec "velero_backup_tarball_size_bytes" [SCHEDULE] "Size of the archive of the last backup";
    backup_last_success: GaugeVec "velero_backup_last_successful_timestamp" [SCHEDULE] "When the last backup was completed, in Unix seconds";
    backup_last_status: GaugeVec "velero_backup_last_status" [SCHEDULE] "Whether the last backup was completed: 1 or 0";
    backup_items: GaugeVec "velero_backup_items_total" [SCHEDULE] "Objects in the last backup";
    backup_item_errors: GaugeVec "velero_backup_items_errors" [SCHEDULE] "Errors of the last backup";
    backup_warning: IntCounterVec "velero_backup_warning_total" [SCHEDULE] "Backups with warnings";
    snapshot_attempt: IntCounterVec "velero_volume_snapshot_attempt_total" [SCHEDULE] "Native snapshots begun";
    snapshot_success: IntCounterVec "velero_volume_snapshot_success_total" [SCHEDULE] "Native snapshots taken";
    snapshot_failure: IntCounterVec "velero_volume_snapshot_failure_total" [SCHEDULE] "Native snapshots that failed";
    csi_attempt: IntCounterVec "velero_csi_snapshot_attempt_total" [BACKUP] "CSI snapshots begun";
    csi_success: IntCounterVec "velero_csi_snapshot_success_total" [BACKUP] "CSI snapshots that are ready";
    csi_failure: IntCounterVec "velero_csi_snapshot_failure_total" [BACKUP] "CSI snapshots that failed";
    unprotected: GaugeVec "lifeboat_backup_unprotected_volumes" [SCHEDULE] "Volumes in scope of the last backup whose data nothing saved";
    lost: GaugeVec "lifeboat_backup_lost_objects" [SCHEDULE] "Objects of namespaces that the last good backup of a schedule lacks against the one before it, where that is most of them; 0 otherwise";
    namespace_last_good: GaugeVec "lifeboat_namespace_last_good_backup_timestamp" [&["namespace"]] "When the last good backup of all of a namespace began, in Unix seconds; 0 for none";
    namespace_schedules: GaugeVec "lifeboat_namespace_schedules" [&["namespace"]] "Schedules that save all of a namespace";
    location_status: GaugeVec "velero_backup_location_status_gauge" [&["backup_location_name"]] "Whether a storage location is available: 1 or 0";
    schedule_interval: GaugeVec "velero_schedule_expected_interval_seconds" [SCHEDULE] "Seconds from the next run of a schedule to the one after";
    schedule_next_run: GaugeVec "lifeboat_schedule_next_run_timestamp" [SCHEDULE] "When the next run of a schedule is due, or has been since, in Unix seconds; none for one that is paused or not valid";
    maintenance_success: IntCounterVec "velero_repo_maintenance_success_total" [REPOSITORY] "Maintenance runs of a repository that succeeded";
    maintenance_failure: IntCounterVec "velero_repo_maintenance_failure_total" [REPOSITORY] "Maintenance runs of a repository that failed, also those that could not begin";
    maintenance_duration: HistogramVec "velero_repo_maintenance_duration_seconds" [REPOSITORY] "Seconds from start to end of a maintenance run";
    restore_total: GaugeVec "velero_restore_total" [&[]] "Restores there are";
    restore_attempt: IntCounterVec "velero_restore_attempt_total" [SCHEDULE] "Restores looked at, also those refused";
    restore_invalid: IntCounterVec "velero_restore_validation_failed_total" [SCHEDULE] "Restores that were refused";
    restore_success: IntCounterVec "velero_restore_success_total" [SCHEDULE] "Restores completed";
    restore_partial: IntCounterVec "velero_restore_partial_failure_total" [SCHEDULE] "Restores that failed in part";
    restore_failure: IntCounterVec "velero_restore_failed_total" [SCHEDULE] "Restores that failed";
}

/// The schedule of a backup, as its label says.
fn schedule_of(backup: &Backup) -> &str {
    backup.schedule_label().unwrap_or_default()
}

impl Metrics {
    /// All at zero for what no schedule made, as Velero begins.
    ///
    /// # Errors
    /// When the process has another metric of one of the names.
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let metrics = Self::make()?;
        let process = prometheus::process_collector::ProcessCollector::for_self();
        metrics.registry.register(Box::new(process))?;
        metrics.publish_schedule("", true);
        Ok(metrics)
    }

    fn counters(&self) -> [&IntCounterVec; 17] {
        [
            &self.snapshot_attempt,
            &self.snapshot_success,
            &self.snapshot_failure,
            &self.backup_attempt,
            &self.backup_success,
            &self.backup_partial,
            &self.backup_failure,
            &self.backup_invalid,
            &self.deletion_attempt,
            &self.deletion_success,
            &self.deletion_failure,
            &self.backup_warning,
            &self.restore_attempt,
            &self.restore_invalid,
            &self.restore_success,
            &self.restore_partial,
            &self.restore_failure,
        ]
    }

    fn csi(&self) -> [&IntCounterVec; 3] {
        [&self.csi_attempt, &self.csi_success, &self.csi_failure]
    }

    /// Publishes the series of a schedule for which nothing was counted yet. `is_good`: its last backup was completed,
    /// as far as is known.
    fn publish_schedule(&self, schedule: &str, is_good: bool) {
        for counter in self.counters() {
            counter.with_label_values(&[schedule]).inc_by(0);
        }
        for counter in self.csi() {
            counter.with_label_values(&[schedule, ""]).inc_by(0);
        }
        for gauge in [&self.backup_items, &self.backup_item_errors] {
            gauge.with_label_values(&[schedule]).set(0.0);
        }
        self.backup_last_status.with_label_values(&[schedule]).set(if is_good { 1.0 } else { 0.0 });
    }

    /// Nothing is shown any more of a schedule that is gone.
    fn remove_schedule(&self, schedule: &str) {
        // What was never counted has no series.
        for counter in self.counters() {
            let _ = counter.remove_label_values(&[schedule]);
        }
        for counter in self.csi() {
            let _ = counter.remove_label_values(&[schedule, ""]);
        }
        for gauge in [
            &self.unprotected,
            &self.lost,
            &self.backup_items,
            &self.backup_item_errors,
            &self.backup_size,
            &self.backup_last_status,
            &self.schedule_interval,
            &self.schedule_next_run,
        ] {
            let _ = gauge.remove_label_values(&[schedule]);
        }
        let _ = self.backup_duration.remove_label_values(&[schedule]);
    }

    /// The value of the label `schedule` for what happens to something of this schedule: none when the schedule is gone, or was never
    /// here, since nobody would take its series away again.
    fn counted_for<'a>(&self, schedule: &'a str) -> &'a str {
        let known = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(schedule) { schedule } else { "" }
    }

    /// Returns true if the gauges about the last backup of a schedule show this backup: its schedule exists, or it
    /// never had one.
    fn is_shown(&self, backup: &Backup) -> bool {
        self.of_backup(backup) == schedule_of(backup)
    }

    fn of_backup<'b>(&self, backup: &'b Backup) -> &'b str {
        self.counted_for(schedule_of(backup))
    }

    /// The text form of Prometheus.
    pub(crate) fn text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out)?;
        Ok(out)
    }

    pub(crate) fn backup_begins(&self, backup: &Backup) {
        self.backup_attempt.with_label_values(&[self.of_backup(backup)]).inc();
    }

    pub(crate) fn backup_refused(&self, backup: &Backup) {
        let schedule = [self.of_backup(backup)];
        self.backup_invalid.with_label_values(&schedule).inc();
        if self.is_shown(backup) {
            self.backup_last_status.with_label_values(&schedule).set(0.0);
        }
    }

    /// The walk of a backup has ended; what it has begun may go on. Called once a backup.
    pub(crate) fn backup_ran(&self, backup: &Backup) {
        let (schedule, status) = (self.of_backup(backup), &backup.status);
        let (begun, taken) = (count(status.volume_snapshots_attempted), count(status.volume_snapshots_completed));
        self.snapshot_attempt.with_label_values(&[schedule]).inc_by(begun);
        self.snapshot_success.with_label_values(&[schedule]).inc_by(taken);
        self.snapshot_failure.with_label_values(&[schedule]).inc_by(begun.saturating_sub(taken));
        let begun = count(status.csi_volume_snapshots_attempted);
        let of = [schedule, backup.metadata.name.as_str()];
        self.csi_attempt.with_label_values(&of).inc_by(begun);
        // Both are there before either counts.
        self.csi_success.with_label_values(&of).inc_by(0);
        self.csi_failure.with_label_values(&of).inc_by(0);
    }

    /// The snapshots of a backup that ends are ready or have failed.
    fn snapshots_end(&self, backup: &Backup) {
        let of = [self.of_backup(backup), backup.metadata.name.as_str()];
        let begun = count(backup.status.csi_volume_snapshots_attempted);
        let ready = count(backup.status.csi_volume_snapshots_completed);
        self.csi_success.with_label_values(&of).inc_by(ready);
        self.csi_failure.with_label_values(&of).inc_by(begun.saturating_sub(ready));
    }

    /// A backup in its last phase; `size` is that of its archive, when there is a new one.
    pub(crate) fn backup_ends(&self, backup: &Backup, size: Option<u64>) {
        let (schedule, status) = ([self.of_backup(backup)], &backup.status);
        let ends = match status.phase {
            Some(BackupPhase::Completed) => &self.backup_success,
            Some(BackupPhase::PartiallyFailed) => &self.backup_partial,
            _ => &self.backup_failure,
        };
        ends.with_label_values(&schedule).inc();
        if let (Some(start), Some(end)) = (status.start_timestamp, status.completion_timestamp) {
            let seconds = end.timestamp().duration_since(start.timestamp()).as_secs_f64();
            self.backup_duration.with_label_values(&schedule).observe(seconds.max(0.0));
        }
        if status.warnings > 0 {
            self.backup_warning.with_label_values(&schedule).inc();
        }
        self.snapshots_end(backup);
        if let Some(size) = size {
            self.backup_archived(backup, size);
        }
        if self.is_shown(backup) {
            let is_good = status.phase == Some(BackupPhase::Completed);
            self.backup_last_status.with_label_values(&schedule).set(if is_good { 1.0 } else { 0.0 });
            let items = status.progress.as_ref().map_or(0, |progress| progress.total_items);
            self.backup_items.with_label_values(&schedule).set(items as f64);
            self.backup_item_errors.with_label_values(&schedule).set(status.errors as f64);
        }
    }

    /// The archive of a backup has this many bytes.
    pub(crate) fn backup_archived(&self, backup: &Backup, size: u64) {
        if self.is_shown(backup) {
            self.backup_size.with_label_values(&[schedule_of(backup)]).set(size as f64);
        }
    }

    pub(crate) fn deletion_begins(&self, backup: &Backup) {
        self.deletion_attempt.with_label_values(&[self.of_backup(backup)]).inc();
    }

    pub(crate) fn deletion_ends(&self, backup: &Backup, is_good: bool) {
        let ends = if is_good { &self.deletion_success } else { &self.deletion_failure };
        ends.with_label_values(&[self.of_backup(backup)]).inc();
    }

    /// A maintenance run of a repository has ended, after so many seconds.
    pub(crate) fn maintenance_ended(&self, repository: &str, has_succeeded: bool, seconds: f64) {
        let ends = if has_succeeded { &self.maintenance_success } else { &self.maintenance_failure };
        ends.with_label_values(&[repository]).inc();
        self.maintenance_duration.with_label_values(&[repository]).observe(seconds.max(0.0));
    }

    pub(crate) fn restore_begins(&self, restore: &Restore) {
        let schedule = label_value(&restore.spec.schedule_name);
        self.restore_attempt.with_label_values(&[self.counted_for(&schedule)]).inc();
    }

    /// A restore in its last phase.
    pub(crate) fn restore_ends(&self, restore: &Restore) {
        let ends = match restore.status.phase {
            Some(RestorePhase::Completed) => &self.restore_success,
            Some(RestorePhase::PartiallyFailed) => &self.restore_partial,
            Some(RestorePhase::FailedValidation) => &self.restore_invalid,
            _ => &self.restore_failure,
        };
        let schedule = label_value(&restore.spec.schedule_name);
        ends.with_label_values(&[self.counted_for(&schedule)]).inc();
    }
}

/// A count of a status; a negative one, which nobody writes, is none.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests;
