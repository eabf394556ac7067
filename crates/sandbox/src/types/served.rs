//! The types that a server serves.

use crate::types::builtin;
use crate::types::known::{READING, is_review};
use lifeboat_object::{ApiResource, GroupResource};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A type that a CustomResourceDefinition makes, or that is known by its objects alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomType {
    /// The type, in one version.
    pub resource: ApiResource,
    /// The columns of a table of its objects beside their names; empty for their age alone.
    pub columns: Vec<Column>,
}

/// An entry of `additionalPrinterColumns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// `name`.
    pub name: String,
    /// `jsonPath`, such as `.spec.size`.
    pub json_path: String,
    /// `type`: `string`, `integer`, `number`, `boolean` or `date`.
    pub r#type: String,
    /// `format`.
    pub format: String,
    /// `description`.
    pub description: String,
    /// `priority`; above 0 for wide tables alone.
    pub priority: i64,
}

impl CustomType {
    /// A type of which nothing is known but what its objects say: a table of it shows their age.
    #[must_use]
    pub fn of_objects(resource: ApiResource) -> Self {
        Self { resource, columns: Vec::new() }
    }
}

/// All served types, in order of preference.
#[derive(Clone, Debug)]
pub struct ServedTypes {
    all: Vec<Arc<ApiResource>>,
    index: HashMap<(String, String, String), usize>,
    built_in: usize,
    /// The columns of each custom type, in the order of `all` after the built-in ones.
    columns: Vec<Vec<Column>>,
}

impl Default for ServedTypes {
    fn default() -> Self {
        Self::with_custom(Vec::new())
    }
}

impl ServedTypes {
    /// The built-in types of Kubernetes and, after them, `custom` ones, sorted by group, version priority and name.
    /// A custom type of a built-in group, version and resource is left out.
    #[must_use]
    pub fn with_custom(custom: Vec<CustomType>) -> Self {
        let mut all: Vec<Arc<ApiResource>> = builtin::resources().into_iter().map(Arc::new).collect();
        let built_in = all.len();
        let mut custom = custom;
        custom.sort_by(|a, b| {
            let (a, b) = (&a.resource, &b.resource);
            a.group
                .cmp(&b.group)
                .then_with(|| compare_versions(&a.version, &b.version))
                .then_with(|| a.resource.cmp(&b.resource))
        });
        let mut index = HashMap::new();
        for (position, r) in all.iter().enumerate() {
            index.insert((r.group.clone(), r.version.clone(), r.resource.clone()), position);
        }
        let mut columns = Vec::new();
        for CustomType { mut resource, columns: of_type } in custom {
            let key = (resource.group.clone(), resource.version.clone(), resource.resource.clone());
            if index.contains_key(&key) {
                continue;
            }
            resource.preferred = !all.iter().any(|r| r.group == resource.group && r.resource == resource.resource);
            index.insert(key, all.len());
            all.push(Arc::new(resource));
            columns.push(of_type);
        }
        Self { all, index, built_in, columns }
    }

