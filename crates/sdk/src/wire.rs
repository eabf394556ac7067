//! Arguments and results of actions as messages of the protocol (velero: pkg/plugin/proto, pkg/plugin/velero).

use crate::status;
use jiff::Timestamp;
use lifeboat_action::{ActionScope, OperationProgress};
use lifeboat_api::Resource;
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_plugin_proto::{NO_TIME_SECONDS, generated};
use prost_types::Timestamp as Stamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::time::Duration;
use tonic::Status;

/// A time that is not known.
const NO_TIME: Stamp = Stamp { seconds: NO_TIME_SECONDS, nanos: 0 };
/// The longest duration of the protocol.
const LONGEST_SECONDS: i64 = 315_576_000_000;

/// Reads an object, named by `what`.
pub(crate) fn read(what: &str, json: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(json).map_err(|why| unreadable(what, &why))
}

/// Reads a Backup or a Restore. Velero sends them without their kind and its version.
pub(crate) fn read_resource<T: DeserializeOwned + Resource>(json: &[u8]) -> Result<T, Status> {
    let read = serde_json::from_slice(json);
    let mut resource: Map<String, Value> = read.map_err(|why| unreadable(T::KIND, &why))?;
    resource.entry("kind").or_insert_with(|| T::KIND.into());
    resource.entry("apiVersion").or_insert_with(|| T::api_version().into());
    serde_json::from_value(Value::Object(resource)).map_err(|why| unreadable(T::KIND, &why))
}

fn unreadable(what: &str, why: &serde_json::Error) -> Status {
    status::odd(format!("the {what} that the server sent cannot be read: {why}"))
}

/// An object that an action has answered, as JSON. A server cannot read one without a kind.
pub(crate) fn write(item: &Value) -> Result<Vec<u8>, Status> {
    if item["kind"].as_str().is_none_or(str::is_empty) {
        return Err(status::odd("the plugin answers with what is no object: it has no kind"));
    }
    serde_json::to_vec(item)
        .map_err(|why| status::odd(format!("the object that the plugin answers with has no JSON: {why}")))
}

/// The scope of an action, as a message.
pub(crate) fn selector(scope: ActionScope) -> generated::ResourceSelector {
    generated::ResourceSelector {
        included_namespaces: scope.included_namespaces,
        excluded_namespaces: scope.excluded_namespaces,
        included_resources: scope.included_resources,
        excluded_resources: scope.excluded_resources,
        selector: scope.label_selector,
    }
}

/// Objects that an action has named.
pub(crate) fn identifiers(keys: Vec<ObjectKey>) -> Vec<generated::ResourceIdentifier> {
    let identifier = |key: ObjectKey| generated::ResourceIdentifier {
        group: key.resource.group,
        resource: key.resource.resource,
        namespace: key.namespace.unwrap_or_default(),
        name: key.name,
    };
    keys.into_iter().map(identifier).collect()
}

/// Objects that a server names.
pub(crate) fn keys(identifiers: Vec<generated::ResourceIdentifier>) -> Vec<ObjectKey> {
    let key = |identifier: generated::ResourceIdentifier| ObjectKey {
        resource: GroupResource::new(identifier.group, identifier.resource),
        namespace: Some(identifier.namespace).filter(|namespace| !namespace.is_empty()),
        name: identifier.name,
    };
    identifiers.into_iter().map(key).collect()
}

/// The progress of an operation.
pub(crate) fn progress(progress: OperationProgress) -> generated::OperationProgress {
    generated::OperationProgress {
        completed: progress.completed,
        err: progress.error,
        n_completed: progress.n_completed,
        n_total: progress.n_total,
        operation_units: progress.operation_units,
        description: progress.description,
        started: Some(progress.started.map_or(NO_TIME, stamp)),
        updated: Some(progress.updated.map_or(NO_TIME, stamp)),
    }
}

fn stamp(time: Timestamp) -> Stamp {
    // The nanoseconds of a time before 1970 count forward too.
    let seconds = time.as_nanosecond().div_euclid(1_000_000_000);
    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
    Stamp { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: i32::try_from(nanos).unwrap_or_default() }
}

/// A duration; one that the protocol cannot hold is the longest that it can.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    if seconds >= LONGEST_SECONDS {
        return prost_types::Duration { seconds: LONGEST_SECONDS, nanos: 0 };
    }
    prost_types::Duration { seconds, nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{Backup, ObjectMeta};
    use serde_json::json;

    #[test]
    fn an_object_keeps_its_numbers() {
        let json = br#"{"a":1.0,"b":9223372036854775807,"c":18446744073709551615,"d":0.1,"kind":"X"}"#;
        let item = read("object", json).unwrap();
        assert_eq!(write(&item).unwrap(), json);
    }

    #[test]
    fn a_backup_needs_neither_a_kind_nor_its_version() {
        let backup: Backup =
            read_resource(br#"{"metadata":{"name":"b","creationTimestamp":null},"spec":{"ttl":"1h0m0s"}}"#).unwrap();
        let mut expected =
            Backup { metadata: ObjectMeta { name: "b".to_owned(), ..Default::default() }, ..Default::default() };
        expected.spec.ttl = "1h0m0s".parse().unwrap();
        assert_eq!(backup, expected);
        let error = read_resource::<Backup>(br#"{"spec":{"ttl":7}}"#).unwrap_err();
        assert!(error.message().starts_with("the Backup that the server sent cannot be read: "), "{error}");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let error = read("object", b"").unwrap_err();
        let expected = "the object that the server sent cannot be read: EOF while parsing a value at line 1 column 0";
        assert_eq!(error.message(), expected);
        for item in [Value::Null, json!({}), json!({"kind": ""}), json!({"kind": 7}), json!([])] {
            assert_eq!(
                write(&item).unwrap_err().message(),
                "the plugin answers with what is no object: it has no kind"
            );
        }
    }

    #[test]
    fn names_of_objects_come_back() {
        let all = vec![
            ObjectKey::new(GroupResource::new("apps", "deployments"), Some("shop"), "web"),
            ObjectKey::new(GroupResource::new("", "nodes"), None, "n1"),
        ];
        assert_eq!(keys(identifiers(all.clone())), all);
    }

    #[test]
    fn a_time_that_is_not_known_is_gos_first_one() {
        let stamps = |progress: generated::OperationProgress| [progress.started, progress.updated].map(Option::unwrap);
        assert_eq!(stamps(progress(OperationProgress::default())), [NO_TIME, NO_TIME]);
        let started = "1969-12-31T23:59:59.75Z".parse().ok();
        let known = OperationProgress { started, updated: "2026-11-22T12:00:00.5Z".parse().ok(), ..Default::default() };
        let expected =
            [Stamp { seconds: -1, nanos: 750_000_000 }, Stamp { seconds: 1_795_348_800, nanos: 500_000_000 }];
        assert_eq!(stamps(progress(known)), expected);
    }

    #[test]
    fn durations_are_what_they_were() {
        let of = |d| (duration(d).seconds, duration(d).nanos);
        assert_eq!(of(Duration::ZERO), (0, 0));
        assert_eq!(of(Duration::from_millis(1500)), (1, 500_000_000));
        assert_eq!(of(Duration::MAX), (LONGEST_SECONDS, 0));
    }
}
