//! The small values of the protocol as ours (velero: pkg/plugin/proto).

use jiff::Timestamp;
use lifeboat_action::{ActionScope, OperationProgress};
use lifeboat_object::{GroupResource, ObjectKey};
use lifeboat_plugin_proto::{NO_TIME_SECONDS, generated};

/// The scope of an action; without a selector it is all objects.
pub(crate) fn scope(selector: Option<generated::ResourceSelector>) -> ActionScope {
    let selector = selector.unwrap_or_default();
    ActionScope {
        included_resources: selector.included_resources,
        excluded_resources: selector.excluded_resources,
        included_namespaces: selector.included_namespaces,
        excluded_namespaces: selector.excluded_namespaces,
        label_selector: selector.selector,
    }
}

/// The objects that a plugin names.
pub(crate) fn keys(items: Vec<generated::ResourceIdentifier>) -> Vec<ObjectKey> {
    let key = |item: generated::ResourceIdentifier| ObjectKey {
        resource: GroupResource { group: item.group, resource: item.resource },
        namespace: Some(item.namespace).filter(|namespace| !namespace.is_empty()),
        name: item.name,
    };
    items.into_iter().map(key).collect()
}

/// The names of objects for a plugin.
pub(crate) fn identifiers(keys: &[ObjectKey]) -> Vec<generated::ResourceIdentifier> {
    let identifier = |key: &ObjectKey| generated::ResourceIdentifier {
        group: key.resource.group.clone(),
        resource: key.resource.resource.clone(),
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
    };
    keys.iter().map(identifier).collect()
}

/// The progress of an operation; a plugin that sends none has made none yet.
pub(crate) fn progress(progress: Option<generated::OperationProgress>) -> OperationProgress {
    let progress = progress.unwrap_or_default();
    OperationProgress {
        completed: progress.completed,
        error: progress.err,
        n_completed: progress.n_completed,
        n_total: progress.n_total,
        operation_units: progress.operation_units,
        description: progress.description,
        started: progress.started.and_then(time),
        updated: progress.updated.and_then(time),
    }
}

fn time(time: prost_types::Timestamp) -> Option<Timestamp> {
    // compat: plugins send the zero time for one that they do not know.
    if time.seconds == NO_TIME_SECONDS {
        return None;
    }
    Timestamp::new(time.seconds, time.nanos).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_go_both_ways() {
        let keys_of = || {
            vec![
                ObjectKey::new(GroupResource::new("apps", "deployments"), Some("shop"), "web"),
                ObjectKey::new(GroupResource::new("", "nodes"), None, "n1"),
            ]
        };
        assert_eq!(keys(identifiers(&keys_of())), keys_of());
    }

    #[test]
    fn times_that_stand_for_none_are_none() {
        let at = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        for (seconds, nanos, expected) in [
            (NO_TIME_SECONDS, 0, None),
            (0, 0, Some(Timestamp::UNIX_EPOCH)),
            (1_782_000_000, 5, Some(Timestamp::new(1_782_000_000, 5).unwrap())),
            (i64::MAX, 0, None),
            (0, i32::MAX, None),
        ] {
            assert_eq!(time(at(seconds, nanos)), expected, "{seconds}");
        }
        let told = generated::OperationProgress {
            completed: true,
            err: "no space".to_owned(),
            n_completed: 3,
            n_total: 7,
            operation_units: "Bytes".to_owned(),
            description: "copying".to_owned(),
            started: Some(at(0, 0)),
            updated: Some(at(NO_TIME_SECONDS, 0)),
        };
        let expected = OperationProgress {
            completed: true,
            error: "no space".to_owned(),
            n_completed: 3,
            n_total: 7,
            operation_units: "Bytes".to_owned(),
            description: "copying".to_owned(),
            started: Some(Timestamp::UNIX_EPOCH),
            updated: None,
        };
        assert_eq!(progress(Some(told)), expected);
        assert_eq!(progress(None), OperationProgress::default());
    }

    #[test]
    fn a_selector_that_is_missing_restricts_nothing() {
        assert_eq!(scope(None), ActionScope::default());
        let selector = generated::ResourceSelector {
            included_namespaces: vec!["a".to_owned()],
            excluded_namespaces: vec!["b".to_owned()],
            included_resources: vec!["c".to_owned()],
            excluded_resources: vec!["d".to_owned()],
            selector: "e=f".to_owned(),
        };
        let expected = ActionScope {
            included_resources: vec!["c".to_owned()],
            excluded_resources: vec!["d".to_owned()],
            included_namespaces: vec!["a".to_owned()],
            excluded_namespaces: vec!["b".to_owned()],
            label_selector: "e=f".to_owned(),
        };
        assert_eq!(scope(Some(selector)), expected);
    }
}
