//! Backups whose time is over.

use super::{Key, Planner, Reason, Step};
use crate::options::Controller;
use crate::phase::Decision;
use crate::phase::expiry::{self, Obstacle, Requests};
use crate::work::deletion::is_meant;
use crate::world::{Meta, World};
use jiff::Timestamp;
use lifeboat_api::{Backup, DeleteBackupRequest, DeleteBackupRequestPhase, Time};
use std::collections::HashMap;

/// The requests to delete backups, by namespace and name of these.
type ByBackup<'a> = HashMap<(&'a str, &'a str), Vec<&'a DeleteBackupRequest>>;

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
        let requests = by_backup(world);
        for backup in over {
            self.expiry(backup, &requests);
        }
    }

    fn expiry(&mut self, backup: &Backup, requests: &ByBackup<'_>) {
        let options = self.view.options;
        let key = Key::Expiry(backup.key());
        let location = self.location_of(backup);
        if let Some(unchecked) = location.ok().filter(|location| self.is_unchecked(location)).map(Meta::key) {
            return self.note(|_| (key.object(), Reason::Unchecked(unchecked)));
        }
        let obstacle = Obstacle::of(location.ok());
        let name = location.map_or_else(str::to_owned, |location| location.metadata.name.clone());
        let requests = requests_for(backup, requests);
        let decision = expiry::step(backup, obstacle, requests, options.expiry_frequency, self.view.now.0);
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

fn by_backup(world: &World) -> ByBackup<'_> {
    let mut out = ByBackup::new();
    for request in world.delete_requests.iter() {
        let backup = (request.metadata.namespace.as_str(), request.spec.backup_name.as_str());
        out.entry(backup).or_default().push(request);
    }
    out
}

fn requests_for(backup: &Backup, all: &ByBackup<'_>) -> Requests {
    let meta = &backup.metadata;
    let own = all.get(&(meta.namespace.as_str(), meta.name.as_str())).into_iter().flatten();
    let mut found = Requests::default();
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
