//! Objects that cannot be read.

use crate::world::{MirroredKind, Unreadable};
use lifeboat_lifecycle::phase::restore::FINALIZER;

/// The next step for an object that cannot be read and that no task works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It has not begun, and is not valid.
    Refuse,
    /// It has begun, and the server cannot bring it to its end.
    Fail,
    /// It is a Restore that was deleted: delete its files, then let it go.
    CleanUp,
}

/// Returns true if the status of this kind has a phase for objects that cannot be read: they are refused, or have
/// failed.
pub(crate) fn is_refused(kind: MirroredKind) -> bool {
    matches!(
        kind,
        MirroredKind::Backup | MirroredKind::Restore | MirroredKind::BackupStorageLocation | MirroredKind::Schedule
    )
}

/// Decides the next step for an object of this kind that cannot be read. Nothing is done when it was refused for the
/// same reason before, or has ended.
pub(crate) fn step(kind: MirroredKind, object: &Unreadable) -> Option<Step> {
    if object.meta.deletion_timestamp.is_some() {
        let is_held = kind == MirroredKind::Restore && object.meta.finalizers.iter().any(|f| f == FINALIZER);
        return is_held.then_some(Step::CleanUp);
    }
    match (kind, object.phase()) {
        (MirroredKind::Backup, "" | "New" | "Queued" | "ReadyToStart") | (MirroredKind::Restore, "" | "New") => {
            Some(Step::Refuse)
        }
        (
            MirroredKind::Backup | MirroredKind::Restore,
            "InProgress"
            | "WaitingForPluginOperations"
            | "WaitingForPluginOperationsPartiallyFailed"
            | "Finalizing"
            | "FinalizingPartiallyFailed",
        ) => Some(Step::Fail),
        (MirroredKind::Schedule, "" | "New" | "Enabled") => Some(Step::Refuse),
        (MirroredKind::BackupStorageLocation, phase) => {
            (phase != "Unavailable" || !object.message().contains(&object.why)).then_some(Step::Refuse)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::named;
    use crate::world::{MirrorChange, World};
    use lifeboat_reconcile::MirrorEvent;
    use serde_json::{Value, json};

    /// As a mirror has seen it; its spec is a number.
    fn seen(kind: MirroredKind, metadata: &Value, status: &Value) -> World {
        let mut world = World::default();
        let object = json!({"metadata": metadata, "spec": 1, "status": status}).to_string();
        world.see(MirrorChange { kind, what: MirrorEvent::Applied(object.into()) });
        world
    }

    fn of(kind: MirroredKind, world: &World) -> Unreadable {
        match kind {
            MirroredKind::Backup => world.backups.get_unreadable(&named("x")),
            MirroredKind::Restore => world.restores.get_unreadable(&named("x")),
            MirroredKind::Schedule => world.schedules.get_unreadable(&named("x")),
            _ => world.locations.get_unreadable(&named("x")),
        }
        .unwrap()
        .clone()
    }

    #[test]
    fn what_cannot_be_read_comes_to_its_end() {
        let why = of(
            MirroredKind::BackupStorageLocation,
            &seen(MirroredKind::BackupStorageLocation, &json!({"name": "x"}), &json!({})),
        )
        .why;
        let same = format!("it cannot be read: {why}");
        for (kind, phase, message, expected) in [
            (MirroredKind::Backup, "", "", Some(Step::Refuse)),
            (MirroredKind::Backup, "Queued", "", Some(Step::Refuse)),
            (MirroredKind::Backup, "InProgress", "", Some(Step::Fail)),
            (MirroredKind::Backup, "FinalizingPartiallyFailed", "", Some(Step::Fail)),
            (MirroredKind::Backup, "FailedValidation", "", None),
            (MirroredKind::Backup, "Completed", "", None),
            (MirroredKind::Backup, "Deleting", "", None),
            (MirroredKind::Restore, "New", "", Some(Step::Refuse)),
            (MirroredKind::Restore, "InProgress", "", Some(Step::Fail)),
            (MirroredKind::Restore, "Failed", "", None),
            (MirroredKind::Schedule, "", "", Some(Step::Refuse)),
            (MirroredKind::Schedule, "Enabled", "", Some(Step::Refuse)),
            (MirroredKind::Schedule, "FailedValidation", "", None),
            (MirroredKind::BackupStorageLocation, "Available", "", Some(Step::Refuse)),
            (MirroredKind::BackupStorageLocation, "Unavailable", "the bucket is gone", Some(Step::Refuse)),
            (MirroredKind::BackupStorageLocation, "Unavailable", same.as_str(), None),
        ] {
            let status = json!({"phase": phase, "message": message});
            let mut metadata = json!({"name": "x", "uid": "u"});
            let decided = |metadata: &Value| step(kind, &of(kind, &seen(kind, metadata, &status)));
            assert_eq!(decided(&metadata), expected, "{kind:?} {phase} {message}");
            metadata["deletionTimestamp"] = json!("2026-11-22T00:00:00Z");
            assert_eq!(decided(&metadata), None, "deleted: {kind:?} {phase}");
            metadata["finalizers"] = json!(["example.com/x", FINALIZER]);
            let expected = (kind == MirroredKind::Restore).then_some(Step::CleanUp);
            assert_eq!(decided(&metadata), expected, "deleted and held: {kind:?} {phase}");
        }
    }
}
