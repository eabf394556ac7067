//! Label selectors as resources hold them.

use crate::schema::object;
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
