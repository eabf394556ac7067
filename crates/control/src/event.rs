//! Events of Kubernetes for changes of phase, which `kubectl describe` shows.

use crate::world::Meta;
use bytes::Bytes;
use jiff::Timestamp;
use lifeboat_api::{
    Backup, BackupPhase, BackupRepository, BackupRepositoryPhase, BackupStorageLocation, GROUP, Restore, Schedule,
    SchedulePhase, Time,
};
use lifeboat_client::Client;
use lifeboat_cluster::{ClusterError, WriteBody};
use lifeboat_object::ApiResource;
use serde_json::{Value, json};

/// A resource that can describe its outcome for an event.
pub(crate) trait EventSource: Meta {
    /// Returns true if its phase is a reason to look at it, and a sentence about the phase.
    fn describe(&self) -> (bool, String);
}

/// The outcome of an operation: its failure, or its counts.
struct OperationEnd<'a> {
    phase: Option<&'static str>,
    failure: &'a str,
    invalid: &'a [String],
    items: i64,
    warnings: i64,
    errors: i64,
}

impl OperationEnd<'_> {
    fn describe(&self) -> (bool, String) {
        let counts = format!("{} warnings, {} errors", self.warnings, self.errors);
        match self.phase {
            Some("Failed") => (true, self.failure.to_owned()),
            Some("FailedValidation") => (true, self.invalid.join("; ")),
            Some("PartiallyFailed") => (true, counts),
            Some("Completed") => (false, format!("{} objects, {counts}", self.items)),
            _ => (false, String::new()),
        }
    }
}

impl EventSource for Backup {
    fn describe(&self) -> (bool, String) {
        let status = &self.status;
        if status.phase == Some(BackupPhase::Queued) {
            return (false, format!("at position {}", status.queue_position));
        }
        let end = OperationEnd {
            phase: self.phase(),
            failure: &status.failure_reason,
            invalid: &status.validation_errors,
            items: status.progress.as_ref().map_or(0, |progress| progress.items_backed_up),
            warnings: status.warnings,
            errors: status.errors,
        };
        end.describe()
    }
}

impl EventSource for Restore {
    fn describe(&self) -> (bool, String) {
        let status = &self.status;
        let end = OperationEnd {
            phase: self.phase(),
            failure: &status.failure_reason,
            invalid: &status.validation_errors,
            items: status.progress.as_ref().map_or(0, |progress| progress.items_restored),
            warnings: status.warnings,
            errors: status.errors,
        };
        end.describe()
    }
}

impl EventSource for BackupStorageLocation {
    fn describe(&self) -> (bool, String) {
        let is_bad = self.status.phase == Some(lifeboat_api::BackupStorageLocationPhase::Unavailable);
        (is_bad, self.status.message.clone())
    }
}

impl EventSource for BackupRepository {
    fn describe(&self) -> (bool, String) {
        (self.status.phase == Some(BackupRepositoryPhase::NotReady), self.status.message.clone())
    }
}

impl EventSource for Schedule {
    fn describe(&self) -> (bool, String) {
        (self.status.phase == Some(SchedulePhase::FailedValidation), self.status.validation_errors.join("; "))
    }
}

/// Bytes of a message that the API server takes (its limit is 1024).
const LONGEST: usize = 1000;

/// The contents of an event about an object.
pub(crate) struct EventContent<'a, T> {
    object: &'a T,
    is_bad: bool,
    reason: &'a str,
    message: String,
}

/// A reason to look at an object that its phase does not tell.
pub(crate) fn warning<'a, T: Meta>(object: &'a T, reason: &'a str, message: &str) -> EventContent<'a, T> {
    EventContent { object, is_bad: true, reason, message: message.to_owned() }
}

/// News of an object that its phase does not tell.
pub(crate) fn note<'a, T: Meta>(object: &'a T, reason: &'a str, message: &str) -> EventContent<'a, T> {
    EventContent { object, is_bad: false, reason, message: message.to_owned() }
}

