//! The types that an API server serves, and the paths of their objects.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// The characters of names that stand in paths as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b':');

/// A type in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceType {
    /// `group/version`, or the version alone.
    pub(super) api_version: String,
    pub(super) kind: String,
    plural: String,
    /// The other names that kubectl takes for it.
    names: Vec<String>,
    is_namespaced: bool,
    verbs: Vec<String>,
}

impl ResourceType {
    /// The plural with the group behind it, as kubectl prints it.
    pub(super) fn name(&self) -> String {
        let group = self.api_version.rsplit_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
        format!("{}{group}", self.plural)
    }

    /// Returns true if objects of it can be made, fetched, listed and deleted.
    pub(super) fn has_objects(&self) -> bool {
        ["create", "delete", "get", "list"].iter().all(|verb| self.verbs.iter().any(|one| one == verb))
    }

    /// Returns true if kubectl takes this word for it: its plural, also with the group behind it, its singular, or a short name.
    pub(super) fn is_called(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let (name, group) = word.split_once('.').map_or((word.as_str(), None), |(name, group)| (name, Some(group)));
        let own = self.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        group.is_none_or(|group| group == own) && (self.plural == name || self.names.iter().any(|one| one == name))
    }
}

/// The types of a discovery document of one kind, in its order: the first version of a group is the preferred one.
pub(super) fn types_of(document: &Value) -> Vec<ResourceType> {
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut types = Vec::new();
    for group in all(&document["items"]) {
        let name = text(&group["metadata"]["name"]);
        for version in all(&group["versions"]) {
            let number = text(&version["version"]);
            let api_version = if name.is_empty() { number } else { format!("{name}/{number}") };
            for resource in all(&version["resources"]) {
                let kind = text(&resource["responseKind"]["kind"]);
                let short = all(&resource["shortNames"]);
                let mut names: Vec<String> = short.iter().map(text).collect();
                names.extend([text(&resource["singularResource"]), kind.to_lowercase()]);
                types.push(ResourceType {
                    api_version: api_version.clone(),
                    kind,
                    plural: text(&resource["resource"]),
                    names,
                    is_namespaced: resource["scope"] == "Namespaced",
                    verbs: all(&resource["verbs"]).iter().map(text).collect(),
                });
            }
        }
    }
    types
}

/// The path of an object, or of a list where no name is given; without namespace that of all namespaces.
pub(super) fn path_of(of_type: &ResourceType, namespace: Option<&str>, name: Option<&str>) -> String {
    let root = if of_type.api_version.contains('/') { "apis" } else { "api" };
    let mut path = format!("/{root}/{}", of_type.api_version);
    if let Some(namespace) = namespace.filter(|_| of_type.is_namespaced) {
        path.push_str(&format!("/namespaces/{}", utf8_percent_encode(namespace, PLAIN)));
    }
    path.push_str(&format!("/{}", of_type.plural));
    if let Some(name) = name {
        path.push_str(&format!("/{}", utf8_percent_encode(name, PLAIN)));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn served() -> Vec<ResourceType> {
        let resource = |plural: &str, kind: &str, scope: &str, short: &[&str]| {
            json!({"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "shortNames": short,
                "singularResource": kind.to_lowercase(), "verbs": ["create", "delete", "get", "list"]})
        };
        let core = json!({"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [
            resource("configmaps", "ConfigMap", "Namespaced", &["cm"]), resource("namespaces", "Namespace", "Cluster", &["ns"])]}]}]});
        let groups = json!({"items": [{"metadata": {"name": "velero.io"}, "versions": [{"version": "v1", "resources": [
            resource("backups", "Backup", "Namespaced", &[])]}]},
            {"metadata": {"name": "other.io"}, "versions": [{"version": "v2", "resources": [
            resource("backups", "Backup", "Namespaced", &[])]}]}]});
        [types_of(&core), types_of(&groups)].concat()
    }

    #[test]
    fn a_type_goes_by_all_names_that_kubectl_takes() {
        let types = served();
        let found = |word: &str| types.iter().find(|one| one.is_called(word)).map(|one| one.api_version.as_str());
        for (word, expected) in [
            ("configmap", Some("v1")),
            ("ConfigMaps", Some("v1")),
            ("cm", Some("v1")),
            ("ns", Some("v1")),
            ("backup", Some("velero.io/v1")),
            ("backups.velero.io", Some("velero.io/v1")),
            ("backups.other.io", Some("other.io/v2")),
            ("backups.io", None),
            ("restore", None),
        ] {
            assert_eq!(found(word), expected, "{word}");
        }
    }

    #[test]
    fn a_type_has_objects_where_they_can_be_made_and_listed() {
        let mut types = served();
        assert_eq!(
            types.iter().map(ResourceType::name).collect::<Vec<_>>(),
            ["configmaps", "namespaces", "backups.velero.io", "backups.other.io"]
        );
        assert!(types.iter().all(ResourceType::has_objects));
        types[0].verbs.retain(|verb| verb != "list");
        assert!(!types[0].has_objects());
    }

    #[test]
    fn a_path_has_the_namespace_of_namespaced_types_only() {
        let types = served();
        let path = |word: &str, namespace: Option<&str>, name: Option<&str>| {
            path_of(types.iter().find(|one| one.is_called(word)).unwrap(), namespace, name)
        };
        assert_eq!(path("cm", Some("a"), Some("b/c")), "/api/v1/namespaces/a/configmaps/b%2Fc");
        assert_eq!(path("cm", None, None), "/api/v1/configmaps");
        assert_eq!(path("ns", Some("a"), Some("b")), "/api/v1/namespaces/b");
        assert_eq!(path("backup", Some("velero"), Some("b:1")), "/apis/velero.io/v1/namespaces/velero/backups/b:1");
    }
}
