//! The requests and restores that concern backups.

use crate::world::{Meta, World};
use jiff::Timestamp;
use lifeboat_api::{Backup, BackupStorageLocation, NamespacedName, Restore};
use lifeboat_lifecycle::phase::others::Sightings;
use lifeboat_lifecycle::phase::request::{ByBackup, Requests};
use lifeboat_lifecycle::phase::restore::has_ended;
use lifeboat_lifecycle::phase::taken_over::source_cluster;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

/// Requests, restores and sightings that concern backups. Gathered when the first backup needs them.
pub(super) struct Concerns<'a> {
    world: &'a World,
    /// Backups whose deletion is under way, or begins with this plan.
    deleted: HashSet<NamespacedName>,
    requests: OnceCell<ByBackup<'a>>,
    /// A restore of each backup that is being restored, by the namespace and the name of the backup.
    restores: OnceCell<HashMap<(&'a str, &'a str), &'a Restore>>,
    sightings: OnceCell<Sightings<'a>>,
}

impl<'a> Concerns<'a> {
    /// `deleted` are the backups whose deletion is under way, or begins with this plan.
    pub(super) fn of(world: &'a World, deleted: HashSet<NamespacedName>) -> Self {
        Self { world, deleted, requests: OnceCell::new(), restores: OnceCell::new(), sightings: OnceCell::new() }
    }

    /// The requests to delete this very backup.
    pub(super) fn requests_for(&self, backup: &Backup) -> Requests {
        let requests = self.requests.get_or_init(|| self.world.delete_requests.iter().collect()).of(backup);
        let is_deleted = requests.may_be_withdrawn && self.deleted.contains(&backup.key());
        Requests { may_be_withdrawn: requests.may_be_withdrawn && !is_deleted, ..requests }
    }

    /// A restore that reads it.
    pub(super) fn restore_of(&self, backup: &Backup) -> Option<&'a Restore> {
        let restores = || {
            let running = self.world.restores.iter().filter(|restore| !has_ended(restore));
            let place = |r: &'a Restore| (r.metadata.namespace.as_str(), r.spec.backup_name.as_str());
            running.map(|restore| (place(restore), restore)).collect()
        };
        let place = (backup.metadata.namespace.as_str(), backup.metadata.name.as_str());
        self.restores.get_or_init(restores).get(&place).copied()
    }

    /// The UID of the other cluster that lets a backup go.
    pub(super) fn elsewhere(
        &self,
        backup: &Backup,
        location: Option<&BackupStorageLocation>,
        now: Timestamp,
    ) -> Option<String> {
        source_cluster(backup)?;
        let sightings = self.sightings.get_or_init(|| Sightings::of(self.world.backups.iter(), &self.world.cluster));
        sightings.expires_elsewhere(backup, location, now).map(str::to_owned)
    }
}
