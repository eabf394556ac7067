//! Describes how an object in the cluster differs from the one that was asked for. Pure.
//!
//! It compares only the fields that were asked for: the API server adds defaults, and an apply leaves alone what other
//! managers have added. So no difference means that `--apply` would change nothing of weight.

use serde_json::Value;

const DEFINITION: &str = "CustomResourceDefinition";
/// Longer values are not shown.
const LONGEST: usize = 120;
/// More differences of one object are only counted.
const MOST: usize = 4;
/// The differences that a reader looks for first.
const FIRST: [&str; 3] = ["image", "args", "roleRef.name"];

/// An object that was there and was left as it is, though it differs from the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferingObject {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, when it is in one.
    pub namespace: Option<String>,
    /// The differences, each in words.
    pub differences: Vec<String>,
}

/// Describes the objects that were left as they are, one line for each and one for all definitions. `program` is the name by
/// which the binary was called.
#[must_use]
pub fn describe_left(program: &str, all: &[DifferingObject]) -> Vec<String> {
    let (definitions, rest): (Vec<_>, Vec<_>) = all.iter().partition(|left| left.kind == DEFINITION);
    let mut out = Vec::new();
    if !definitions.is_empty() {
        let names: Vec<&str> = definitions.iter().map(|left| left.name.as_str()).collect();
        out.push(format!(
            "the definitions {} are not those of this version and were left as they are, so that the cluster may not \
             know all fields: `{program} install --crds-only --apply` brings them up to date",
            names.join(", ")
        ));
    }
    for DifferingObject { kind, name, namespace, differences } in rest {
        let more = differences.len().saturating_sub(MOST);
        let mut shown = differences[..differences.len() - more].join("; ");
        if more > 0 {
            shown.push_str(&format!("; and {more} more"));
        }
        let remedy = match (is_fixed(differences), namespace) {
            (true, Some(namespace)) => format!(
                "that cannot be changed, so delete it (kubectl delete {} {name} -n {namespace}) and run the command again",
                kind.to_lowercase()
            ),
            _ => "--apply brings it up to date".to_owned(),
        };
        out.push(format!("{kind} {name} was there and was left as it is: {shown}; {remedy}"));
    }
    out
}

/// Returns true if the differences touch the selector by which a workload finds its pods: the API server refuses to
/// change it.
fn is_fixed(differences: &[String]) -> bool {
    differences.iter().any(|difference| difference.trim_start_matches("no ").starts_with("selector."))
}

/// Returns true for a Deployment or DaemonSet, which finds its pods by a selector.
pub(crate) fn is_workload(object: &Value) -> bool {
    object["kind"] == "Deployment" || object["kind"] == "DaemonSet"
}

/// The reason for which an object cannot become the one that is asked for, even by an apply.
pub(crate) fn fixed(found: &Value, wanted: &Value) -> Option<String> {
    let selector = |object: &Value| serde_json::json!({"spec": {"selector": object["spec"]["selector"]}});
    let differences = if is_workload(wanted) { differences(&selector(found), &selector(wanted)) } else { Vec::new() };
    (!differences.is_empty()).then(|| differences.join("; "))
}

/// Each difference in words, those first that a reader looks for first.
pub(crate) fn differences(found: &Value, wanted: &Value) -> Vec<String> {
    let kind = |kind: &str| wanted["kind"] == kind;
    let mut walk = DifferWalk { secret: kind("Secret"), schema: kind(DEFINITION), out: Vec::new() };
    walk.compare("", found, wanted);
    walk.out.sort_by_key(|(path, _)| FIRST.iter().position(|first| first == path).unwrap_or(FIRST.len()));
    walk.out.into_iter().map(|(_, text)| text).collect()
}

struct DifferWalk {
    /// Values are not shown.
    secret: bool,
    /// Descriptions and the order of required fields do not matter.
    schema: bool,
    /// Where, and what.
    out: Vec<(String, String)>,
}

