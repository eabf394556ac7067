//! Objects that cannot be read: the definitions leave more open than the types do, a duration such as `30d` for one.

use crate::world::Unreadable;

/// Whether an object that cannot be read is to be refused. What has begun is left to its end, and what was refused for the
/// same reason rests.
pub(crate) fn is_to_be_refused(kind: &str, object: &Unreadable) -> bool {
    match kind {
        "Backup" => matches!(object.phase.as_str(), "" | "New" | "Queued" | "ReadyToStart"),
        "Restore" => matches!(object.phase.as_str(), "" | "New"),
        "BackupStorageLocation" => object.phase != "Unavailable" || !object.message.contains(&object.why),
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
            ("Backup", "", "", true),
            ("Backup", "Queued", "", true),
            ("Backup", "InProgress", "", false),
            ("Backup", "FailedValidation", "", false),
            ("Restore", "New", "", true),
            ("Restore", "InProgress", "", false),
            ("BackupStorageLocation", "Available", "", true),
            ("BackupStorageLocation", "Unavailable", "the bucket is gone", true),
            ("BackupStorageLocation", "Unavailable", "it cannot be read: no duration", false),
        ] {
            let object = Unreadable {
                identity: Identity { name: "x".into(), uid: "u".into() },
                resource_version: "1".into(),
                phase: phase.into(),
                message: message.into(),
                why: "no duration".into(),
            };
            assert_eq!(is_to_be_refused(kind, &object), expected, "{kind} {phase} {message}");
        }
    }
}
