//! Label and field selectors of the query string. The label part moves to the room `select` when that has a parser.

use crate::StoredObject;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a request selects: all objects by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

/// The selector cannot be parsed, or asks for a field that cannot be selected by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Not the grammar of label selectors.
    #[error("unable to parse requirement {0:?}")]
    Requirement(String),
    /// Not `path=value` or `path!=value`.
    #[error("invalid field selector {0:?}")]
    FieldSyntax(String),
    /// The type cannot be selected by this field.
    #[error("field label not supported: {0}")]
    Field(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

/// Fields beside the name and namespace that the real server selects by and clients ask for.
const FIELDS: [(&str, &[&str]); 6] = [
    (
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("namespaces", &["status.phase"]),
    ("nodes", &["spec.unschedulable"]),
    ("secrets", &["type"]),
    ("jobs", &["status.successful"]),
];

impl Selector {
    /// Parses `labelSelector` and `fieldSelector` of a request for objects of `resource`; empty texts select all.
    ///
    /// # Errors
    /// [`SelectorError`].
    pub fn parse(resource: &str, labels: &str, fields: &str) -> Result<Self, SelectorError> {
        Ok(Self { labels: parse_labels(labels)?, fields: parse_fields(resource, fields)? })
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The only name that can match, if the selector asks for one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.fields.iter().find(|f| f.equal && f.path == "metadata.name").map(|f| f.value.as_str())
    }

    /// Whether the object is selected. Reads the body only for fields other than name and namespace.
    #[must_use]
    pub fn matches(&self, object: &StoredObject) -> bool {
        self.labels.iter().all(|r| r.matches(&object.labels)) && self.matches_fields(object)
    }

    fn matches_fields(&self, object: &StoredObject) -> bool {
        let mut body: Option<Value> = None;
        self.fields.iter().all(|f| {
            let is_equal = match f.path.as_str() {
                "metadata.name" => object.key.name == f.value,
                "metadata.namespace" => object.key.namespace.as_deref().unwrap_or_default() == f.value,
                path => field_text(body.get_or_insert_with(|| object.value()), path) == f.value,
            };
            is_equal == f.equal
        })
    }
}

fn field_text(body: &Value, path: &str) -> String {
    let pointer = format!("/{}", path.replace('.', "/"));
    match body.pointer(&pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(_) | Value::Number(_)) => body.pointer(&pointer).map(Value::to_string).unwrap_or_default(),
        _ if path == "spec.unschedulable" || path == "spec.hostNetwork" => "false".to_owned(),
        _ => String::new(),
    }
}

impl Requirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|v| values.contains(v)),
            Test::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Test::Above(bound) => number(value).is_some_and(|n| n > *bound),
            Test::Below(bound) => number(value).is_some_and(|n| n < *bound),
        }
    }
}

fn number(value: Option<&String>) -> Option<i64> {
    value?.parse().ok()
}

