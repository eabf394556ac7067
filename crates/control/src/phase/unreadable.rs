//! Objects that cannot be read.

use super::restore::FINALIZER;
use crate::world::{Kind, Unreadable};

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
pub(crate) fn is_refused(kind: Kind) -> bool {
    matches!(kind, Kind::Backup | Kind::Restore | Kind::BackupStorageLocation | Kind::Schedule)
}

/// Decides the next step for an object of this kind that cannot be read. Nothing is done when it was refused for the
/// same reason before, or has ended.
pub(crate) fn step(kind: Kind, object: &Unreadable) -> Option<Step> {
    if object.meta.deletion_timestamp.is_some() {
        let is_held = kind == Kind::Restore && object.meta.finalizers.iter().any(|f| f == FINALIZER);
        return is_held.then_some(Step::CleanUp);
    }
    match (kind, object.phase()) {
        (Kind::Backup, "" | "New" | "Queued" | "ReadyToStart") | (Kind::Restore, "" | "New") => Some(Step::Refuse),
        (
            Kind::Backup | Kind::Restore,
            "InProgress"
            | "WaitingForPluginOperations"
            | "WaitingForPluginOperationsPartiallyFailed"
            | "Finalizing"
            | "FinalizingPartiallyFailed",
        ) => Some(Step::Fail),
        (Kind::Schedule, "" | "New" | "Enabled") => Some(Step::Refuse),
        (Kind::BackupStorageLocation, phase) => {
            (phase != "Unavailable" || !object.message().contains(&object.why)).then_some(Step::Refuse)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::named;
    use crate::world::{Change, World};
    use lifeboat_reconcile::MirrorEvent;
    use serde_json::{Value, json};

    /// As a mirror has seen it; its spec is a number.
    fn seen(kind: Kind, metadata: &Value, status: &Value) -> World {
        let mut world = World::default();
        let object = json!({"metadata": metadata, "spec": 1, "status": status}).to_string();
        world.see(Change { kind, what: MirrorEvent::Applied(object.into()) });
        world
    }

    fn of(kind: Kind, world: &World) -> Unreadable {
        match kind {
            Kind::Backup => world.backups.get_unreadable(&named("x")),
            Kind::Restore => world.restores.get_unreadable(&named("x")),
            Kind::Schedule => world.schedules.get_unreadable(&named("x")),
            _ => world.locations.get_unreadable(&named("x")),
        }
        .unwrap()
        .clone()
    }

    #[test]
    fn what_cannot_be_read_comes_to_its_end() {
        let why =
            of(Kind::BackupStorageLocation, &seen(Kind::BackupStorageLocation, &json!({"name": "x"}), &json!({}))).why;
        let same = format!("it cannot be read: {why}");
        for (kind, phase, message, expected) in [
            (Kind::Backup, "", "", Some(Step::Refuse)),
            (Kind::Backup, "Queued", "", Some(Step::Refuse)),
            (Kind::Backup, "InProgress", "", Some(Step::Fail)),
            (Kind::Backup, "FinalizingPartiallyFailed", "", Some(Step::Fail)),
            (Kind::Backup, "FailedValidation", "", None),
            (Kind::Backup, "Completed", "", None),
            (Kind::Backup, "Deleting", "", None),
            (Kind::Restore, "New", "", Some(Step::Refuse)),
            (Kind::Restore, "InProgress", "", Some(Step::Fail)),
            (Kind::Restore, "Failed", "", None),
            (Kind::Schedule, "", "", Some(Step::Refuse)),
            (Kind::Schedule, "Enabled", "", Some(Step::Refuse)),
            (Kind::Schedule, "FailedValidation", "", None),
            (Kind::BackupStorageLocation, "Available", "", Some(Step::Refuse)),
            (Kind::BackupStorageLocation, "Unavailable", "the bucket is gone", Some(Step::Refuse)),
            (Kind::BackupStorageLocation, "Unavailable", same.as_str(), None),
        ] {
            let status = json!({"phase": phase, "message": message});
            let mut metadata = json!({"name": "x", "uid": "u"});
            let decided = |metadata: &Value| step(kind, &of(kind, &seen(kind, metadata, &status)));
            assert_eq!(decided(&metadata), expected, "{kind:?} {phase} {message}");
            metadata["deletionTimestamp"] = json!("2026-11-22T00:00:00Z");
            assert_eq!(decided(&metadata), None, "deleted: {kind:?} {phase}");
            metadata["finalizers"] = json!(["example.com/x", FINALIZER]);
            let expected = (kind == Kind::Restore).then_some(Step::CleanUp);
            assert_eq!(decided(&metadata), expected, "deleted and held: {kind:?} {phase}");
        }
    }
}
