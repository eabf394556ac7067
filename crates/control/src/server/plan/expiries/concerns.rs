//! The requests and restores that concern backups.

use crate::phase::expiry::Requests;
use crate::phase::request::is_meant;
use crate::phase::restore::has_ended;
use crate::world::World;
use lifeboat_api::{Backup, DeleteBackupRequest, DeleteBackupRequestPhase, Restore, Time};
use std::cell::OnceCell;
use std::collections::HashMap;

/// What concerns backups; found when the first backup asks.
pub(super) struct Concerns<'a> {
    world: &'a World,
    requests: OnceCell<ByBackup<'a, Vec<&'a DeleteBackupRequest>>>,
    /// One restore of each that is restored.
    restores: OnceCell<ByBackup<'a, &'a Restore>>,
}

/// By namespace and name of backups.
type ByBackup<'a, T> = HashMap<(&'a str, &'a str), T>;

impl<'a> Concerns<'a> {
    pub(super) fn of(world: &'a World) -> Self {
        Self { world, requests: OnceCell::new(), restores: OnceCell::new() }
    }

    /// Whether there are requests to delete this very backup.
    pub(super) fn requests_for(&self, backup: &Backup) -> Requests {
        let all = self.requests.get_or_init(|| requests(self.world));
        let mut found = Requests::default();
        let own = all.get(&place(backup)).into_iter().flatten();
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

    /// A restore that reads it.
    pub(super) fn restore_of(&self, backup: &Backup) -> Option<&'a Restore> {
        self.restores.get_or_init(|| restores(self.world)).get(&place(backup)).copied()
    }
}

fn requests(world: &World) -> ByBackup<'_, Vec<&DeleteBackupRequest>> {
    let mut out = ByBackup::<Vec<_>>::new();
    for request in world.delete_requests.iter() {
        let backup = (request.metadata.namespace.as_str(), request.spec.backup_name.as_str());
        out.entry(backup).or_default().push(request);
    }
    out
}

fn restores(world: &World) -> ByBackup<'_, &Restore> {
    let running = world.restores.iter().filter(|restore| !has_ended(restore));
    running.map(|restore| ((restore.metadata.namespace.as_str(), restore.spec.backup_name.as_str()), restore)).collect()
}

fn place(backup: &Backup) -> (&str, &str) {
    (backup.metadata.namespace.as_str(), backup.metadata.name.as_str())
}