fn parse_fields(resource: &str, text: &str) -> Result<Vec<FieldRequirement>, SelectorError> {
    let extra = FIELDS.iter().find(|(r, _)| *r == resource).map(|(_, f)| *f).unwrap_or_default();
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (path, value, equal) = part
                .split_once("!=")
                .map(|(p, v)| (p, v, false))
                .or_else(|| part.split_once("==").map(|(p, v)| (p, v, true)))
                .or_else(|| part.split_once('=').map(|(p, v)| (p, v, true)))
                .ok_or_else(|| SelectorError::FieldSyntax(part.to_owned()))?;
            if !["metadata.name", "metadata.namespace"].contains(&path) && !extra.contains(&path) {
                return Err(SelectorError::Field(path.to_owned()));
            }
            Ok(FieldRequirement { path: path.to_owned(), value: value.to_owned(), equal })
        })
        .collect()
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    split_outside_parentheses(text).into_iter().map(parse_requirement).collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_requirement(text: &str) -> Result<Requirement, SelectorError> {
    let wrong = || SelectorError::Requirement(text.to_owned());
    let text = text.trim();
    let made = |key: &str, test: Test| {
        let key = key.trim();
        if is_key(key) { Ok(Requirement { key: key.to_owned(), test }) } else { Err(wrong()) }
    };
    if let Some(key) = text.strip_prefix('!') {
        return made(key, Test::Absent);
    }
    if let Some(open) = text.find('(') {
        let list = text[open + 1..].strip_suffix(')').ok_or_else(wrong)?;
        let values = list.split(',').map(|v| label_value(v).ok_or_else(wrong)).collect::<Result<Vec<_>, _>>()?;
        let words: Vec<&str> = text[..open].split_whitespace().collect();
        return match words.as_slice() {
            [key, "in"] => made(key, Test::In(values)),
            [key, "notin"] => made(key, Test::NotIn(values)),
            _ => Err(wrong()),
        };
    }
    let value = |v: &str| label_value(v).ok_or_else(wrong);
    if let Some((key, v)) = text.split_once("!=") {
        return made(key, Test::NotIn(vec![value(v)?]));
    }
    if let Some((key, v)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return made(key, Test::In(vec![value(v)?]));
    }
    if let Some((key, v)) = text.split_once('>') {
        return made(key, Test::Above(v.trim().parse().map_err(|_| wrong())?));
    }
    if let Some((key, v)) = text.split_once('<') {
        return made(key, Test::Below(v.trim().parse().map_err(|_| wrong())?));
    }
    made(text, Test::Exists)
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
}

fn label_value(text: &str) -> Option<String> {
    let text = text.trim();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (plain && text.len() <= 63).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::{GroupResource, ObjectKey};
    use proptest::prelude::*;
    use serde_json::json;

    fn object() -> StoredObject {
        let key = ObjectKey::new(GroupResource::new("", "pods"), Some("shop"), "web-0");
        let body = json!({"metadata": {"labels": {"app": "web", "tier": "front", "n": "5", "empty": ""}},
                          "status": {"phase": "Running"}});
        StoredObject::new(key, 1, &body)
    }

    #[test]
    fn label_selectors() {
        for (text, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app=web", true),
            ("app==web,tier = front", true),
            ("app=web,tier=back", false),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (a, web)", true),
            ("app in (a,b)", false),
            ("app notin (a,b),tier", true),
            ("other notin (a)", true),
            ("app notin (web)", false),
            ("n>4", true),
            ("n>5", false),
            ("n<6", true),
            ("app>1", false),
            ("empty=", true),
            ("empty in ()", true),
        ] {
            let selector = Selector::parse("pods", text, "").unwrap();
            assert_eq!(selector.matches(&object()), expected, "{text}");
        }
        for wrong in ["=x", "a in b", "a in (b", "a b", "a,,b", "a=b c", "a>x", "!", "a=$"] {
            assert!(Selector::parse("pods", wrong, "").is_err(), "{wrong}");
        }
    }

    #[test]
    fn field_selectors() {
        for (text, expected) in [
            ("metadata.name=web-0", true),
            ("metadata.name==web-1", false),
            ("metadata.name!=web-1,metadata.namespace=shop", true),
            ("status.phase=Running", true),
            ("status.phase!=Running", false),
            ("spec.nodeName=", true),
            ("spec.hostNetwork=false", true),
        ] {
            let selector = Selector::parse("pods", "", text).unwrap();
            assert_eq!(selector.matches(&object()), expected, "{text}");
        }
        assert_eq!(
            Selector::parse("configmaps", "", "status.phase=x"),
            Err(SelectorError::Field("status.phase".into()))
        );
        assert_eq!(Selector::parse("pods", "", "x"), Err(SelectorError::FieldSyntax("x".into())));
    }

    proptest! {
        #[test]
        fn no_text_panics(labels in "[a-z(),=!<> 0-9é]{0,24}", fields in "[a-z.,=!é]{0,24}") {
            let _ = Selector::parse("pods", &labels, &fields).map(|s| s.matches(&object()));
        }
    }
}
