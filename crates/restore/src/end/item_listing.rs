//! The resource list of a restore, written from the rows of the archive: names are not kept twice.

use crate::end::outcome::ObjectsOutcome;
use crate::state::item_result::{HandledItem, ItemResult};
use lifeboat_api::RestoreSpec;
use serde::ser::{Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Objects by `<apiVersion>/<Kind>`, each type in the order of its texts.
#[derive(Debug, Default)]
pub(crate) struct ItemListing<'a>(BTreeMap<String, ItemNames<'a>>);

#[derive(Debug, Default)]
struct ItemNames<'a>(Vec<Name<'a>>);

/// An object, its namespace and name in the cluster, and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
    action: ItemResult,
}

impl<'a> ItemListing<'a> {
    /// Everything that a restore lists.
    pub(crate) fn of(walked: &'a ObjectsOutcome, spec: &'a RestoreSpec) -> Self {
        let mut out = Self::default();
        for (name, action) in &walked.namespaces {
            out.names("v1", "Namespace").push(Name { namespace: None, name, action: *action });
        }
        for ((api_version, kind), key, action) in &walked.removed {
            let name = Name { namespace: key.namespace.as_deref(), name: &key.name, action: *action };
            out.names(api_version, kind).push(name);
        }
        let target = |name: &'a str| spec.namespace_mapping.get(name).map_or(name, String::as_str);
        let rows = || walked.done.iter().filter_map(|one| Some((walked.archive.row(one.row)?, one)));
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (row, _) in rows() {
            *counts.entry(walked.kinds.of(row).unwrap_or_default()).or_default() += 1;
        }
        for ((api_version, kind), count) in counts {
            // Growing would take twice the memory for a moment.
            out.names(api_version, kind).reserve_exact(count);
        }
        for (row, HandledItem { row: number, action }) in rows() {
            let name = walked.renamed.get(number).map_or(&*row.name, String::as_str);
            let name = Name { namespace: row.namespace().map(target), name, action: *action };
            let (api_version, kind) = walked.kinds.of(row).unwrap_or_default();
            out.names(api_version, kind).push(name);
        }
        for names in out.0.values_mut() {
            names.0.sort_unstable_by(Name::compare);
            // Two namespaces may have become one.
            names.0.dedup();
        }
        out
    }

    fn names(&mut self, api_version: &str, kind: &str) -> &mut Vec<Name<'a>> {
        &mut self.0.entry(format!("{api_version}/{kind}")).or_default().0
    }

    /// Counts the objects that it names, by their outcome.
    pub(crate) fn count(&self) -> BTreeMap<ItemResult, u64> {
        let mut out = BTreeMap::new();
        for name in self.0.values().flat_map(|names| &names.0) {
            let action = if name.action == ItemResult::Differs { ItemResult::Failed } else { name.action };
            *out.entry(action).or_default() += 1;
        }
        out
    }

    /// The number of objects that it names.
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(|names| names.0.len()).sum()
    }
}

impl Name<'_> {
    /// The order of the texts.
    fn compare(&self, other: &Self) -> Ordering {
        let by_namespace = compare_common(self.namespace.unwrap_or_default(), other.namespace.unwrap_or_default());
        let by_name = || match self.namespace == other.namespace {
            true => compare_common(self.name, other.name),
            false => Ordering::Equal,
        };
        // Byte by byte only where one part begins with the other one: that is many times slower.
        by_namespace.then_with(by_name).then_with(|| self.text().cmp(other.text()))
    }

    /// The bytes of `namespace/name(action)`.
    fn text(&self) -> impl Iterator<Item = u8> {
        let namespace = self.namespace.into_iter().flat_map(|namespace| [namespace, "/"]);
        let parts = namespace.chain([self.name, "(", self.action.word(), ")"]);
        parts.flat_map(str::bytes)
    }
}

/// The order of two texts as far as both go.
fn compare_common(a: &str, b: &str) -> Ordering {
    let length = a.len().min(b.len());
    a.as_bytes()[..length].cmp(&b.as_bytes()[..length])
}

impl Serialize for ItemListing<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl Serialize for ItemNames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.0.iter().map(|name| String::from_utf8_lossy(&name.text().collect::<Vec<u8>>()).into_owned()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn names_are_in_the_order_of_their_texts() {
        let name = |namespace, name| Name { namespace, name, action: ItemResult::Created };
        let mut names =
            ItemNames(vec![name(Some("b"), "x"), name(None, "b"), name(Some("a-b"), "x"), name(Some("a"), "y")]);
        names.0.sort_by(Name::compare);
        let listed = ItemListing(BTreeMap::from([("v1/Pod".to_owned(), names)]));
        let expected = ["a-b/x(created)", "a/y(created)", "b(created)", "b/x(created)"];
        assert_eq!(serde_json::to_value(&listed).unwrap(), json!({"v1/Pod": expected}));
        assert_eq!((listed.len(), listed.count()), (4, BTreeMap::from([(ItemResult::Created, 4)])));
    }

    proptest! {
        #[test]
        fn two_names_compare_as_their_texts(
            namespaces in [option::of("[a/(-]{0,3}"), option::of("[a/(-]{0,3}")],
            names in ["[a/(-]{0,3}", "[a/(-]{0,3}"],
            failed in [any::<bool>(), any::<bool>()],
        ) {
            let name = |n: usize| Name {
                namespace: namespaces[n].as_deref(),
                name: &names[n],
                action: if failed[n] { ItemResult::Failed } else { ItemResult::Created },
            };
            let (a, b) = (name(0), name(1));
            prop_assert_eq!(a.compare(&b), a.text().cmp(b.text()));
        }
    }
}
