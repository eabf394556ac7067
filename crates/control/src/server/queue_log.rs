//! Log lines about the queue of backups: what a backup waits for when it enters, and how long it has waited when it
//! leaves.

use super::step::{KeyedStep, ServerStep};
use crate::world::World;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{Backup, Time};
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
            tracing::info!(backup = name, waited_seconds = waited(backup, now), "backup leaves the queue");
        }
        QueueMove::Renumber(_) => {}
    }
}

/// The seconds for which a backup has waited since it was made; none where a clock says that it was made later.
fn waited(backup: &Backup, now: Timestamp) -> i64 {
    let created = backup.metadata.creation_timestamp.map(Time::timestamp);
    created.map_or(SignedDuration::ZERO, |created| now.duration_since(created)).as_secs().max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_says_how_long_it_has_waited_in_the_queue() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (made, expected) in [(Some(100), 90), (Some(190), 0), (Some(500), 0), (None, 0)] {
            let mut backup = Backup::default();
            backup.metadata.creation_timestamp = made.map(|second| Time::new(at(second)));
            assert_eq!(waited(&backup, at(190)), expected, "{made:?}");
        }
    }
}
