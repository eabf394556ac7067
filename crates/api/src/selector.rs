//! Label selectors as resources hold them.

use crate::schema::object;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

object! {
    /// A selector of labels: all parts must match; an empty selector matches everything.
    #[derive(Eq)]
    pub struct LabelSelector (atomic) {
        /// Labels with these values.
        match_labels: BTreeMap<String, String> = "matchLabels";
        /// Further requirements.
        match_expressions: Vec<LabelSelectorRequirement> = "matchExpressions" atomic;
    }
}

object! {
    /// A single requirement of a selector.
    #[derive(Eq)]
    pub struct LabelSelectorRequirement {
        /// Label key.
        key: String = "key" required;
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        operator: String = "operator" required;
        /// Values of `In` and `NotIn`.
        values: Vec<String> = "values" atomic;
    }
}

impl LabelSelector {
    /// The same requirements in the form of a node affinity's `matchExpressions`.
    #[must_use]
    pub fn node_requirements(&self) -> Vec<Value> {
        let labels = self.match_labels.iter();
        let labels = labels.map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}));
        let expressions = self.match_expressions.iter().map(|expression| {
            let mut requirement = Map::from_iter([
                ("key".to_owned(), json!(expression.key)),
                ("operator".to_owned(), json!(expression.operator)),
            ]);
            if !expression.values.is_empty() {
                requirement.insert("values".to_owned(), json!(expression.values));
            }
            Value::Object(requirement)
        });
        labels.chain(expressions).collect()
    }
}
