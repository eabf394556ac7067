//! Schedules: which runs are due, and whether one has to wait.

use super::{Key, Planner, Reason, ServerStep};
use crate::options::Controller;
use crate::world::{Meta, World};
use jiff::Timestamp;
use lifeboat_api::{Backup, BackupPhase, Schedule, Time};
use lifeboat_lifecycle::phase::schedule::{self, Defaults, Runs, Step as S, postponed};
use lifeboat_lifecycle::phase::taken_over::is_of_another_cluster;
use lifeboat_lifecycle::phase::{Decision, facts};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The names of unfinished backups of schedules, by namespace and label.
type UnfinishedBackups<'a> = HashMap<(&'a str, &'a str), &'a str>;

/// The backups of one schedule.
struct ScheduleBackups<'a> {
    world: &'a World,
    schedule: &'a Schedule,
    /// Of all schedules; made when the first one asks.
    unfinished: &'a OnceCell<UnfinishedBackups<'a>>,
}

impl Runs for ScheduleBackups<'_> {
    fn unfinished(&self) -> Option<String> {
        let all = self.unfinished.get_or_init(|| unfinished(self.world));
        let label = self.schedule.label();
        all.get(&(self.schedule.metadata.namespace.as_str(), label.as_str())).map(|name| (*name).to_owned())
    }

    fn newest(&self, until: Timestamp) -> Option<Timestamp> {
        let label = self.schedule.label();
        let is_own = |backup: &&Backup| {
            backup.schedule_label() == Some(&*label) && !is_of_another_cluster(backup, &self.world.cluster)
        };
        let own = self.world.backups.beside(self.schedule).filter(is_own);
        let made = own.filter_map(|backup| backup.metadata.creation_timestamp.map(Time::timestamp));
        made.filter(|made| *made <= until).max()
    }
}

/// A backup of each schedule that keeps the next run waiting. Ours: one in the queue does too (Velero's pile up there). compat: one that
/// waits for operations or is finalized does not.
fn unfinished(world: &World) -> UnfinishedBackups<'_> {
    let is_unfinished = |backup: &&Backup| {
        let walks = backup.status.phase == Some(BackupPhase::InProgress);
        (facts::waits(backup) || walks) && backup.metadata.deletion_timestamp.is_none()
    };
    let mut out = HashMap::new();
    for backup in world.backups.iter().filter(is_unfinished) {
        if let Some(schedule) = backup.schedule_label() {
            let meta = &backup.metadata;
            out.entry((meta.namespace.as_str(), schedule)).or_insert(meta.name.as_str());
        }
    }
    out
}

impl Planner<'_> {
    pub(super) fn schedules(&mut self) {
        let (world, options) = (self.view.world, self.view.options);
        let defaults = Defaults { skip_immediately: options.schedules_skip, zone: &options.zone };
        let unfinished = OnceCell::new();
        for schedule in world.schedules.iter() {
            let key = Key::Schedule(schedule.key());
            let runs = ScheduleBackups { world, schedule, unfinished: &unfinished };
            let decision = schedule::step(schedule, &runs, defaults, self.view.now.0);
            if decision == Decision::Rest || !self.may(Controller::Schedule, || key.object()) {
                continue;
            }
            let Some(mut step) = self.due(decision, || key.object()) else { continue };
            if let S::Postpone { behind, since } = &step {
                let told = postponed(behind, *since);
                let name = schedule.key();
                // Velero's definitions drop it: it is not written again and again.
                if schedule.status.message == told || self.view.memory.told.get(&name) == Some(&told) {
                    let why = Reason::EarlierRun { backup: name.beside(behind), since: *since };
                    self.note(|_| (key.object(), why));
                    continue;
                }
                let mut after = schedule.clone();
                after.status.message = told;
                step = S::Note(Box::new(after));
            }
            if self.may_begin(&key) {
                self.add(key, ServerStep::Schedule(Box::new(schedule.clone()), step));
            }
        }
    }
}
