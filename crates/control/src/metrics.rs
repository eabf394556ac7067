//! What the server counts, under Velero's names (api-and-controllers.md 4.6).

use crate::coverage::{NamespaceState, has_result, own_newest_first};
use crate::phase::backup::is_running;
use crate::phase::schedule::{interval, next_run};
use crate::phase::taken_over::is_of_another_cluster;
use crate::world::World;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{
    Backup, BackupPhase, BackupStorageLocation, BackupStorageLocationPhase, Restore, RestorePhase, Schedule,
    SchedulePhase, Time, well_known,
};
use prometheus::core::Collector;
use prometheus::proto::LabelPair;
use prometheus::{Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Upper bounds of durations, in seconds.
const BUCKETS: [f64; 9] = [60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 14400.0];
const SCHEDULE: &[&str] = &["schedule"];
const BACKUP: &[&str] = &["schedule", "backupName"];

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
    backup_duration: HistogramVec "velero_backup_duration_seconds" [SCHEDULE] "Time from start to completion of a backup";
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
    namespace_last_good: GaugeVec "lifeboat_namespace_last_good_backup_timestamp" [&["namespace"]] "When the last good backup of all of a namespace began, in Unix seconds; 0 for none";
    namespace_schedules: GaugeVec "lifeboat_namespace_schedules" [&["namespace"]] "Schedules that save all of a namespace";
    location_status: GaugeVec "velero_backup_location_status_gauge" [&["backup_location_name"]] "Whether a storage location is available: 1 or 0";
    schedule_interval: GaugeVec "velero_schedule_expected_interval_seconds" [SCHEDULE] "Time from the next run of a schedule to the one after";
    schedule_next_run: GaugeVec "lifeboat_schedule_next_run_timestamp" [SCHEDULE] "When the next run of a schedule is due, or has been since, in Unix seconds; none for one that is paused or not valid";
    restore_total: GaugeVec "velero_restore_total" [&[]] "Restores there are";
    restore_attempt: IntCounterVec "velero_restore_attempt_total" [SCHEDULE] "Restores looked at, also those refused";
    restore_invalid: IntCounterVec "velero_restore_validation_failed_total" [SCHEDULE] "Restores that were refused";
    restore_success: IntCounterVec "velero_restore_success_total" [SCHEDULE] "Restores completed";
    restore_partial: IntCounterVec "velero_restore_partial_failure_total" [SCHEDULE] "Restores that failed in part";
    restore_failure: IntCounterVec "velero_restore_failed_total" [SCHEDULE] "Restores that failed";
}

