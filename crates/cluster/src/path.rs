//! Paths and queries of requests.

use lifeboat_object::ApiResource;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The path of a resource, or of its objects in one namespace.
pub(crate) fn resource_path(resource: &ApiResource, namespace: Option<&str>) -> String {
    let mut path = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if let Some(namespace) = namespace {
        path.push_str("/namespaces/");
        path.push_str(&segment(namespace));
    }
    path.push('/');
    path.push_str(&resource.resource);
    path
}

/// All but what RFC 3986 calls unreserved.
const NOT_IN_QUERIES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const NOT_IN_SEGMENTS: &AsciiSet = &NOT_IN_QUERIES.remove(b':').remove(b'@');

/// Percent-encodes a path segment: names of RBAC objects hold colons and more.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_SEGMENTS).to_string()
}

/// Percent-encodes a value of a query.
pub(crate) fn query(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_QUERIES).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_selectors_of_any_text_stand_in_a_url() {
        for (text, in_segment, in_query) in [
            ("a-b.c_d~1", "a-b.c_d~1", "a-b.c_d~1"),
            ("system:node@a", "system:node@a", "system%3Anode%40a"),
            ("a/b?c#d%2F", "a%2Fb%3Fc%23d%252F", "a%2Fb%3Fc%23d%252F"),
            ("a in (b,c)&é+", "a%20in%20%28b%2Cc%29%26%C3%A9%2B", "a%20in%20%28b%2Cc%29%26%C3%A9%2B"),
        ] {
            assert_eq!([segment(text), query(text)], [in_segment, in_query]);
        }
    }
}
