//! Objects of the backup that have the same key in the cluster, because their namespaces are mapped to the same one.
//! Pure.

use lifeboat_archive::index::Row;
use lifeboat_object::{GroupResource, ObjectKey};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Objects of the backup whose key in the cluster another object of the backup has taken, by row.
#[derive(Debug, Default)]
pub(crate) struct SameTarget(HashMap<usize, usize>);

impl SameTarget {
    /// The first row of each target gets it. Only rows of namespaces that become one with others of these take memory.
    pub(crate) fn of<'a>(
        rows: impl Iterator<Item = (usize, &'a Row)>,
        namespaces: &BTreeSet<String>,
        mapping: &BTreeMap<String, String>,
    ) -> Self {
        let target = |name: &str| mapping.get(name).map_or_else(|| name.to_owned(), String::clone);
        let mut sources: BTreeMap<String, usize> = BTreeMap::new();
        namespaces.iter().for_each(|name| *sources.entry(target(name)).or_default() += 1);
        sources.retain(|_, count| *count > 1);
        if sources.is_empty() {
            return Self::default();
        }
        let (mut first, mut out) = (HashMap::new(), HashMap::new());
        for (number, row) in rows {
            let Some(namespace) = row.namespace().map(target).filter(|name| sources.contains_key(name)) else {
                continue;
            };
            let key = ObjectKey { namespace: Some(namespace), ..row.key() };
            let first = *first.entry(key.digest()).or_insert(number);
            if first != number {
                out.insert(number, first);
            }
        }
        Self(out)
    }

    /// The row that has the place of this one; `None` when it has it itself.
    pub(crate) fn taken_by(&self, row: usize) -> Option<usize> {
        self.0.get(&row).copied()
    }

    /// Returns true if several objects of this type in the backup may become a single one: the fields of the others are
    /// added to the first.
    pub(crate) fn are_merged(resource: &GroupResource) -> bool {
        *resource == GroupResource::new("", "serviceaccounts")
    }
}

/// Explains, for people, that another object of the backup has the same key in the cluster.
pub(crate) fn taken(by: &ObjectKey) -> String {
    format!("another object of the backup becomes it: {by}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_first_of_several_objects_that_become_one_has_the_place() {
        let row = |resource: &str, namespace: &str, name: &str| Row {
            resource: Arc::new(resource.parse().unwrap()),
            version: "v1".into(),
            namespace: namespace.into(),
            name: name.into(),
            preferred: true,
            member: 0,
            offset: 0,
            length: 0,
            hash: [0; 16],
        };
        let rows = [
            row("configmaps", "a", "x"),
            row("configmaps", "b", "x"),
            row("secrets", "b", "x"),
            row("configmaps", "b", "y"),
            row("configmaps", "c", "x"),
            row("configmaps", "d", "x"),
            row("clusterroles.rbac.authorization.k8s.io", "", "x"),
        ];
        let namespaces = ["a", "b", "c", "d"].map(str::to_owned).into();
        let taken = |order: &[usize], mapping: &[(&str, &str)]| {
            let mapping = mapping.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
            let all = SameTarget::of(order.iter().map(|n| (*n, &rows[*n])), &namespaces, &mapping);
            BTreeMap::from_iter(all.0)
        };
        let all = [0, 1, 2, 3, 4, 5, 6];
        assert_eq!(taken(&all, &[]), BTreeMap::new());
        assert_eq!(taken(&all, &[("a", "b"), ("b", "a")]), BTreeMap::new(), "they change places");
        assert_eq!(taken(&all, &[("a", "b")]), BTreeMap::from([(1, 0)]));
        assert_eq!(taken(&all, &[("a", "new"), ("c", "new"), ("d", "b")]), BTreeMap::from([(4, 0), (5, 1)]));
        // What is selected comes first, and then everything.
        assert_eq!(taken(&[1, 0, 1, 2, 3], &[("a", "b")]), BTreeMap::from([(0, 1)]));
    }
}
