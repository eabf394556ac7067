//! Matches the pods that an entry in the spec of a backup or restore is for.

use lifeboat_api::LabelSelector;
use lifeboat_select::{IncludesExcludes, Selector};
use std::collections::BTreeMap;

/// Tells pods by their namespace and their labels.
#[derive(Clone, Debug)]
pub(crate) struct PodMatcher {
    namespaces: IncludesExcludes,
    selector: Option<Selector>,
}

impl PodMatcher {
    /// Creates the matcher of the entry of this name, with lists of namespaces and a selector.
    ///
    /// # Errors
    /// A message that says what is wrong with the selector.
    pub(crate) fn new(
        entry: &str,
        [included, excluded]: [&[String]; 2],
        selector: Option<&LabelSelector>,
    ) -> Result<Self, String> {
        let selector = selector.map(Selector::compile).transpose();
        let selector = selector.map_err(|problem| format!("hook {entry:?}: invalid label selector: {problem}"))?;
        Ok(Self { namespaces: IncludesExcludes::new(included, excluded), selector })
    }

    /// Returns true if the entry is for pods of this namespace with these labels.
    pub(crate) fn matches(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespaces.includes(namespace) && self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }
}
