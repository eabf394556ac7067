//! Label and field selectors of the query string.

use crate::store::stored::StoredObject;
use lifeboat_select::Selector as LabelSelector;
use serde_json::Value;

/// Label and field selector of a request: all objects by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    labels: LabelSelector,
    fields: Vec<FieldRequirement>,
}

/// The selector cannot be parsed, or asks for a field that cannot be selected by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Not the grammar of label selectors.
    #[error(transparent)]
    Labels(#[from] lifeboat_select::SelectorError),
    /// Not `path=value` or `path!=value`.
    #[error("invalid field selector {0:?}")]
    FieldSyntax(String),
    /// The type cannot be selected by this field.
    #[error("field label not supported: {0}")]
    Field(String),
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
        Ok(Self { labels: LabelSelector::parse(labels)?, fields: parse_fields(resource, fields)? })
    }

    /// Returns true if everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }

    /// The only name that can match, if the selector asks for one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.fields.iter().find(|f| f.equal && f.path == "metadata.name").map(|f| f.value.as_str())
    }

    /// Returns true if the object is selected. Reads the body only for fields other than name and namespace.
    #[must_use]
    pub fn matches(&self, object: &StoredObject) -> bool {
        self.labels.matches(&object.labels) && self.matches_fields(object)
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
