//! Parses the paths and query strings of requests.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`
    Root,
    /// `/healthz`, `/livez`, `/readyz` and what is below them.
    Health,
    /// `/version`
    Version,
    /// `/api`
    CoreGroup,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    GroupVersion { group: String, version: String },
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`
    OpenApi,
    /// `/openapi/v3/api/v1`, `/openapi/v3/apis/GROUP/VERSION`
    OpenApiOf { group: String, version: String },
    /// Objects.
    Objects(ResourcePath),
}

/// A collection, an object or a subresource of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// Parses the path of a request; `None` when nothing can be there.
pub(crate) fn parse(path: &str) -> Option<Route> {
    let trimmed = path.trim_matches('/');
    if trimmed.is_empty() {
        return Some(Route::Root);
    }
    let segments: Vec<String> = trimmed.split('/').map(decode).collect::<Option<_>>()?;
    // No name may hold a slash; an empty segment means a path such as `/api//pods`.
    if segments.iter().any(|s| s.is_empty() || s.contains('/') || s.contains('\0') || s == "." || s == "..") {
        return None;
    }
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let owned = |group: &str, version: &str| (group.to_owned(), version.to_owned());
    Some(match words.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["version"] => Route::Version,
        ["api"] => Route::CoreGroup,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3"] => Route::OpenApi,
        ["openapi", "v3", "api", version] => {
            let (group, version) = owned("", version);
            Route::OpenApiOf { group, version }
        }
        ["openapi", "v3", "apis", group, version] => {
            let (group, version) = owned(group, version);
            Route::OpenApiOf { group, version }
        }
        ["api", version] => {
            let (group, version) = owned("", version);
            Route::GroupVersion { group, version }
        }
        ["apis", group, version] => {
            let (group, version) = owned(group, version);
            Route::GroupVersion { group, version }
        }
        ["api", version, rest @ ..] => Route::Objects(objects("", version, rest)),
        ["apis", group, version, rest @ ..] => Route::Objects(objects(group, version, rest)),
        _ => return None,
    })
}

fn objects(group: &str, version: &str, rest: &[&str]) -> ResourcePath {
    let (namespace, rest) = match rest {
        // The subresources of a namespace itself.
        ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, below @ ..] if !below.is_empty() => (Some((*namespace).to_owned()), below),
        _ => (None, rest),
    };
    let mut rest = rest.iter().map(|s| (*s).to_owned());
    let mut place =
        ResourcePath { group: group.to_owned(), version: version.to_owned(), namespace, ..ResourcePath::default() };
    place.resource = rest.next().unwrap_or_default();
    place.name = rest.next();
    let below: Vec<String> = rest.collect();
    place.subresource = (!below.is_empty()).then(|| below.join("/"));
    place
}

/// The parameters of a query string; of a repeated one the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// `None` when an escape is broken.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut found = BTreeMap::new();
        for pair in text.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            found.entry(decode_form(key)?).or_insert(decode_form(value)?);
        }
        Some(Self(found))
    }

    /// A parameter; empty when it is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns true if a parameter is set, and not to false.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|v| v != "false" && v != "0")
    }

    /// A number; `None` when it is absent.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        match self.text(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| format!("invalid value {text:?} of {name}: not a number")),
        }
    }
}

/// The text that percent signs stand for; `None` when an escape is broken, or when the bytes are no UTF-8.
fn decode(text: &str) -> Option<String> {
    // The library lets a percent sign stand that no two digits follow.
    let is_escape = |after: &str| after.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// In a query, a plus is a blank.
fn decode_form(text: &str) -> Option<String> {
    decode(&text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(
        group: &str,
        namespace: Option<&str>,
        resource: &str,
        name: Option<&str>,
        sub: Option<&str>,
    ) -> Option<Route> {
        Some(Route::Objects(ResourcePath {
            group: group.into(),
            version: "v1".into(),
            namespace: namespace.map(Into::into),
            resource: resource.into(),
            name: name.map(Into::into),
            subresource: sub.map(Into::into),
        }))
    }

    #[test]
    fn paths() {
        let gv = |group: &str| (group.to_owned(), "v1".to_owned());
        for (path, expected) in [
            ("/", Some(Route::Root)),
            ("/livez/ping", Some(Route::Health)),
            ("/version", Some(Route::Version)),
            ("/api", Some(Route::CoreGroup)),
            ("/apis/", Some(Route::Groups)),
            ("/apis/apps", Some(Route::Group("apps".into()))),
            ("/api/v1", Some(Route::GroupVersion { group: gv("").0, version: gv("").1 })),
            ("/apis/apps/v1", Some(Route::GroupVersion { group: gv("apps").0, version: gv("").1 })),
            ("/openapi/v2", Some(Route::OpenApiV2)),
            ("/openapi/v3", Some(Route::OpenApi)),
            ("/openapi/v3/apis/apps/v1", Some(Route::OpenApiOf { group: gv("apps").0, version: gv("").1 })),
            ("/api/v1/pods", place("", None, "pods", None, None)),
            ("/api/v1/nodes/n", place("", None, "nodes", Some("n"), None)),
            ("/api/v1/namespaces", place("", None, "namespaces", None, None)),
            ("/api/v1/namespaces/a", place("", None, "namespaces", Some("a"), None)),
            ("/api/v1/namespaces/a/finalize", place("", None, "namespaces", Some("a"), Some("finalize"))),
            ("/api/v1/namespaces/a/status", place("", None, "namespaces", Some("a"), Some("status"))),
            ("/api/v1/namespaces/a/pods", place("", Some("a"), "pods", None, None)),
            ("/api/v1/namespaces/a/pods/p/exec", place("", Some("a"), "pods", Some("p"), Some("exec"))),
            ("/api/v1/namespaces/a/pods/p/proxy/x/y", place("", Some("a"), "pods", Some("p"), Some("proxy/x/y"))),
            ("/apis/g.io/v1/clusterroles/system%3Ax", place("g.io", None, "clusterroles", Some("system:x"), None)),
            ("/api/v1/pods/a%2Fb", None),
            ("/api/v1/pods/%2e%2e", None),
            ("/api//pods", None),
            ("/api/v1/pods/%zz", None),
            ("/metrics", None),
        ] {
            assert_eq!(parse(path), expected, "{path}");
        }
    }

    #[test]
    fn queries() {
        let query = Query::parse("limit=5&labelSelector=a+in+%28b%29&watch&x=&watch=false").unwrap();
        assert_eq!(query.number("limit"), Ok(Some(5)));
        assert_eq!(query.number("absent"), Ok(None));
        assert!(query.number("labelSelector").is_err());
        assert_eq!(query.text("labelSelector"), "a in (b)");
        assert!(query.is_set("watch") && !query.is_set("absent"));
        for broken in ["a=%f", "a=%+1", "a=%%41", "a=%ff"] {
            assert_eq!(Query::parse(broken), None, "{broken}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = (parse(&text), Query::parse(&text));
        }
    }
}