    /// The same types with the verbs that read alone. Types whose objects cannot be read are left out, but for questions about
    /// access.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.filtered(|mut resource| {
            if resource.can("get") {
                resource.verbs.retain(|verb| READING.contains(&verb.as_str()));
            } else if !is_review(&resource) {
                return None;
            }
            Some(resource)
        })
    }

    /// The same types, where each of `versions` is served in its version alone.
    #[must_use]
    pub fn in_versions(self, versions: &HashMap<GroupResource, String>) -> Self {
        self.filtered(|mut resource| {
            let only = versions.get(&resource.group_resource());
            resource.preferred |= only.is_some();
            only.is_none_or(|only| *only == resource.version).then_some(resource)
        })
    }

    fn filtered(self, keep: impl Fn(ApiResource) -> Option<ApiResource>) -> Self {
        let mut kept = Self { all: Vec::new(), index: HashMap::new(), built_in: 0, columns: Vec::new() };
        let columns = std::iter::repeat_with(|| None).take(self.built_in).chain(self.columns.into_iter().map(Some));
        for (resource, columns) in self.all.into_iter().zip(columns) {
            let Some(resource) = keep(Arc::unwrap_or_clone(resource)) else { continue };
            let key = (resource.group.clone(), resource.version.clone(), resource.resource.clone());
            kept.index.insert(key, kept.all.len());
            kept.all.push(Arc::new(resource));
            match columns {
                Some(columns) => kept.columns.push(columns),
                None => kept.built_in += 1,
            }
        }
        kept
    }

    /// Every type in every served version.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.all.iter()
    }

    /// The type with this group, version and resource name.
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

    /// Returns true if a type is not one of the built-in ones.
    #[must_use]
    pub fn is_custom(&self, resource: &ApiResource) -> bool {
        self.columns(resource).is_some()
    }

    /// The columns of a table of a custom type beside the names; `None` for a built-in type.
    #[must_use]
    pub fn columns(&self, resource: &ApiResource) -> Option<&[Column]> {
        let key = (resource.group.clone(), resource.version.clone(), resource.resource.clone());
        let position = self.index.get(&key)?.checked_sub(self.built_in)?;
        self.columns.get(position).map(Vec::as_slice)
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
        let widget = |version: &str| {
            CustomType::of_objects(ApiResource {
                verbs: builtin::usual_verbs(),
                preferred: false,
                ..ApiResource::new("example.com", version, "widgets", "Widget")
            })
        };
        let types = ServedTypes::with_custom(vec![widget("v1beta1"), widget("v1")]);
        assert_eq!(types.groups().last(), Some(&("example.com", vec!["v1", "v1beta1"])));
        let v1 = types.find("example.com", "v1", "widgets").unwrap();
        assert!(v1.preferred && types.is_custom(v1));
        assert!(!types.of_kind("example.com/v1beta1", "Widget").unwrap().preferred);
        assert!(!types.is_custom(types.find("", "v1", "pods").unwrap()));
        assert!(types.namespaced().contains(&GroupResource::new("example.com", "widgets")));
    }

    #[test]
    fn read_only_types_have_the_verbs_that_read() {
        let resource =
            ApiResource { verbs: builtin::usual_verbs(), ..ApiResource::new("example.com", "v1", "widgets", "Widget") };
        let types = ServedTypes::with_custom(vec![CustomType::of_objects(resource)]).read_only();
        let widgets = types.find("example.com", "v1", "widgets").unwrap();
        assert!(types.is_custom(widgets) && !types.is_custom(types.find("apps", "v1", "deployments").unwrap()));
        for (group, version, resource, verbs) in [
            ("example.com", "v1", "widgets", Some("get list watch")),
            ("", "v1", "pods", Some("get list watch")),
            ("", "v1", "bindings", None),
            ("authentication.k8s.io", "v1", "tokenreviews", None),
            ("authentication.k8s.io", "v1", "selfsubjectreviews", Some("create")),
            ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", Some("create")),
        ] {
            let found = types.find(group, version, resource).map(|r| {
                let mut verbs = r.verbs.clone();
                verbs.sort();
                verbs.join(" ")
            });
            assert_eq!(found.as_deref(), verbs, "{resource}");
        }
    }

    #[test]
    fn a_type_that_is_kept_in_one_version_is_served_in_that_alone() {
        let scalers = GroupResource::new("autoscaling", "horizontalpodautoscalers");
        let types = ServedTypes::default().in_versions(&HashMap::from([(scalers, "v1".to_owned())]));
        let of_group = types.groups().into_iter().find(|(group, _)| *group == "autoscaling");
        assert_eq!(of_group, Some(("autoscaling", vec!["v1"])));
        assert!(types.find("autoscaling", "v1", "horizontalpodautoscalers").unwrap().preferred);
        assert_eq!(types.all().count(), ServedTypes::default().all().count() - 1);
    }
}
