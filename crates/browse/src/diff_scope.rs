//! The choice of the objects that are compared. Pure.

use crate::rows::ListPosition;
use lifeboat_object::GroupResource;
use lifeboat_select::Selector;
use std::collections::BTreeSet;

/// Filters for the objects that are compared.
#[derive(Clone, Debug, Default)]
pub struct DiffScope {
    /// Objects of these namespaces, and the namespaces themselves; empty for all objects, also those without a namespace.
    pub namespaces: BTreeSet<String>,
    /// Objects of these types; empty for all types.
    pub resources: BTreeSet<GroupResource>,
    /// No objects of these types.
    pub excluded: BTreeSet<GroupResource>,
    /// Objects whose labels match on one of the two sides.
    pub selector: Selector,
}

impl DiffScope {
    pub(crate) fn has_type(&self, resource: &GroupResource) -> bool {
        (self.resources.is_empty() || self.resources.contains(resource)) && !self.excluded.contains(resource)
    }

    pub(crate) fn has_place(&self, resource: &GroupResource, ListPosition(namespace, name): ListPosition<'_>) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(if resource.is_namespaces() { name } else { namespace })
    }
}
