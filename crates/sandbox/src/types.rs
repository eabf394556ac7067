//! The types that a server serves.

use crate::builtin;
use lifeboat_object::{ApiResource, GroupResource};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// All served types, in order of preference.
#[derive(Clone, Debug)]
pub struct Types {
    all: Vec<Arc<ApiResource>>,
    index: HashMap<(String, String, String), usize>,
    built_in: usize,
}

impl Default for Types {
    fn default() -> Self {
        Self::with_custom(Vec::new())
    }
}

impl Types {
    /// The built-in types of Kubernetes and, after them, `custom` ones, sorted by group, version priority and name.
    /// A custom type of a built-in group, version and resource is left out.
    #[must_use]
    pub fn with_custom(custom: Vec<ApiResource>) -> Self {
        let mut all: Vec<Arc<ApiResource>> = builtin::resources().into_iter().map(Arc::new).collect();
        let built_in = all.len();
        let mut custom = custom;
        custom.sort_by(|a, b| {
            a.group
                .cmp(&b.group)
                .then_with(|| compare_versions(&a.version, &b.version))
                .then_with(|| a.resource.cmp(&b.resource))
        });
        let mut index = HashMap::new();
        for (position, r) in all.iter().enumerate() {
            index.insert((r.group.clone(), r.version.clone(), r.resource.clone()), position);
        }
        for mut resource in custom {
            let key = (resource.group.clone(), resource.version.clone(), resource.resource.clone());
            if index.contains_key(&key) {
                continue;
            }
            resource.preferred = !all.iter().any(|r| r.group == resource.group && r.resource == resource.resource);
            index.insert(key, all.len());
            all.push(Arc::new(resource));
        }
        Self { all, index, built_in }
    }

    /// Every type in every served version.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.all.iter()
    }

    /// One type.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<ApiResource>> {
        let key = (group.to_owned(), version.to_owned(), resource.to_owned());
        self.index.get(&key).and_then(|position| self.all.get(*position))
    }

    /// The type whose objects say `api_version` and `kind`.
    #[must_use]
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ApiResource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.all.iter().find(|r| r.kind == kind && r.group == group && r.version == version && r.can("get"))
    }

    /// Whether a type comes from a CustomResourceDefinition.
    #[must_use]
    pub fn is_custom(&self, resource: &ApiResource) -> bool {
        let key = (resource.group.clone(), resource.version.clone(), resource.resource.clone());
        self.index.get(&key).is_some_and(|position| *position >= self.built_in)
    }

    /// Groups with their versions, both in order of preference.
    #[must_use]
    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut place: BTreeMap<&str, usize> = BTreeMap::new();
        for r in &self.all {
            let at = *place.entry(&r.group).or_insert_with(|| {
                groups.push((&r.group, Vec::new()));
                groups.len() - 1
            });
            if let Some((_, versions)) = groups.get_mut(at)
                && !versions.contains(&r.version.as_str())
            {
                versions.push(&r.version);
            }
        }
        groups
    }

    /// The types that have objects in namespaces, each once.
    #[must_use]
    pub fn namespaced(&self) -> Vec<GroupResource> {
        let mut found: Vec<GroupResource> =
            self.all.iter().filter(|r| r.namespaced && r.can("list")).map(|r| r.group_resource()).collect();
        found.sort();
        found.dedup();
        found
    }
}

/// Kubernetes' order of versions: stable before beta before alpha, higher numbers first, other names last.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// (stability, major, minor), each the higher the better.
fn parse_version(text: &str) -> Option<(u8, u32, u32)> {
    let rest = text.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match rest.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (0, rest.strip_prefix("alpha")?),
    };
    Some((stability, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_stability_then_number() {
        let mut versions = ["foo1", "v1alpha1", "v10", "v2beta2", "v2", "v2beta10", "bar", "v1"];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta10", "v2beta2", "v1alpha1", "bar", "foo1"]);
    }

    #[test]
    fn custom_types_follow_the_built_in_ones() {
        let widget = |version: &str| ApiResource {
            verbs: builtin::usual_verbs(),
            preferred: false,
            ..ApiResource::new("example.com", version, "widgets", "Widget")
        };
        let types = Types::with_custom(vec![widget("v1beta1"), widget("v1")]);
        assert_eq!(types.groups().last(), Some(&("example.com", vec!["v1", "v1beta1"])));
        let v1 = types.find("example.com", "v1", "widgets").unwrap();
        assert!(v1.preferred && types.is_custom(v1));
        assert!(!types.of_kind("example.com/v1beta1", "Widget").unwrap().preferred);
        assert!(!types.is_custom(types.find("", "v1", "pods").unwrap()));
        assert!(types.namespaced().contains(&GroupResource::new("example.com", "widgets")));
    }
}
