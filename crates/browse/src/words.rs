//! The words by which users name types.

use lifeboat_object::{ApiResource, GroupResource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Those of the types that a word names, as kubectl takes it: plural, singular, short name or kind, also with the group after a dot.
pub(crate) fn named<'a>(word: &str, types: impl Iterator<Item = &'a Arc<ApiResource>>) -> Vec<GroupResource> {
    named_types(word, types).into_keys().collect()
}

/// The same, each with whether its objects live in namespaces.
pub(crate) fn named_types<'a>(
    word: &str,
    types: impl Iterator<Item = &'a Arc<ApiResource>>,
) -> BTreeMap<GroupResource, bool> {
    let word = word.to_lowercase();
    let (name, group) = parts(&word);
    let names = |r: &&Arc<ApiResource>| {
        let is_name = r.resource == name || r.singular == name || r.kind.to_lowercase() == name;
        (is_name || r.short_names.iter().any(|short| short == name)) && group.is_none_or(|group| r.group == group)
    };
    types.filter(names).map(|r| (r.group_resource(), r.namespaced)).collect()
}

/// A word without its group, and the group.
pub(crate) fn parts(word: &str) -> (&str, Option<&str>) {
    word.split_once('.').map_or((word, None), |(name, group)| (name, Some(group)))
}
