//! Gauges that follow the resources at each look, and series that are removed with their resources.

use super::{Metrics, schedule_of};
use crate::member::member_in;
use crate::world::World;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use lifeboat_api::{Backup, BackupPhase, BackupStorageLocation, BackupStorageLocationPhase, Schedule, Time};
use lifeboat_lifecycle::coverage::NamespaceState;
use lifeboat_lifecycle::phase::facts::newest_ended;
use lifeboat_lifecycle::phase::request::ByBackup;
use lifeboat_lifecycle::phase::schedule::{ScheduleStanding, interval, next_run};
use lifeboat_lifecycle::phase::shrunken::losses_of_newest;
use lifeboat_lifecycle::phase::taken_over::is_of_another_cluster;
use prometheus::IntCounterVec;
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::proto::LabelPair;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

impl Metrics {
    /// Sets the number of objects that the last good backup of each schedule has lost.
    fn observe_losses(&self, world: &World) {
        let requests: ByBackup<'_> = world.delete_requests.iter().collect();
        let member = |backup| member_in(world, backup, requests.of(backup), None);
        let losses = losses_of_newest(world.schedules.iter(), world.backups.iter(), member);
        for schedule in world.schedules.iter() {
            let label = schedule.label();
            let lost = losses.get(&label).map_or(0, |lost| lost.loss.had - lost.loss.has);
            self.lost.with_label_values(&[label.as_str()]).set(lost as f64);
        }
    }

    fn observe_schedules(&self, labels: BTreeSet<String>, world: &World, zone: &TimeZone, now: Timestamp) {
        let mut known = self.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in known.difference(&labels) {
            self.remove_schedule(gone);
        }
        let newest =
            if labels.is_subset(&known) { BTreeMap::new() } else { newest_ended(world.backups.iter(), &world.cluster) };
        for new in labels.difference(&known) {
            let last = newest.get(new.as_str());
            self.publish_schedule(new, last.is_none_or(|last| last.status.phase == Some(BackupPhase::Completed)));
        }
        *known = labels;
        for schedule in world.schedules.iter() {
            let label = schedule.label();
            match interval(schedule, zone, now) {
                Some(seconds) => self.schedule_interval.with_label_values(&[label.as_str()]).set(seconds as f64),
                None => drop(self.schedule_interval.remove_label_values(&[label.as_str()])),
            }
            let is_enabled = ScheduleStanding::of(schedule) == ScheduleStanding::Enabled;
            match next_run(schedule, zone).filter(|_| is_enabled) {
                Some(due) => self.schedule_next_run.with_label_values(&[label.as_str()]).set(due.as_second() as f64),
                None => drop(self.schedule_next_run.remove_label_values(&[label.as_str()])),
            }
        }
    }

    /// Sets all gauges that are read from the resources, and removes series of those that are gone.
    pub(crate) fn observe(&self, world: &World, zone: &TimeZone, now: Timestamp) {
        let schedules: BTreeSet<String> = world.schedules.iter().map(Schedule::label).collect();
        let is_there = |schedule: &str| schedule.is_empty() || schedules.contains(schedule);
        self.observe_schedules(schedules.clone(), world, zone, now);
        let none: [&str; 0] = [];
        self.backup_total.with_label_values(&none).set(world.backups.len() as f64);
        self.restore_total.with_label_values(&none).set(world.restores.len() as f64);
        let mut last: BTreeMap<&str, Time> = BTreeMap::new();
        // What another cluster has saved says nothing of a schedule of ours that has the name of one of its.
        let own = || world.backups.iter().filter(|backup| !is_of_another_cluster(backup, &world.cluster));
        let is_shown =
            |backup: &&Backup| backup.status.phase == Some(BackupPhase::Completed) && is_there(schedule_of(backup));
        for backup in own().filter(is_shown) {
            if let Some(end) = backup.status.completion_timestamp {
                let latest = last.entry(schedule_of(backup)).or_insert(end);
                *latest = end.max(*latest);
            }
        }
        let locations: BTreeSet<&str> = world.locations.iter().map(|l| l.metadata.name.as_str()).collect();
        remove_absent(&self.location_status, |name| locations.contains(name));
        // compat: Velero never removes these, so that their number grows with all backups that ever were.
        let backups: BTreeSet<&str> = world.backups.iter().map(|backup| backup.metadata.name.as_str()).collect();
        let is_shown =
            |schedule: &str, backup: &str| is_there(schedule) && (backup.is_empty() || backups.contains(backup));
        self.csi().into_iter().for_each(|counter| remove_absent_series(counter, is_shown));
        self.observe_unprotected(world, is_there);
        let repositories: BTreeSet<&str> = world.repositories.iter().map(|r| r.metadata.name.as_str()).collect();
        let is_repository = |name: &str| repositories.contains(name);
        for counter in [&self.maintenance_success, &self.maintenance_failure] {
            remove_absent(counter, is_repository);
        }
        remove_absent(&self.maintenance_duration, is_repository);
        self.observe_losses(world);
        world.locations.iter().for_each(|location| self.observe_location(location));
        remove_absent(&self.backup_last_success, |schedule| last.contains_key(schedule));
        for (schedule, end) in last {
            self.backup_last_success.with_label_values(&[schedule]).set(end.timestamp().as_second() as f64);
        }
    }