fn schedule_of(backup: &Backup) -> &str {
    backup.metadata.labels.get(well_known::LABEL_SCHEDULE_NAME).map_or("", String::as_str)
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
        metrics.begin("", true);
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

    /// What is shown of a schedule of which nothing was counted yet. `is_good`: its last backup was completed, as far as is known.
    fn begin(&self, schedule: &str, is_good: bool) {
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
    fn end(&self, schedule: &str) {
        // What was never counted has no series.
        for counter in self.counters() {
            let _ = counter.remove_label_values(&[schedule]);
        }
        for counter in self.csi() {
            let _ = counter.remove_label_values(&[schedule, ""]);
        }
        for gauge in [
            &self.unprotected,
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

    fn see_schedules(&self, world: &World, zone: &TimeZone, now: Timestamp) {
        let labels: BTreeSet<String> = world.schedules.iter().map(Schedule::label).collect();
        let mut known = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in known.difference(&labels) {
            self.end(gone);
        }
        for new in labels.difference(&known) {
            self.begin(new, last_was_good(world, new));
        }
        *known = labels;
        for schedule in world.schedules.iter() {
            let label = schedule.label();
            match interval(schedule, zone, now) {
                Some(seconds) => self.schedule_interval.with_label_values(&[label.as_str()]).set(seconds as f64),
                None => drop(self.schedule_interval.remove_label_values(&[label.as_str()])),
            }
            let is_enabled = schedule.status.phase == Some(SchedulePhase::Enabled) && !schedule.spec.paused;
            match next_run(schedule, zone).filter(|_| is_enabled) {
                Some(due) => self.schedule_next_run.with_label_values(&[label.as_str()]).set(due.as_second() as f64),
                None => drop(self.schedule_next_run.remove_label_values(&[label.as_str()])),
            }
        }
    }

    /// The text form of Prometheus.
    pub(crate) fn text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out)?;
        Ok(out)
    }

    /// What can be counted in the resources.
    pub(crate) fn see(&self, world: &World, zone: &TimeZone, now: Timestamp) {
        self.see_schedules(world, zone, now);
        let none: [&str; 0] = [];
        self.backup_total.with_label_values(&none).set(world.backups.len() as f64);
        self.restore_total.with_label_values(&none).set(world.restores.len() as f64);
        let mut last: BTreeMap<&str, Time> = BTreeMap::new();
        // What another cluster has saved says nothing of a schedule of ours that has the name of one of its.
        let own = || world.backups.iter().filter(|backup| !is_of_another_cluster(backup));
        for backup in own().filter(|backup| backup.status.phase == Some(BackupPhase::Completed)) {
            if let Some(end) = backup.status.completion_timestamp {
                let latest = last.entry(schedule_of(backup)).or_insert(end);
                *latest = end.max(*latest);
            }
        }
        let locations: BTreeSet<&str> = world.locations.iter().map(|l| l.metadata.name.as_str()).collect();
        keep(&self.location_status, |name| locations.contains(name));
        // compat: Velero never removes these, so that their number grows with all backups that ever were.
        let backups: BTreeSet<&str> = world.backups.iter().map(|backup| backup.metadata.name.as_str()).collect();
        self.csi().into_iter().for_each(|counter| keep_backups(counter, &backups));
        self.see_unprotected(own());
        world.locations.iter().for_each(|location| self.location(location));
        keep(&self.backup_last_success, |schedule| last.contains_key(schedule));
        for (schedule, end) in last {
            self.backup_last_success.with_label_values(&[schedule]).set(end.timestamp().as_second() as f64);
        }
    }

    /// What is protected of the cluster.
    pub(crate) fn see_namespaces(&self, states: &[NamespaceState]) {
        let names: BTreeSet<&str> = states.iter().map(|state| state.name.as_str()).collect();
        for gauge in [&self.namespace_last_good, &self.namespace_schedules] {
            keep(gauge, |namespace| names.contains(namespace));
        }
        for state in states {
            let (name, start) = ([state.name.as_str()], state.last_good.as_ref().and_then(|last| last.start));
            let second = start.map_or(0, |start| start.timestamp().as_second());
            self.namespace_last_good.with_label_values(&name).set(second as f64);
            self.namespace_schedules.with_label_values(&name).set(state.schedules.len() as f64);
        }
    }

    /// What the newest backups say that have run.
    fn see_unprotected<'b>(&self, own: impl Iterator<Item = &'b Backup>) {
        let mut newest: BTreeMap<&str, &Backup> = BTreeMap::new();
        let has_run = |backup: &&Backup| backup.status.start_timestamp.is_some() && !is_running(backup);
        for backup in own.filter(has_run) {
            let other = newest.entry(schedule_of(backup)).or_insert(backup);
            if other.status.start_timestamp < backup.status.start_timestamp {
                *other = backup;
            }
        }
        keep(&self.unprotected, |schedule| newest.contains_key(schedule));
        for (schedule, backup) in newest {
            self.unprotected.with_label_values(&[schedule]).set(backup.status.unprotected_volumes as f64);
        }
    }

    pub(crate) fn backup_begins(&self, backup: &Backup) {
        self.backup_attempt.with_label_values(&[schedule_of(backup)]).inc();
    }

    pub(crate) fn backup_refused(&self, backup: &Backup) {
        let schedule = [schedule_of(backup)];
        self.backup_invalid.with_label_values(&schedule).inc();
        self.backup_last_status.with_label_values(&schedule).set(0.0);
    }

    /// The walk of a backup has ended; what it has begun may go on. Called once a backup.
    pub(crate) fn backup_ran(&self, backup: &Backup) {
        let (schedule, status) = (schedule_of(backup), &backup.status);
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
        let of = [schedule_of(backup), backup.metadata.name.as_str()];
        let begun = count(backup.status.csi_volume_snapshots_attempted);
        let ready = count(backup.status.csi_volume_snapshots_completed);
        self.csi_success.with_label_values(&of).inc_by(ready);
        self.csi_failure.with_label_values(&of).inc_by(begun.saturating_sub(ready));
    }

    /// A backup in its last phase; `size` is that of its archive, when there is a new one.
    pub(crate) fn backup_ends(&self, backup: &Backup, size: Option<u64>) {
        let (schedule, status) = ([schedule_of(backup)], &backup.status);
        let ends = match status.phase {
            Some(BackupPhase::Completed) => &self.backup_success,
            Some(BackupPhase::PartiallyFailed) => &self.backup_partial,
            _ => &self.backup_failure,
        };
        ends.with_label_values(&schedule).inc();
        let is_good = status.phase == Some(BackupPhase::Completed);
        self.backup_last_status.with_label_values(&schedule).set(if is_good { 1.0 } else { 0.0 });
        if let (Some(start), Some(end)) = (status.start_timestamp, status.completion_timestamp) {
            let seconds = end.timestamp().duration_since(start.timestamp()).as_secs_f64();
            self.backup_duration.with_label_values(&schedule).observe(seconds.max(0.0));
        }
        if let Some(size) = size {
            self.backup_archived(backup, size);
        }
        self.snapshots_end(backup);
        let items = status.progress.as_ref().map_or(0, |progress| progress.total_items);
        self.backup_items.with_label_values(&schedule).set(items as f64);
        self.backup_item_errors.with_label_values(&schedule).set(status.errors as f64);
        if status.warnings > 0 {
            self.backup_warning.with_label_values(&schedule).inc();
        }
    }

    /// The archive of a backup has this many bytes.
    pub(crate) fn backup_archived(&self, backup: &Backup, size: u64) {
        self.backup_size.with_label_values(&[schedule_of(backup)]).set(size as f64);
    }

    pub(crate) fn deletion_begins(&self, backup: &Backup) {
        self.deletion_attempt.with_label_values(&[schedule_of(backup)]).inc();
    }

    pub(crate) fn deletion_ends(&self, backup: &Backup, is_good: bool) {
        let ends = if is_good { &self.deletion_success } else { &self.deletion_failure };
        ends.with_label_values(&[schedule_of(backup)]).inc();
    }

    fn location(&self, location: &BackupStorageLocation) {
        let is_good = location.status.phase == Some(BackupStorageLocationPhase::Available);
        let gauge = self.location_status.with_label_values(&[location.metadata.name.as_str()]);
        gauge.set(if is_good { 1.0 } else { 0.0 });
    }

    pub(crate) fn restore_begins(&self, restore: &Restore) {
        self.restore_attempt.with_label_values(&[restore.spec.schedule_name.as_str()]).inc();
    }

    /// A restore in its last phase.
    pub(crate) fn restore_ends(&self, restore: &Restore) {
        let ends = match restore.status.phase {
            Some(RestorePhase::Completed) => &self.restore_success,
            Some(RestorePhase::PartiallyFailed) => &self.restore_partial,
            Some(RestorePhase::FailedValidation) => &self.restore_invalid,
            _ => &self.restore_failure,
        };
        ends.with_label_values(&[restore.spec.schedule_name.as_str()]).inc();
    }
}

