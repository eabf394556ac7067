//! Log lines about the queue of backups: what a backup waits for when it enters, and how long it has waited when it
//! leaves.

use super::step::{KeyedStep, ServerStep};
use crate::world::World;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::Time;
use lifeboat_lifecycle::phase::queue::{QueueMove, conflicts};

/// Tells of a backup that comes into the queue or leaves it.
pub(super) fn tell(work: &KeyedStep, world: &World, now: Timestamp) {
    let ServerStep::Queue(backup, to) = &work.step else { return };
    let name = &backup.metadata.name;
    match to {
        QueueMove::Queue(position) => {
            let conflicts: Vec<String> = conflicts(backup, *position, world.backups.beside(&**backup))
                .into_iter()
                .map(|(other, namespaces)| format!("{} ({})", other.name, namespaces.join(", ")))
                .collect();
            if conflicts.is_empty() {
                return tracing::info!(backup = name, position, "backup is queued");
            }
            tracing::info!(
                backup = name,
                position,
                waits_for = conflicts.join("; "),
                "backup is queued; it runs beside none that may hold one of its namespaces"
            );
        }
        QueueMove::Start => {
            let created = backup.metadata.creation_timestamp.map(Time::timestamp);
            let waited = created.map_or(SignedDuration::ZERO, |created| now.duration_since(created)).as_secs();
            tracing::info!(backup = name, waited_seconds = waited.max(0), "backup leaves the queue");
        }
        QueueMove::Renumber(_) => {}
    }
}
