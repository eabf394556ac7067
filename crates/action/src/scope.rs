//! The objects that an action is called for.

/// The objects an action wants to see. Empty lists do not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionScope {
    /// Types, as names that discovery resolves (`pods`, `deployments.apps`).
    pub included_resources: Vec<String>,
    /// Types to leave out.
    pub excluded_resources: Vec<String>,
    /// Namespaces; an action limited to namespaces never sees cluster-scoped objects.
    pub included_namespaces: Vec<String>,
    /// Namespaces to leave out.
    pub excluded_namespaces: Vec<String>,
    /// A label selector in kubectl's syntax; empty for all.
    pub label_selector: String,
}

impl ActionScope {
    /// All objects of these types.
    #[must_use]
    pub fn resources(names: &[&str]) -> Self {
        Self { included_resources: names.iter().map(|n| (*n).to_owned()).collect(), ..Self::default() }
    }
}
