//! Paths inside the archive.

use lifeboat_object::{GroupResource, Head, ObjectKey};

/// The version directory of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VersionDir {
    /// The version alone, such as `v1`.
    pub version: String,
    /// True when the directory carries the suffix `-preferredversion`.
    pub preferred: bool,
}

/// The place of an object in the archive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectPath {
    /// The object.
    pub key: ObjectKey,
    /// The version directory; `None` for the plain path that every reader knows.
    pub version: Option<VersionDir>,
}

/// The meaning of a path in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchivePath {
    /// `metadata/version`.
    Version,
    /// An object.
    Object(ObjectPath),
    /// Anything else that stays inside the archive; readers skip it.
    Other,
}

/// The reason for which a path is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PathError {
    /// The path would leave the directory it is unpacked into.
    #[error("invalid archive path {0:?}: escapes target directory")]
    Escapes(String),
    /// The object in the entry is not the one the path names.
    #[error("archive entry {path:?} holds {found}: refused, it would slip past filters and mappings")]
    Disagrees {
        /// The path of the entry.
        path: String,
        /// The object that the entry holds.
        found: String,
    },
}

const PREFERRED: &str = "-preferredversion";

impl ObjectPath {
    /// The path, relative to the archive.
    ///
    /// # Errors
    /// [`PathError::Escapes`] when a part of the key is no single path component.
    pub fn encode(&self) -> Result<String, PathError> {
        let ObjectKey { resource, namespace, name } = &self.key;
        let version = self.version.as_ref().map(|v| (v.version.as_str(), v.preferred));
        encode(resource, namespace.as_deref(), name, version)
    }

    /// Refuses an object that is not the one its path names: another group, namespace or name.
    ///
    /// # Errors
    /// [`PathError::Disagrees`].
    pub fn check(&self, head: &Head) -> Result<(), PathError> {
        let group = head.api_version.as_deref().map(|v| v.split_once('/').map_or("", |(g, _)| g));
        let same = head.name == self.key.name
            && head.namespace == self.key.namespace
            && group.is_none_or(|g| g == self.key.resource.group);
        if same {
            return Ok(());
        }
        Err(PathError::Disagrees {
            path: self.encode()?,
            found: format!(
                "{} {} {}/{}",
                head.api_version.as_deref().unwrap_or("?"),
                head.kind.as_deref().unwrap_or("?"),
                head.namespace.as_deref().unwrap_or("-"),
                head.name
            ),
        })
    }
}

impl ArchivePath {
    /// Reads a path of an entry. A leading `./` is tolerated, as archivers write it.
    ///
    /// # Errors
    /// [`PathError::Escapes`] for absolute paths and for components that are empty, `.` or `..`.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let relative = path.strip_prefix("./").unwrap_or(path);
        let relative = relative.strip_suffix('/').unwrap_or(relative);
        let parts: Vec<&str> = relative.split('/').collect();
        if !parts.iter().all(|p| is_component(p)) {
            return Err(PathError::Escapes(path.to_owned()));
        }
        Ok(match parts.as_slice() {
            ["metadata", "version"] => Self::Version,
            ["resources", resource, rest @ ..] => Self::object(resource, rest).unwrap_or(Self::Other),
            _ => Self::Other,
        })
    }

    fn object(resource: &str, rest: &[&str]) -> Option<Self> {
        let resource: GroupResource = resource.parse().ok()?;
        let (version, place) = match rest {
            ["cluster", _] | ["namespaces", _, _] => (None, rest),
            [version, place @ ..] => (Some(VersionDir::parse(version)), place),
            [] => return None,
        };
        let (namespace, file) = match place {
            ["cluster", file] => (None, file),
            ["namespaces", namespace, file] => (Some(*namespace), file),
            _ => return None,
        };
        let name = file.strip_suffix(".json").filter(|n| !n.is_empty())?;
        Some(Self::Object(ObjectPath { key: ObjectKey::new(resource, namespace, name), version }))
    }
}

impl VersionDir {
    fn parse(text: &str) -> Self {
        match text.strip_suffix(PREFERRED) {
            Some(version) => Self { version: version.to_owned(), preferred: true },
            None => Self { version: text.to_owned(), preferred: false },
        }
    }
}