impl DifferWalk {
    fn compare(&mut self, path: &str, found: &Value, wanted: &Value) {
        match (wanted, found) {
            (wanted, Value::Null) if is_empty(wanted) => {}
            (_, Value::Null) => self.say(path, |path, _| format!("no {path}"), found, wanted),
            (Value::Object(fields), Value::Object(_)) => {
                for (key, value) in fields {
                    if self.schema && key == "description" && value.is_string() {
                        continue;
                    }
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.compare(&path, &found[key], value);
                }
            }
            (Value::Array(items), Value::Array(others)) if items.iter().all(|item| name(item).is_some()) => {
                for item in items {
                    let other = others.iter().find(|other| name(other) == name(item)).unwrap_or(&Value::Null);
                    self.compare(&format!("{path}[{}]", name(item).unwrap_or_default()), other, item);
                }
            }
            (Value::Array(items), Value::Array(others))
                if items.len() == others.len() && items.iter().all(Value::is_object) =>
            {
                for (number, (item, other)) in items.iter().zip(others).enumerate() {
                    self.compare(&format!("{path}[{number}]"), other, item);
                }
            }
            (Value::Array(items), Value::Array(others))
                if self.schema && items.len() == others.len() && items.iter().all(|item| others.contains(item)) => {}
            _ if found == wanted => {}
            _ => self.say(
                path,
                |path, values| match values {
                    Some((found, wanted)) => format!("{path} {found}, not {wanted}"),
                    None => format!("another {path}"),
                },
                found,
                wanted,
            ),
        }
    }

    fn say(
        &mut self,
        path: &str,
        words: impl FnOnce(&str, Option<(String, String)>) -> String,
        found: &Value,
        wanted: &Value,
    ) {
        let path = short(path);
        let values = if self.secret { None } else { shown(found).zip(shown(wanted)) };
        let text = words(&path, values);
        self.out.push((path, text));
    }
}

