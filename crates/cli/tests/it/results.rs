//! The objects that the warnings and errors of a restore name.

use lifeboat_testbed::Kubectl;
use serde_json::Value;
use std::collections::BTreeMap;

/// Kinds by plural name, with and without the group.
pub(crate) type Kinds = BTreeMap<String, String>;

/// The kinds that a cluster serves.
pub(crate) fn kinds(kubectl: &Kubectl) -> Kinds {
    let table = kubectl.printed(&["api-resources", "--no-headers"]).expect("types");
    let columns = |line: &str| {
        let columns: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Some((columns.first()?.clone(), columns.last()?.clone()))
    };
    table.lines().filter_map(columns).collect()
}

/// The messages, a line each: `warning NAMESPACE KIND NAME`, sorted. A message that names no object stands as it is.
pub(crate) fn named(results: &Value, kinds: &Kinds) -> Vec<String> {
    let mut out = Vec::new();
    for (severity, set) in [("warning", &results["warnings"]), ("error", &results["errors"])] {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut places = vec![("velero", list(&set["velero"])), ("cluster", list(&set["cluster"]))];
        let namespaces = set["namespaces"].as_object();
        places.extend(namespaces.into_iter().flatten().map(|(name, messages)| (name.as_str(), list(messages))));
        for (place, messages) in places {
            for message in messages.iter().filter_map(Value::as_str) {
                let subject = subject(message, kinds).unwrap_or_else(|| message.to_owned());
                out.push(format!("{severity} {place} {subject}"));
            }
        }
    }
    // The names of pods of Jobs are chance.
    out.retain(|line| !line.contains("because the Job has not ended and makes its pods anew"));
    out.sort();
    out
}

/// The object of a message, in the forms that Velero and the API server have for it.
fn subject(message: &str, kinds: &Kinds) -> Option<String> {
    if let Some(rest) = message.strip_prefix("could not restore, ") {
        // Kind:name or Kind "name".
        let subject = rest.split_once(" already exists")?.0;
        let (kind, name) = match subject.strip_suffix('"') {
            Some(quoted) => quoted.split_once(" \"")?,
            None => subject.split_once(':')?,
        };
        return Some(format!("{kind} {name}"));
    }
    for (prefix, end) in [("error restoring ", ": "), ("could not update ", " to match the backup: ")] {
        if let Some(rest) = message.strip_prefix(prefix) {
            let (resource, rest) = rest.split(end).next()?.split_once('/')?;
            return Some(format!("{} {}", kind_of(resource, kinds)?, rest.rsplit('/').next()?));
        }
    }
    // Job.batch "once" is invalid, pods "web" not found.
    let (kind, rest) = message.split_once(" \"")?;
    let name = rest.split_once('"')?.0;
    let kind = kind_of(kind, kinds).unwrap_or_else(|| kind.split('.').next().unwrap_or(kind).to_owned());
    (!kind.contains(' ')).then(|| format!("{kind} {name}"))
}

/// The kind of a plural name.
fn kind_of(resource: &str, kinds: &Kinds) -> Option<String> {
    kinds.get(resource.split('.').next()?).cloned()
}

#[test]
fn messages_name_their_objects() {
    let kinds = Kinds::from([("services".to_owned(), "Service".to_owned()), ("pods".to_owned(), "Pod".to_owned())]);
    for (message, expected) in [
        ("could not restore, ConfigMap:a.b already exists. Warning: x", Some("ConfigMap a.b")),
        ("could not restore, ClusterRole:a:b already exists. Warning: x", Some("ClusterRole a:b")),
        ("could not restore, ConfigMap \"a\" already exists. Warning: x", Some("ConfigMap a")),
        ("could not restore, Role \"a:b c\" already exists. Warning: x", Some("Role a:b c")),
        ("error restoring services/n/a: Service \"a\" is invalid", Some("Service a")),
        ("error restoring services/a:b c: no", Some("Service a:b c")),
        ("could not update pods/n/a to match the backup: no", Some("Pod a")),
        ("Job.batch \"once\" is invalid: x", Some("Job once")),
        ("pods \"a\" not found", Some("Pod a")),
        ("nothing of the kind", None),
    ] {
        assert_eq!(subject(message, &kinds).as_deref(), expected, "{message}");
    }
}
