//! API resources: what discovery says of a type.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A resource name qualified by its API group, written `deployments.apps`; the core group has no suffix (`pods`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GroupResource {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural resource name in lower case.
    pub resource: String,
}

impl GroupResource {
    /// A group-resource from its parts.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }

    /// The namespaces themselves.
    #[must_use]
    pub fn namespaces() -> Self {
        Self::new("", "namespaces")
    }

    /// The definitions of custom types.
    #[must_use]
    pub fn definitions() -> Self {
        Self::new("apiextensions.k8s.io", "customresourcedefinitions")
    }

    /// Secrets.
    #[must_use]
    pub fn secrets() -> Self {
        Self::new("", "secrets")
    }

    /// Returns true for the namespaces themselves.
    #[must_use]
    pub fn is_namespaces(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }

    /// Returns true for CustomResourceDefinitions.
    #[must_use]
    pub fn is_definitions(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.resource == "customresourcedefinitions"
    }

    /// Returns true for Secrets.
    #[must_use]
    pub fn is_secrets(&self) -> bool {
        self.group.is_empty() && self.resource == "secrets"
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// The text was empty or had an empty resource part.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not of the form resource or resource.group")]
pub struct ParseGroupResourceError(String);

impl FromStr for GroupResource {
    type Err = ParseGroupResourceError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (resource, group) = s.split_once('.').unwrap_or((s, ""));
        if resource.is_empty() {
            return Err(ParseGroupResourceError(s.to_owned()));
        }
        Ok(Self::new(group, resource))
    }
}

/// A version of an API resource as discovery describes it. Subresources are not listed as resources of their own;
/// [`ApiResource::subresources`] names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// API group; empty for the core group.
    pub group: String,
    /// API version without group, such as `v1beta1`.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Kind of the objects.
    pub kind: String,
    /// Singular name; may be empty.
    pub singular: String,
    /// Short names such as `po`.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// True when the objects live in namespaces.
    pub namespaced: bool,
    /// Verbs the server offers.
    pub verbs: Vec<String>,
    /// Names of subresources such as `status`.
    pub subresources: Vec<String>,
    /// True when the server prefers this version of the group-resource.
    pub preferred: bool,
}

impl ApiResource {
    /// A namespaced type in its preferred version, as far as it takes to address its objects: what only discovery tells
    /// (short names, categories, verbs, subresources) is left empty.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        resource: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        let kind = kind.into();
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
            singular: kind.to_lowercase(),
            kind,
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: Vec::new(),
            subresources: Vec::new(),
            preferred: true,
        }
    }

    /// The namespaces themselves.
    #[must_use]
    pub fn namespaces() -> Self {
        Self { namespaced: false, ..Self::new("", "v1", "namespaces", "Namespace") }
    }

    /// The claims of persistent volumes.
    #[must_use]
    pub fn persistent_volume_claims() -> Self {
        Self::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
    }

    /// The group-resource, version left out.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.resource)
    }

    /// `group/version`, or the version alone for the core group: what objects carry as `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns true if the server offers `verb` on the main resource.
    #[must_use]
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Returns true if the resource has the subresource, for example `status`.
    #[must_use]
    pub fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|s| s == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_resource_text_round_trips() {
        for text in ["pods", "deployments.apps", "widgets.example.com"] {
            assert_eq!(text.parse::<GroupResource>().unwrap().to_string(), text);
        }
        assert_eq!(".apps".parse::<GroupResource>(), Err(ParseGroupResourceError(".apps".to_owned())));
        assert_eq!("".parse::<GroupResource>(), Err(ParseGroupResourceError(String::new())));
    }
}
