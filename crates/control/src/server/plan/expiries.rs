//! Backups whose time is over.

use super::{Key, Planner, Reason, Step};
use crate::options::Controller;
use crate::phase::Decision;
use crate::phase::expiry::{self, Obstacle, Requests};
use crate::phase::restore::has_ended;
use crate::work::deletion::is_meant;
use crate::world::{Meta, World};
use jiff::Timestamp;
use lifeboat_api::{Backup, DeleteBackupRequest, DeleteBackupRequestPhase, Restore, Time};
use std::collections::HashMap;

/// What concerns backups, by namespace and name of these.
struct ByBackup<'a> {
    requests: HashMap<(&'a str, &'a str), Vec<&'a DeleteBackupRequest>>,
    /// One restore of each that is restored.
    restores: HashMap<(&'a str, &'a str), &'a Restore>,
}

impl Planner<'_> {
    pub(super) fn expiries(&mut self) {
        let (world, now) = (self.view.world, self.view.now.0);
        let mut over: Vec<&Backup> = Vec::new();
        for backup in world.backups.iter() {
            match expiry::end(backup) {
                Some(end) if end <= now => over.push(backup),
                // It is looked at then, and what it has until then is no wait that anybody asks for.
                Some(end) if self.has(Controller::Gc) => self.wake_until(end),
                _ => {}
            }
        }
        if over.is_empty() {
            return;
        }
        let concerns = ByBackup::of(world);
        for backup in over {
            self.expiry(backup, &concerns);
        }
    }

    fn expiry(&mut self, backup: &Backup, concerns: &ByBackup<'_>) {
        let options = self.view.options;
        let key = Key::Expiry(backup.key());
        let location = self.location_of(backup);
        if let Some(unchecked) = location.ok().filter(|location| self.is_unchecked(location)).map(Meta::key) {
            return self.note(|_| (key.object(), Reason::Unchecked(unchecked)));
        }
        let obstacle = Obstacle::of(location.ok());
        let name = location.map_or_else(str::to_owned, |location| location.metadata.name.clone());
        let requests = concerns.requests_for(backup);
        let decision = expiry::step(backup, obstacle, requests, options.expiry_frequency, self.view.now.0);
        if let (Decision::Do(expiry::Step::Delete), Some(restore)) = (&decision, concerns.restore_of(backup)) {
            // Half a restore is worse than a backup that stays a little longer.
            return self.note(|_| (key.object(), Reason::ReadBy(restore.key())));
        }
        if let Some(obstacle) = obstacle {
            self.note(|_| (key.object(), Reason::Kept { location: name, obstacle }));
        }
        if decision == Decision::Rest || !self.may(Controller::Gc, || key.object()) {
            return;
        }
        let Some(step) = self.due(decision, || key.object()) else { return };
        if self.may_begin(&key) {
            self.add(key, Step::Expire(Box::new(backup.clone()), step));
        }
    }

    fn wake_until(&mut self, at: Timestamp) {
        self.plan.wake = Some(self.plan.wake.map_or(at, |wake| wake.min(at)));
    }
}

impl<'a> ByBackup<'a> {
    fn of(world: &'a World) -> Self {
        let mut out = Self { requests: HashMap::new(), restores: HashMap::new() };
        for request in world.delete_requests.iter() {
            let backup = (request.metadata.namespace.as_str(), request.spec.backup_name.as_str());
            out.requests.entry(backup).or_default().push(request);
        }
        for restore in world.restores.iter().filter(|restore| !has_ended(restore)) {
            let backup = (restore.metadata.namespace.as_str(), restore.spec.backup_name.as_str());
            out.restores.insert(backup, restore);
        }
        out
    }

    fn requests_for(&self, backup: &Backup) -> Requests {
        let mut found = Requests::default();
        let own = self.requests.get(&place(backup)).into_iter().flatten();
        for request in own.filter(|request| is_meant(request, backup)) {
            match request.status.phase {
                Some(DeleteBackupRequestPhase::Processed) => {
                    found.failed = found.failed.max(request.metadata.creation_timestamp.map(Time::timestamp));
                }
                _ => found.is_open = true,
            }
        }
        found
    }

    fn restore_of(&self, backup: &Backup) -> Option<&'a Restore> {
        self.restores.get(&place(backup)).copied()
    }
}

fn place(backup: &Backup) -> (&str, &str) {
    (backup.metadata.namespace.as_str(), backup.metadata.name.as_str())
}
