//! Backups whose time is over, or soon will be where something keeps them.

mod concerns;
mod keepers;

use super::{Key, Planner, Reason, ServerStep, Subject};
use crate::options::Controller;
use crate::world::Meta;
use concerns::Concerns;
use jiff::SignedDuration;
use keepers::Keepers;
use lifeboat_api::{Backup, DeleteBackupRequest, NamespacedName, Time};
use lifeboat_lifecycle::phase::expiry::{self, ExpiryFacts, ExpiryOutcome, Obstacle, is_to_be_recorded};
use lifeboat_lifecycle::phase::request::{is_meant, is_of_expiry};
use lifeboat_lifecycle::phase::writable::spares_until;
use lifeboat_lifecycle::phase::{Decision, facts};
use std::cell::LazyCell;
use std::collections::HashSet;

impl Planner<'_> {
    pub(super) fn expiries(&mut self) {
        let (world, now) = (self.view.world, self.view.now.0);
        let concerns = Concerns::of(world, self.deleted_backups());
        let keepers = Keepers::new(world, &concerns, self.view.options);
        for backup in world.backups.iter() {
            let end = facts::expiration(backup);
            let may_be_kept = keepers.may_keep(backup);
            let from = if may_be_kept { expiry::begins(backup) } else { end };
            let is_due = from.is_some_and(|from| from <= now);
            if is_due || is_to_be_recorded(backup) || keepers.is_to_be_noted(backup) {
                self.expiry(backup, &keepers, &concerns);
                continue;
            }
            // It is looked at then, and what it has until then is no wait that anybody asks for.
            if let Some(from) = from.filter(|_| self.has(Controller::Gc)) {
                self.wake_at(from);
            }
            if may_be_kept {
                self.note_kept(backup, &keepers, &concerns);
            }
        }
    }

    fn expiry(&mut self, backup: &Backup, keepers: &Keepers<'_>, concerns: &Concerns<'_>) {
        let (options, now) = (self.view.options, self.view.now.0);
        let key = Key::Expiry(backup.key());
        let location = self.location_of(backup);
        let known = location.as_ref().ok().copied().cloned();
        if let Some(unvalidated) = known.as_ref().filter(|location| self.is_unvalidated(location)).map(Meta::key) {
            return self.note(|_| (key.object(), Reason::Unvalidated(unvalidated)));
        }
        let around = self.expiry_facts(backup, keepers, concerns);
        let (is_kept, is_over) = (!around.keepers.is_empty(), facts::expiration(backup).is_some_and(|end| end <= now));
        let (becomes, decision) = expiry::decide(backup, &around, options.expiry_frequency, now);
        match becomes {
            ExpiryOutcome::Blocked(obstacle) => self.note(|_| (key.object(), Reason::Blocked(obstacle))),
            ExpiryOutcome::Elsewhere { cluster } if is_over => {
                self.note(|_| (key.object(), Reason::GoesElsewhere(cluster)));
            }
            // Half a restore is worse than a backup that stays a little longer.
            ExpiryOutcome::Read { restore } if decision == Decision::Rest => {
                self.note(|_| (key.object(), Reason::ReadBy(backup.beside(&restore))));
            }
            _ => {
                let is_unrecorded = |_: &Obstacle| is_to_be_recorded(backup);
                if let Some(obstacle) = around.obstacle.filter(is_unrecorded) {
                    self.note(|_| (key.object(), Reason::Unrecorded(obstacle)));
                }
            }
        }
        if decision == Decision::Rest || !self.may(Controller::Gc, || key.object()) {
            return;
        }
        if let Decision::Wait(at) = decision
            && (is_kept || !is_over)
        {
            self.wake_at(at);
            return self.note_kept(backup, keepers, concerns);
        }
        let Some(step) = self.due(decision, || key.object()) else { return };
        if self.may_begin(&key) {
            self.add(key, ServerStep::Expire(Box::new(backup.clone()), known.map(Box::new), step));
        }
    }

    fn expiry_facts(&self, backup: &Backup, keepers: &Keepers<'_>, concerns: &Concerns<'_>) -> ExpiryFacts {
        let (location, now) = (self.location_of(backup), self.view.now.0);
        let known = location.as_ref().ok().copied();
        let elsewhere = concerns.elsewhere(backup, known, now);
        ExpiryFacts {
            spared_until: known.and_then(|location| spares_until(location, now)),
            obstacle: Obstacle::of(location),
            requests: concerns.requests_for(backup),
            keepers: keepers.of(backup, elsewhere.is_some(), now),
            restore: concerns.restore_of(backup).map(|restore| restore.metadata.name.clone()),
            elsewhere,
            note: keepers.note(backup),
        }
    }

    /// The backups that expiry has asked to delete and whose deletion is under way, or begins with this plan.
    fn deleted_backups(&self) -> HashSet<NamespacedName> {
        let of_expiry = self.view.world.delete_requests.iter().filter(|request| is_of_expiry(request));
        let backups = of_expiry.map(|request| request.beside(&request.spec.backup_name));
        backups.filter(|backup| self.taken.contains(&Subject::Backup(backup.clone()))).collect()
    }

    /// The requests that expiry withdraws: since it asked for the deletion, which has not begun, something has come to keep the backup, or
    /// its time is not over any more. A request may have waited for weeks, and the newer backup that stood in for it may be gone.
    pub(super) fn withdrawn_requests(&self) -> HashSet<NamespacedName> {
        let (world, now) = (self.view.world, self.view.now.0);
        let concerns = Concerns::of(world, self.deleted_backups());
        let keepers = LazyCell::new(|| Keepers::new(world, &concerns, self.view.options));
        let stays = |request: &&DeleteBackupRequest| {
            let backup = world.backups.get(&request.beside(&request.spec.backup_name));
            backup.filter(|backup| is_meant(request, backup)).is_some_and(|backup| {
                expiry::becomes(backup, &self.expiry_facts(backup, &keepers, &concerns), now) != ExpiryOutcome::Going
            })
        };
        let of_expiry = world.delete_requests.iter().filter(|request| is_of_expiry(request));
        of_expiry.filter(stays).map(Meta::key).collect()
    }

    /// Notes, in a plan that explains, what keeps a backup whose expiration was moved: without that its time would be over.
    fn note_kept(&mut self, backup: &Backup, keepers: &Keepers<'_>, concerns: &Concerns<'_>) {
        let now = self.view.now.0;
        let ttl = SignedDuration::from_nanos(backup.spec.ttl.nanoseconds());
        let begun = backup.status.start_timestamp.map(Time::timestamp).filter(|_| ttl.is_positive());
        let end = begun.and_then(|begun| begun.checked_add(ttl).ok());
        if self.waits.is_none() || end.is_none_or(|end| end > now) {
            return;
        }
        let elsewhere = concerns.elsewhere(backup, self.location_of(backup).ok(), now);
        let by = keepers.of(backup, elsewhere.is_some(), now);
        if !by.is_empty() {
            self.note(|_| (Key::Expiry(backup.key()).object(), Reason::KeptBy(by)));
        }
    }
}