    /// Sets the gauges about the protection of namespaces.
    pub(crate) fn observe_namespaces(&self, states: &[NamespaceState]) {
        let names: BTreeSet<&str> = states.iter().map(|state| state.name.as_str()).collect();
        for gauge in [&self.namespace_last_good, &self.namespace_schedules] {
            remove_absent(gauge, |namespace| names.contains(namespace));
        }
        for state in states {
            let (name, start) = ([state.name.as_str()], state.last_good.as_ref().and_then(|last| last.start));
            let second = start.map_or(0, |start| start.timestamp().as_second());
            self.namespace_last_good.with_label_values(&name).set(second as f64);
            self.namespace_schedules.with_label_values(&name).set(state.schedules.len() as f64);
        }
    }

    /// Sets the number of unprotected volumes from the newest backups that have run.
    fn observe_unprotected(&self, world: &World, is_there: impl Fn(&str) -> bool) {
        let have_run = world.backups.iter().filter(|backup| backup.status.start_timestamp.is_some());
        let newest = newest_ended(have_run.filter(|backup| is_there(schedule_of(backup))), &world.cluster);
        remove_absent(&self.unprotected, |schedule| newest.contains_key(schedule));
        for (schedule, backup) in newest {
            self.unprotected.with_label_values(&[schedule]).set(backup.status.unprotected_volumes as f64);
        }
    }

    pub(super) fn observe_location(&self, location: &BackupStorageLocation) {
        let is_good = location.status.phase == Some(BackupStorageLocationPhase::Available);
        let gauge = self.location_status.with_label_values(&[location.metadata.name.as_str()]);
        gauge.set(if is_good { 1.0 } else { 0.0 });
    }
}

/// Takes away the series of schedules and backups that are gone.
fn remove_absent_series(counter: &IntCounterVec, is_shown: impl Fn(&str, &str) -> bool) {
    for family in counter.collect() {
        for metric in family.get_metric() {
            let value = |name: &str| metric.get_label().iter().find(|l| l.name() == name).map_or("", LabelPair::value);
            let (schedule, backup) = (value("schedule"), value("backupName"));
            if !is_shown(schedule, backup) {
                // It is gone already when there is none.
                let _ = counter.remove_label_values(&[schedule, backup]);
            }
        }
    }
}

/// A metric with one label.
trait OneLabel: Collector {
    fn remove(&self, value: &[&str]) -> prometheus::Result<()>;
}

impl<T: MetricVecBuilder> OneLabel for MetricVec<T> {
    fn remove(&self, value: &[&str]) -> prometheus::Result<()> {
        self.remove_label_values(value)
    }
}

/// Removes the series of a metric with one label whose resources are gone. A scrape at the same time still sees all
/// others.
fn remove_absent(metric: &impl OneLabel, is_there: impl Fn(&str) -> bool) {
    for family in metric.collect() {
        for series in family.get_metric() {
            let values: Vec<&str> = series.get_label().iter().map(LabelPair::value).collect();
            if !values.iter().all(|value| is_there(value)) {
                // It is gone already when there is none.
                let _ = metric.remove(&values);
            }
        }
    }
}