/// Whether the newest backup of a schedule that has ended was completed, if there is one.
fn last_was_good(world: &World, schedule: &str) -> bool {
    let ended = |backup: &&Backup| schedule_of(backup) == schedule && has_result(backup);
    let newest_first = own_newest_first(world.backups.iter().filter(ended));
    newest_first.first().is_none_or(|backup| backup.status.phase == Some(BackupPhase::Completed))
}

/// A count of a status; a negative one, which nobody writes, is none.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Takes away the series of backups that are gone.
fn keep_backups(counter: &IntCounterVec, backups: &BTreeSet<&str>) {
    for family in counter.collect() {
        for metric in family.get_metric() {
            let value = |name: &str| metric.get_label().iter().find(|l| l.name() == name).map_or("", LabelPair::value);
            let (schedule, backup) = (value("schedule"), value("backupName"));
            if !backup.is_empty() && !backups.contains(backup) {
                // It is gone already when there is none.
                let _ = counter.remove_label_values(&[schedule, backup]);
            }
        }
    }
}

/// Takes away what is gone of a gauge with one label. A scrape meanwhile sees all of the rest.
fn keep(gauge: &GaugeVec, is_there: impl Fn(&str) -> bool) {
    for family in gauge.collect() {
        for metric in family.get_metric() {
            let values: Vec<&str> = metric.get_label().iter().map(LabelPair::value).collect();
            if !values.iter().all(|value| is_there(value)) {
                // It is gone already when there is none.
                let _ = gauge.remove_label_values(&values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Ended;
    use crate::phase::taken_over::note_taken_over;

    fn lines(metrics: &Metrics, part: &str) -> Vec<String> {
        let text = String::from_utf8(metrics.text().unwrap()).unwrap();
        let of = |line: &&str| !line.starts_with('#') && line.contains(part) && !line.ends_with(" 0");
        text.lines().filter(of).map(str::to_owned).collect()
    }

    /// A backup of a schedule that ran for 90 s.
    fn backup(phase: BackupPhase) -> Backup {
        let at = |second| Some(Time::new(Timestamp::from_second(second).unwrap()));
        let mut backup = Backup::default();
        backup.metadata.labels.insert(well_known::LABEL_SCHEDULE_NAME.into(), "daily".into());
        backup.status.phase = Some(phase);
        (backup.status.start_timestamp, backup.status.completion_timestamp) = (at(10), at(100));
        backup.status.warnings = 2;
        backup.status.errors = 3;
        backup.status.progress = Some(lifeboat_api::BackupProgress { total_items: 7, items_backed_up: 7 });
        backup
    }

    #[test]
    fn of_each_namespace_there_is_the_time_of_its_last_good_backup() {
        let metrics = Metrics::new().unwrap();
        let state = |name: &str, start: Option<i64>| NamespaceState {
            name: name.into(),
            last_good: start.map(|second| Ended {
                backup: "b".into(),
                phase: "Completed".into(),
                start: Some(Time::new(Timestamp::from_second(second).unwrap())),
            }),
            age_seconds: None,
            schedules: vec!["daily".into(), "weekly".into()],
            claims: 0,
            volumes_are_scheduled: true,
        };
        let text = |metrics: &Metrics| String::from_utf8(metrics.text().unwrap()).unwrap();
        metrics.see_namespaces(&[state("shop", Some(90)), state("web", None)]);
        let all = text(&metrics);
        for line in [
            r#"lifeboat_namespace_last_good_backup_timestamp{namespace="shop"} 90"#,
            r#"lifeboat_namespace_last_good_backup_timestamp{namespace="web"} 0"#,
            r#"lifeboat_namespace_schedules{namespace="web"} 2"#,
        ] {
            assert!(all.contains(line), "{line}: {all}");
        }
        metrics.see_namespaces(&[state("web", None)]);
        assert!(!text(&metrics).contains("shop"), "it is gone");
    }

    #[test]
    fn a_backup_is_counted_by_how_it_ends() {
        let metrics = Metrics::new().unwrap();
        metrics.backup_begins(&backup(BackupPhase::InProgress));
        metrics.backup_ends(&backup(BackupPhase::Completed), Some(4096));
        assert_eq!(
            lines(&metrics, "\"daily\""),
            [
                r#"velero_backup_attempt_total{schedule="daily"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="300"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="600"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="900"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="1800"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="3600"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="7200"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="10800"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="14400"} 1"#,
                r#"velero_backup_duration_seconds_bucket{schedule="daily",le="+Inf"} 1"#,
                r#"velero_backup_duration_seconds_sum{schedule="daily"} 90"#,
                r#"velero_backup_duration_seconds_count{schedule="daily"} 1"#,
                r#"velero_backup_items_errors{schedule="daily"} 3"#,
                r#"velero_backup_items_total{schedule="daily"} 7"#,
                r#"velero_backup_last_status{schedule="daily"} 1"#,
                r#"velero_backup_success_total{schedule="daily"} 1"#,
                r#"velero_backup_tarball_size_bytes{schedule="daily"} 4096"#,
                r#"velero_backup_warning_total{schedule="daily"} 1"#,
            ]
        );
        metrics.backup_ends(&backup(BackupPhase::PartiallyFailed), None);
        metrics.backup_ends(&backup(BackupPhase::Failed), None);
        metrics.backup_refused(&backup(BackupPhase::FailedValidation));
        for name in ["partial_failure", "failure", "validation_failure"] {
            let name = format!("velero_backup_{name}_total{{schedule=\"daily\"}}");
            assert_eq!(lines(&metrics, &name), [format!("{name} 1")]);
        }
        assert!(lines(&metrics, "last_status{schedule=\"daily\"}").is_empty(), "0 after a failure, and it stays so");
    }

    #[test]
    fn snapshots_are_counted_when_they_are_begun_and_when_their_backup_ends() {
        let metrics = Metrics::new().unwrap();
        let mut backup = backup(BackupPhase::Completed);
        backup.metadata.name = "daily-1".into();
        let status = &mut backup.status;
        (status.volume_snapshots_attempted, status.volume_snapshots_completed) = (3, 2);
        (status.csi_volume_snapshots_attempted, status.csi_volume_snapshots_completed) = (5, 4);
        status.unprotected_volumes = 6;
        metrics.backup_ran(&backup);
        let csi = |what: &str| format!(r#"velero_csi_snapshot_{what}_total{{backupName="daily-1",schedule="daily"}}"#);
        let native = |what: &str| format!(r#"velero_volume_snapshot_{what}_total{{schedule="daily"}}"#);
        let begun =
            [csi("attempt") + " 5", native("attempt") + " 3", native("failure") + " 1", native("success") + " 2"];
        assert_eq!(lines(&metrics, "_snapshot_"), begun);
        metrics.backup_ends(&backup, None);
        assert_eq!(lines(&metrics, "csi_snapshot_s"), [csi("success") + " 4"]);
        assert_eq!(lines(&metrics, "csi_snapshot_f"), [csi("failure") + " 1"]);

        let mut world = World::default();
        let mut older = backup.clone();
        older.metadata.name = "daily-0".into();
        older.status.start_timestamp = Some(Time::new(Timestamp::UNIX_EPOCH));
        older.status.unprotected_volumes = 9;
        world.backups.put(backup);
        world.backups.put(older);
        let see = |world: &World| metrics.see(world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
        see(&world);
        let unprotected = r#"lifeboat_backup_unprotected_volumes{schedule="daily"} 6"#;
        assert_eq!(lines(&metrics, "unprotected"), [unprotected], "of the newest");
        assert_eq!(lines(&metrics, "csi_snapshot_a"), [csi("attempt") + " 5"]);
        see(&World::default());
        assert!(lines(&metrics, "csi_snapshot").is_empty() && lines(&metrics, "unprotected").is_empty());
    }

    #[test]
    fn what_another_cluster_has_saved_does_not_count_for_a_schedule_of_its_name() {
        let metrics = Metrics::new().unwrap();
        let mut world = World::default();
        let mut schedule = Schedule::default();
        schedule.metadata.name = "daily".into();
        world.schedules.put(schedule);
        let mut found = backup(BackupPhase::Completed);
        found.metadata.name = "daily-2".into();
        (found.status.start_timestamp, found.status.completion_timestamp) =
            (found.status.completion_timestamp, found.status.completion_timestamp);
        found.status.unprotected_volumes = 9;
        note_taken_over(&mut found.metadata, false);
        world.backups.put(found);
        let mut own = backup(BackupPhase::PartiallyFailed);
        own.status.unprotected_volumes = 1;
        world.backups.put(own);
        metrics.see(&world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
        let own = r#"lifeboat_backup_unprotected_volumes{schedule="daily"} 1"#;
        assert_eq!(lines(&metrics, "unprotected_volumes{schedule=\"daily\"}"), [own]);
        for zero in ["last_successful_timestamp{schedule=\"daily\"}", "last_status{schedule=\"daily\"}"] {
            assert!(lines(&metrics, zero).is_empty(), "{zero}");
        }
    }

    #[test]
    fn a_schedule_that_is_enabled_has_a_next_run() {
        let metrics = Metrics::new().unwrap();
        let mut world = World::default();
        for name in ["due", "later", "paused", "wrong", "new"] {
            let mut schedule = Schedule::default();
            schedule.metadata.name = name.into();
            schedule.metadata.creation_timestamp = Some(Time::new(Timestamp::UNIX_EPOCH));
            schedule.spec.schedule = "30 0 * * *".into();
            schedule.spec.paused = name == "paused";
            schedule.status.phase = match name {
                "new" => None,
                "wrong" => Some(SchedulePhase::FailedValidation),
                _ => Some(SchedulePhase::Enabled),
            };
            if name == "later" {
                schedule.status.last_backup = Some(Time::new(Timestamp::from_second(3600).unwrap()));
            }
            world.schedules.put(schedule);
        }
        let see = |world: &World| metrics.see(world, &TimeZone::UTC, Timestamp::from_second(90_000).unwrap());
        see(&world);
        let line = |name: &str, at: u32| format!("lifeboat_schedule_next_run_timestamp{{schedule={name:?}}} {at}");
        let shown = || lines(&metrics, "next_run_timestamp{");
        assert_eq!(shown(), [line("due", 1800), line("later", 88_200)], "of yesterday, and never made");
        let mut paused = world.schedules.iter().find(|s| s.metadata.name == "due").unwrap().clone();
        paused.spec.paused = true;
        world.schedules.put(paused);
        see(&world);
        assert_eq!(shown(), [line("later", 88_200)]);
        see(&World::default());
        assert!(shown().is_empty());
    }

    #[test]
    fn a_gauge_loses_what_is_gone() {
        let metrics = Metrics::new().unwrap();
        let mut world = World::default();
        for name in ["here", "gone"] {
            let mut location = BackupStorageLocation::default();
            location.metadata.name = name.into();
            location.status.phase = Some(BackupStorageLocationPhase::Available);
            metrics.location(&location);
            if name == "here" {
                world.locations.put(location);
            }
        }
        world.backups.put(backup(BackupPhase::Completed));
        let see = |world: &World| metrics.see(world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
        see(&world);
        let gauge = |name: &str| format!("velero_backup_location_status_gauge{{backup_location_name={name:?}}}");
        assert_eq!(lines(&metrics, "location_status_gauge{"), [gauge("here") + " 1"]);
        let success = r#"velero_backup_last_successful_timestamp{schedule="daily"}"#;
        assert_eq!(lines(&metrics, success), [format!("{success} 100")]);
        see(&World::default());
        assert!(lines(&metrics, "location_status_gauge{").is_empty() && lines(&metrics, success).is_empty());
    }

    #[test]
    fn a_schedule_is_shown_as_long_as_it_is_there() {
        let metrics = Metrics::new().unwrap();
        let mut world = World::default();
        for (name, times) in [("daily", "@daily"), ("other", "@every 90s"), ("wrong", "@")] {
            let mut schedule = Schedule::default();
            schedule.metadata.name = name.into();
            schedule.spec.schedule = times.into();
            world.schedules.put(schedule);
        }
        world.backups.put(backup(BackupPhase::Failed));
        metrics.see(&world, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
        let interval = |name: &str| format!("velero_schedule_expected_interval_seconds{{schedule={name:?}}}");
        assert_eq!(lines(&metrics, "expected_interval"), [interval("daily") + " 86400", interval("other") + " 90"]);
        let status = |name: &str| format!("velero_backup_last_status{{schedule={name:?}}} 1");
        assert_eq!(lines(&metrics, "last_status"), [status(""), status("other"), status("wrong")], "daily has failed");
        let text = || String::from_utf8(metrics.text().unwrap()).unwrap();
        assert!(text().contains("velero_backup_success_total{schedule=\"daily\"} 0"));
        metrics.backup_ends(&backup(BackupPhase::Completed), Some(1));
        metrics.see(&World::default(), &TimeZone::UTC, Timestamp::UNIX_EPOCH);
        assert!(!text().contains("daily") && !text().contains("other") && text().contains("schedule=\"\""));
    }

    #[test]
    fn restores_deletions_and_locations_are_counted() {
        let metrics = Metrics::new().unwrap();
        let mut restore = Restore::default();
        restore.spec.schedule_name = "daily".into();
        for phase in [
            RestorePhase::Completed,
            RestorePhase::PartiallyFailed,
            RestorePhase::FailedValidation,
            RestorePhase::Failed,
        ] {
            metrics.restore_begins(&restore);
            restore.status.phase = Some(phase);
            metrics.restore_ends(&restore);
        }
        metrics.deletion_begins(&backup(BackupPhase::Completed));
        metrics.deletion_ends(&backup(BackupPhase::Completed), true);
        metrics.deletion_ends(&backup(BackupPhase::Completed), false);
        let mut location = BackupStorageLocation::default();
        location.metadata.name = "here".into();
        location.status.phase = Some(BackupStorageLocationPhase::Available);
        metrics.location(&location);
        let mut found = [lines(&metrics, "\"daily\""), lines(&metrics, "\"here\"")].concat();
        found.sort();
        assert_eq!(
            found,
            [
                r#"velero_backup_deletion_attempt_total{schedule="daily"} 1"#,
                r#"velero_backup_deletion_failure_total{schedule="daily"} 1"#,
                r#"velero_backup_deletion_success_total{schedule="daily"} 1"#,
                r#"velero_backup_location_status_gauge{backup_location_name="here"} 1"#,
                r#"velero_restore_attempt_total{schedule="daily"} 4"#,
                r#"velero_restore_failed_total{schedule="daily"} 1"#,
                r#"velero_restore_partial_failure_total{schedule="daily"} 1"#,
                r#"velero_restore_success_total{schedule="daily"} 1"#,
                r#"velero_restore_validation_failed_total{schedule="daily"} 1"#,
            ]
        );
    }
}
