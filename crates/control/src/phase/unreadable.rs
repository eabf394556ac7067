//! Objects that cannot be read: the definitions leave more open than the types do, a duration such as `30d` for one.

use crate::world::{Kind, Unreadable};

/// Whether an object that cannot be read is to be refused. What has begun is left to its end, and what was refused for the
/// same reason rests.
pub(crate) fn is_to_be_refused(kind: Kind, object: &Unreadable) -> bool {
    match kind {
        Kind::Backup => matches!(object.phase.as_str(), "" | "New" | "Queued" | "ReadyToStart"),
        Kind::Restore => matches!(object.phase.as_str(), "" | "New"),
        Kind::BackupStorageLocation => object.phase != "Unavailable" || !object.message.contains(&object.why),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Identity;

    #[test]
    fn what_has_not_begun_is_refused() {
        for (kind, phase, message, expected) in [
            (Kind::Backup, "", "", true),
            (Kind::Backup, "Queued", "", true),
            (Kind::Backup, "InProgress", "", false),
            (Kind::Backup, "FailedValidation", "", false),
            (Kind::Restore, "New", "", true),
            (Kind::Restore, "InProgress", "", false),
            (Kind::BackupStorageLocation, "Available", "", true),
            (Kind::BackupStorageLocation, "Unavailable", "the bucket is gone", true),
            (Kind::BackupStorageLocation, "Unavailable", "it cannot be read: no duration", false),
        ] {
            let object = Unreadable {
                identity: Identity { name: "x".into(), uid: "u".into() },
                resource_version: "1".into(),
                phase: phase.into(),
                message: message.into(),
                why: "no duration".into(),
            };
            assert_eq!(is_to_be_refused(kind, &object), expected, "{kind:?} {phase} {message}");
        }
    }
}
