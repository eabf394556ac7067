//! The steps of repositories: they are made ready, and maintained.

use super::Planner;
use crate::options::Controller;
use crate::server::key::Key;
use crate::server::step::ServerStep;
use crate::world::Meta;
use lifeboat_lifecycle::phase;
use lifeboat_reconcile::TaskKey;

impl Planner<'_> {
    pub(super) fn repositories(&mut self) {
        let world = self.view.world;
        for repository in world.repositories.iter() {
            let key = Key::Repository(repository.key());
            let place = repository.beside(&repository.spec.backup_storage_location);
            let location = world.locations.get(&place);
            // One that cannot be read is there.
            if location.is_none() && world.locations.is_there(&place) {
                continue;
            }
            if let Some(step) = self.due(phase::repository::next(repository, location), || key.object()) {
                if self.may(Controller::BackupRepo, || key.object()) && self.may_begin(&key) {
                    let location = location.cloned().map(Box::new);
                    self.add(key, ServerStep::Repository(Box::new(repository.clone()), location, step));
                }
                continue;
            }
            let Some(location) = location else { continue };
            let key = Key::Maintenance(repository.key());
            let decision = phase::maintenance::next(repository, location, self.view.now.0);
            let Some(()) = self.due(decision, || key.subject()) else { continue };
            if self.may(Controller::BackupRepo, || key.object()) && self.may_begin(&key) {
                self.add(key, ServerStep::Maintain(Box::new(repository.clone()), Box::new(location.clone())));
            }
        }
    }
}