/// The event for the phase in which an object is.
pub(crate) fn event<T: EventSource>(object: &T, identity: &str, now: Timestamp) -> Value {
    let (is_bad, mut message) = object.describe();
    let phase = object.phase().unwrap_or("New");
    if message.is_empty() {
        message = format!("{} is in phase {phase}", object.meta().name);
    }
    EventContent { object, is_bad, reason: phase, message }.event(identity, now)
}

impl<T: Meta> EventContent<'_, T> {
    pub(crate) fn event(self, identity: &str, now: Timestamp) -> Value {
        let Self { object, is_bad, reason, mut message } = self;
        let meta = object.meta();
        if let Some(end) =
            (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at)).filter(|_| message.len() > LONGEST)
        {
            message.truncate(end);
            message.push('…');
        }
        let now = Time::new(now);
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{}.", cut(&meta.name)), "namespace": meta.namespace},
            "involvedObject": {
                "apiVersion": format!("{GROUP}/{}", T::VERSION), "kind": T::KIND, "namespace": meta.namespace,
                "name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version,
            },
            "type": if is_bad { "Warning" } else { "Normal" },
            "reason": reason,
            "message": message,
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
            "source": {"component": "lifeboat-server", "host": identity},
        })
    }
}

/// The event for a backup that has ended as it should, and has lost objects.
pub(crate) fn of_loss(mut event: Value, loss: &str) -> Value {
    let message = format!("{}; it {loss}", event["message"].as_str().unwrap_or_default());
    event["type"] = json!("Warning");
    event["message"] = json!(message);
    event
}

/// Room for what the API server adds to a generated name.
fn cut(name: &str) -> &str {
    let end = name.len().min(200);
    &name[..(0..=end).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0)]
}

/// Writes an event; one that is not written is not missed.
pub(crate) async fn emit(client: &Client, event: Value) {
    let events = ApiResource::new("", "v1", "events", "Event");
    let body = Bytes::from(event.to_string());
    let name = event["involvedObject"]["name"].as_str().unwrap_or_default();
    let written: Result<Bytes, ClusterError> =
        client.cluster.create(&events, Some(&client.namespace), name, WriteBody::of(body)).await;
    if let Err(e) = written {
        tracing::debug!(error = %e, "an event was not written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_what_became_of_it() {
        let mut backup = Backup::default();
        backup.metadata.name = "b".into();
        backup.metadata.namespace = "velero".into();
        backup.metadata.uid = "u".into();
        backup.metadata.resource_version = "7".into();
        backup.status.phase = Some(BackupPhase::Failed);
        backup.status.failure_reason = "the bucket is gone".into();
        assert_eq!(
            event(&backup, "pod-1", Timestamp::UNIX_EPOCH),
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "b.", "namespace": "velero"},
                "involvedObject": {"apiVersion": "velero.io/v1", "kind": "Backup", "namespace": "velero", "name": "b",
                    "uid": "u", "resourceVersion": "7"},
                "type": "Warning", "reason": "Failed", "message": "the bucket is gone",
                "firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": "1970-01-01T00:00:00Z", "count": 1,
                "source": {"component": "lifeboat-server", "host": "pod-1"},
            })
        );
        let told = of_loss(event(&backup, "pod-1", Timestamp::UNIX_EPOCH), "has 0 objects");
        assert_eq!(
            (&told["type"], &told["message"]),
            (&json!("Warning"), &json!("the bucket is gone; it has 0 objects"))
        );
        let message = |backup: &Backup| event(backup, "", Timestamp::UNIX_EPOCH)["message"].clone();
        backup.status.failure_reason = "é".repeat(600);
        assert_eq!(message(&backup), format!("{}…", "é".repeat(500)));
        backup.status.phase = Some(BackupPhase::InProgress);
        assert_eq!(message(&backup), "b is in phase InProgress");
        backup.status.phase = Some(BackupPhase::Queued);
        backup.status.queue_position = 3;
        assert_eq!(message(&backup), "at position 3");
    }
}