/// [`ObjectPath::encode`], from parts: the version directory as version and whether it is the preferred one.
pub(crate) fn encode(
    GroupResource { group, resource }: &GroupResource,
    namespace: Option<&str>,
    name: &str,
    version: Option<(&str, bool)>,
) -> Result<String, PathError> {
    let mut out = String::with_capacity(128);
    out.push_str("resources/");
    out.push_str(resource);
    if !group.is_empty() {
        out.push('.');
        out.push_str(group);
    }
    let mut safe = is_component(&out["resources/".len()..]);
    out.push('/');
    if let Some((version, preferred)) = version {
        safe &= is_component(version);
        out.push_str(version);
        if preferred {
            out.push_str(PREFERRED);
        }
        out.push('/');
    }
    match namespace {
        None => out.push_str("cluster/"),
        Some(namespace) => {
            safe &= is_component(namespace);
            out.push_str("namespaces/");
            out.push_str(namespace);
            out.push('/');
        }
    }
    safe &= is_component(name);
    out.push_str(name);
    out.push_str(".json");
    if safe { Ok(out) } else { Err(PathError::Escapes(out)) }
}

/// A backslash is a character as any other: names of roles may have one, and only `/` separates.
fn is_component(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(namespace: Option<&str>, version: Option<(&str, bool)>) -> ObjectPath {
        ObjectPath {
            key: ObjectKey::new(GroupResource::new("apps", "deployments"), namespace, "web"),
            version: version.map(|(v, preferred)| VersionDir { version: v.to_owned(), preferred }),
        }
    }

    #[test]
    fn paths_round_trip() {
        for (object, text) in [
            (path(Some("shop"), None), "resources/deployments.apps/namespaces/shop/web.json"),
            (path(None, None), "resources/deployments.apps/cluster/web.json"),
            (
                path(Some("shop"), Some(("v1", true))),
                "resources/deployments.apps/v1-preferredversion/namespaces/shop/web.json",
            ),
            (path(None, Some(("v1beta1", false))), "resources/deployments.apps/v1beta1/cluster/web.json"),
        ] {
            assert_eq!(object.encode().unwrap(), text);
            assert_eq!(ArchivePath::parse(text).unwrap(), ArchivePath::Object(object));
        }
    }

    #[test]
    fn a_name_that_the_api_server_takes_is_a_name_in_the_archive() {
        for name in ["CORP\\alice-view", "..\\..\\x", "system:node", "a b", "é", "...", &"n".repeat(253)] {
            let object = ObjectPath { key: ObjectKey { name: name.to_owned(), ..path(None, None).key }, version: None };
            let text = object.encode().unwrap();
            assert_eq!(text, format!("resources/deployments.apps/cluster/{name}.json"));
            assert_eq!(ArchivePath::parse(&text), Ok(ArchivePath::Object(object)));
        }
    }

    #[test]
    fn knows_the_other_entries() {
        for (text, expected) in [
            ("metadata/version", ArchivePath::Version),
            ("./metadata/version", ArchivePath::Version),
            ("resources/", ArchivePath::Other),
            ("resources/pods/cluster", ArchivePath::Other),
            ("resources/pods/namespaces/a/b.txt", ArchivePath::Other),
            ("resources/pods/namespaces/a/.json", ArchivePath::Other),
            ("resources/pods/v1/x/namespaces/a/b.json", ArchivePath::Other),
        ] {
            assert_eq!(ArchivePath::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn refuses_paths_that_escape() {
        for text in ["/etc/passwd", "../x", "resources/../../x", "resources//x", "a/./b", "", "a\0b"] {
            assert_eq!(ArchivePath::parse(text), Err(PathError::Escapes(text.to_owned())), "{text}");
        }
        for name in ["../x", "a/b", "..", ""] {
            let mut object = path(None, None);
            object.key.name = name.to_owned();
            assert!(matches!(object.encode(), Err(PathError::Escapes(_))), "{name}");
        }
    }

    #[test]
    fn an_object_must_be_the_one_its_path_names() {
        let head = |api_version: &str, namespace: Option<&str>, name: &str| Head {
            api_version: Some(api_version.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            ..Head::default()
        };
        let object = path(Some("shop"), None);
        assert_eq!(object.check(&head("apps/v1", Some("shop"), "web")), Ok(()));
        for wrong in [
            head("apps/v1", Some("other"), "web"),
            head("apps/v1", None, "web"),
            head("apps/v1", Some("shop"), "db"),
            head("v1", Some("shop"), "web"),
        ] {
            assert!(object.check(&wrong).is_err(), "{wrong:?}");
        }
    }
}
