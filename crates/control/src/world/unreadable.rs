//! Objects that are there and cannot be read: the definitions leave more open than the types do, a duration such as `30d`
//! for one.

use bytes::Bytes;
use lifeboat_api::{Backup, BackupStatus, ManagedFields, ObjectMeta};
use lifeboat_client::ObjectIdentity;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object that is there and cannot be read. What it says is looked at field by field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unreadable {
    pub(crate) meta: ObjectMeta,
    all: Value,
    /// The error of the parser.
    pub(crate) why: String,
}

impl Unreadable {
    /// `None` when not even its name can be read.
    pub(super) fn new(body: &Bytes, error: &serde_json::Error) -> Option<Self> {
        let why = error.to_string();
        // The place in the text changes with each write, and tells a user nothing.
        let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why).to_owned();
        let mut meta = meta(body)?;
        meta.managed_fields = ManagedFields::default();
        let mut all: Value = serde_json::from_slice(body).unwrap_or_default();
        all["metadata"].take();
        Some(Self { meta, all, why })
    }

    pub(crate) fn identity(&self) -> ObjectIdentity {
        ObjectIdentity::of(&self.meta)
    }

    /// The word of its phase.
    pub(crate) fn phase(&self) -> &str {
        self.all["status"]["phase"].as_str().unwrap_or_default()
    }

    /// The message in its status.
    pub(crate) fn message(&self) -> &str {
        self.all["status"]["message"].as_str().unwrap_or_default()
    }

    /// The field of its spec, when that is a text.
    pub(crate) fn names(&self, field: &str) -> &str {
        self.all["spec"][field].as_str().unwrap_or_default()
    }

    /// Returns true if its spec has a field.
    pub(crate) fn has(&self, field: &str) -> bool {
        !self.all["spec"][field].is_null()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.all["spec"]["cancel"] == true
    }

    /// Returns true if the work on it has begun, so that it may have files.
    pub(crate) fn has_begun(&self) -> bool {
        self.all["status"]["startTimestamp"].is_string()
    }

    /// The fields of a Backup that its deletion needs.
    pub(crate) fn backup(&self) -> Backup {
        let status = &self.all["status"];
        let mut backup = Backup { metadata: self.meta.clone(), ..Backup::default() };
        self.names("storageLocation").clone_into(&mut backup.spec.storage_location);
        backup.status = read(status).unwrap_or_else(|| BackupStatus {
            phase: read(&status["phase"]),
            start_timestamp: read(&status["startTimestamp"]),
            completion_timestamp: read(&status["completionTimestamp"]),
            progress: read(&status["progress"]),
            failure_reason: read(&status["failureReason"]).unwrap_or_default(),
            ..BackupStatus::default()
        });
        backup
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// Reads the metadata, which every object has, whether the rest of it can be read or not.
pub(super) fn meta(body: &Bytes) -> Option<ObjectMeta> {
    #[derive(serde::Deserialize)]
    struct UntypedObject {
        metadata: ObjectMeta,
    }
    serde_json::from_slice::<UntypedObject>(body).ok().map(|any| any.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::BackupPhase;
    use serde_json::json;

    #[test]
    fn a_backup_is_read_as_far_as_it_can_be() {
        let start = "2026-11-22T00:00:00Z";
        for status in [
            json!({"phase": "Completed", "startTimestamp": start}),
            json!({"phase": "Completed", "startTimestamp": start, "errors": "x"}),
        ] {
            let object = json!({"metadata": {"name": "b", "uid": "u", "managedFields": []},
                "spec": {"ttl": "30d", "storageLocation": "here", "cancel": true}, "status": status});
            let object: Bytes = object.to_string().into();
            let found = Unreadable::new(&object, &serde_json::from_slice::<Backup>(&object).unwrap_err()).unwrap();
            assert!(!found.why.contains("line"), "{}", found.why);
            assert_eq!((found.phase(), found.has_begun(), found.is_cancelled()), ("Completed", true, true));
            let mut expected = Backup::default();
            (expected.metadata.name, expected.metadata.uid) = ("b".into(), "u".into());
            expected.spec.storage_location = "here".into();
            expected.status.phase = Some(BackupPhase::Completed);
            expected.status.start_timestamp = Some(read(&json!(start)).unwrap());
            assert_eq!(found.backup(), expected, "{status}");
        }
    }
}