/// Returns true if it asks for nothing.
fn is_empty(wanted: &Value) -> bool {
    match wanted {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The field that tells the elements of a list apart.
fn name(item: &Value) -> Option<&str> {
    item["mountPath"].as_str().or_else(|| item["name"].as_str())
}

/// A short name of a place: the parts that every place has are left out.
fn short(path: &str) -> String {
    let path = path.strip_prefix("spec.template.").or_else(|| path.strip_prefix("spec.")).unwrap_or(path);
    let path = path.strip_prefix("spec.").unwrap_or(path);
    // A pod has one container, and it is named after the workload.
    let path = match path.strip_prefix("containers[").and_then(|rest| rest.split_once("].")) {
        Some((_, rest)) => rest,
        None => path,
    };
    for (prefix, word) in [("metadata.labels.", "label"), ("metadata.annotations.", "annotation")] {
        if let Some(rest) = path.strip_prefix(prefix) {
            return format!("{word} {rest}");
        }
    }
    path.to_owned()
}

/// A value as messages show it; `None` when it is too long.
fn shown(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            format!("[{}]", items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    };
    (text.len() <= LONGEST).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::{Credentials, Installation, ServerSettings};
    use crate::objects::{definitions, objects};
    use serde_json::json;
    use std::collections::BTreeMap;

    /// The differences that a second installation finds to the first one.
    fn left(there: &Installation, asked: &Installation) -> Vec<DifferingObject> {
        let there = objects(there);
        let same = |a: &Value, b: &Value| a["kind"] == b["kind"] && a["metadata"]["name"] == b["metadata"]["name"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let pairs = objects(asked).into_iter().filter_map(|wanted| {
            let found = there.iter().find(|found| same(found, &wanted))?;
            Some(DifferingObject {
                kind: text(&wanted["kind"])?,
                name: text(&wanted["metadata"]["name"])?,
                namespace: text(&wanted["metadata"]["namespace"]),
                differences: differences(found, &wanted),
            })
        });
        pairs.filter(|left| !left.differences.is_empty()).collect()
    }

    fn base() -> Installation {
        Installation {
            provider: "aws".into(),
            bucket: "b".into(),
            secret: Some(Credentials(b"key".to_vec())),
            storage_config: BTreeMap::from([("region".to_owned(), "x".to_owned())]),
            image: "a:1".into(),
            ..Installation::default()
        }
    }

    #[test]
    fn what_was_left_is_told() {
        let more = Installation {
            pod_labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            plugins: vec!["p:1".into()],
            node_agent: true,
            least_privilege: true,
            ..base()
        };
        let other = Installation {
            image: "a:2".into(),
            storage_config: BTreeMap::from([("region".to_owned(), "y".to_owned())]),
            prefix: Some("p".into()),
            replicas: 2,
            server: ServerSettings { restore_only: true, ..ServerSettings::default() },
            ..base()
        };
        for (there, asked, expected) in [
            (base(), base(), vec![]),
            // What is there beyond what is asked for does not count.
            (
                more,
                base(),
                vec![
                    "ClusterRoleBinding velero was there and was left as it is: roleRef.name velero, not cluster-admin; \
                     --apply brings it up to date",
                ],
            ),
            (
                base(),
                other,
                vec![
                    "BackupStorageLocation default was there and was left as it is: config.region x, not y; no \
                     objectStorage.prefix; --apply brings it up to date",
                    "Deployment velero was there and was left as it is: image a:1, not a:2; args [server --features= \
                     --uploader-type=kopia], not [server --features= --uploader-type=kopia --restore-only]; no replicas; \
                     strategy.type Recreate, not RollingUpdate; and 1 more; --apply brings it up to date",
                ],
            ),
        ] {
            assert_eq!(describe_left("lifeboat", &left(&there, &asked)), expected, "{there:?} and then {asked:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = |data: Value| json!({"kind": "Secret", "metadata": {"name": "s"}, "data": data});
        let wanted = secret(json!({"cloud": "bmV3"}));
        assert_eq!(differences(&secret(json!({"cloud": "b2xk"})), &wanted), ["another data.cloud"]);
        assert_eq!(differences(&secret(json!({"other": "b2xk"})), &wanted), ["no data.cloud"]);
        assert_eq!(differences(&secret(json!({"cloud": "bmV3", "other": "b2xk"})), &wanted), [""; 0]);
    }

    #[test]
    fn definitions_are_told_together() {
        let mut older = definitions();
        // The same in other words, in another order.
        let schema = &mut older[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        schema["description"] = json!("words");
        schema["required"].as_array_mut().unwrap().reverse();
        for definition in &mut older[1..3] {
            let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            let fields = schema["properties"].as_object_mut().unwrap();
            let first = fields.keys().next().unwrap().clone();
            fields.remove(&first);
        }
        let left: Vec<DifferingObject> = definitions()
            .iter()
            .zip(&older)
            .map(|(wanted, found)| DifferingObject {
                kind: DEFINITION.to_owned(),
                name: wanted["metadata"]["name"].as_str().unwrap().to_owned(),
                namespace: None,
                differences: differences(found, wanted),
            })
            .filter(|left| !left.differences.is_empty())
            .collect();
        assert_eq!(
            describe_left("velero", &left),
            ["the definitions backups.velero.io, backupstoragelocations.velero.io are not those of this version and \
              were left as they are, so that the cluster may not know all fields: `velero install --crds-only --apply` \
              brings them up to date"]
        );
    }

    /// The Deployment as Velero's Helm chart writes it.
    #[test]
    fn what_cannot_be_changed_is_told() {
        let wanted = objects(&base()).into_iter().find(|object| object["kind"] == "Deployment").unwrap();
        let mut found = wanted.clone();
        assert_eq!(fixed(&found, &wanted), None);
        found["spec"]["selector"]["matchLabels"]["more"] = json!("yes");
        assert_eq!(fixed(&found, &wanted), None);
        found["spec"]["selector"]["matchLabels"] = json!({"app.kubernetes.io/name": "velero"});
        assert_eq!(fixed(&found, &wanted).as_deref(), Some("no selector.matchLabels.deploy"));
        let differences = differences(&found, &wanted);
        let left = DifferingObject {
            kind: "Deployment".into(),
            name: "velero".into(),
            namespace: Some("n".into()),
            differences,
        };
        assert_eq!(
            describe_left("velero", &[left]),
            ["Deployment velero was there and was left as it is: no selector.matchLabels.deploy; that cannot be \
              changed, so delete it (kubectl delete deployment velero -n n) and run the command again"]
        );
        assert_eq!(fixed(&json!({}), &json!({"kind": "Secret", "spec": {"selector": {"a": "b"}}})), None);
    }

    #[test]
    fn values_are_compared_as_they_are_meant() {
        for (found, wanted, expected) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1, "c": {}, "d": {"e": {}}, "f": null, "g": []}), vec![]),
            (json!([{"name": "x", "v": 1}, {"name": "y", "v": 2}]), json!([{"name": "y", "v": 2}]), vec![]),
            (json!({"e": [{"name": "x", "v": 1}]}), json!({"e": [{"name": "y"}]}), vec!["no e[y]"]),
            (json!({"e": [{"a": 1, "b": 1}]}), json!({"e": [{"a": 2}]}), vec!["e[0].a 1, not 2"]),
            (
                json!({"e": [{"a": 1}]}),
                json!({"e": [{"a": 1}, {"a": 2}]}),
                vec![r#"e [{"a":1}], not [{"a":1},{"a":2}]"#],
            ),
            (json!({"e": ["x"]}), json!({"e": ["x", "y"]}), vec!["e [x], not [x y]"]),
            (json!({"e": "x".repeat(200)}), json!({"e": "y"}), vec!["another e"]),
            (json!({"e": true}), json!({"e": {"a": 1}}), vec![r#"e true, not {"a":1}"#]),
        ] {
            assert_eq!(differences(&found, &wanted), expected, "{found} {wanted}");
        }
    }
}
