//! The type of one object that a user names.

use anyhow::{Result, bail};
use lifeboat_object::{ApiResource, GroupResource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The one of these types that `word` means in `word/name`; `None` when there are none.
///
/// # Errors
/// When it may be any of several.
pub fn one_of(word: &str, name: &str, types: &[GroupResource]) -> Result<Option<GroupResource>> {
    // A type without a group cannot be written otherwise; kubectl takes it for the word too.
    if let Some(core) = types.iter().find(|resource| resource.group.is_empty()) {
        return Ok(Some(core.clone()));
    }
    let names: BTreeSet<String> = types.iter().map(ToString::to_string).collect();
    if let (Some(first), true) = (names.first(), names.len() > 1) {
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        bail!("{word:?} may be any of {}: write the type with its group, such as {first}/{name}", all.join(", "));
    }
    Ok(types.first().cloned())
}

/// The same for types of which more is known than their names.
///
/// # Errors
/// As [`one_of`].
pub fn meant<'a>(
    word: &str,
    name: &str,
    types: impl IntoIterator<Item = &'a Arc<ApiResource>>,
) -> Result<Option<&'a ApiResource>> {
    let types: Vec<&ApiResource> = types.into_iter().map(Arc::as_ref).collect();
    let names: Vec<GroupResource> = types.iter().map(|found| found.group_resource()).collect();
    let resource = one_of(word, name, &names)?;
    Ok(resource.and_then(|resource| types.into_iter().find(|found| found.group_resource() == resource)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_several_types_is_refused_with_their_names() {
        let one_of = |names: &[&str]| {
            let types: Vec<GroupResource> = names.iter().map(|name| name.parse().unwrap()).collect();
            one_of("cluster", "a", &types).map_err(|e| e.to_string())
        };
        assert_eq!(one_of(&[]), Ok(None));
        assert_eq!(one_of(&["clusters.a.io"]), Ok(Some("clusters.a.io".parse().unwrap())));
        assert_eq!(one_of(&["services.serving.knative.dev", "services"]), Ok(Some("services".parse().unwrap())));
        let told = "\"cluster\" may be any of clusters.a.io, clusters.b.io: write the type with its group, such as clusters.a.io/a";
        assert_eq!(one_of(&["clusters.b.io", "clusters.a.io"]), Err(told.to_owned()));
    }

    #[test]
    fn the_type_that_is_meant_is_found_among_those_that_are_called_so() {
        let types = [
            ApiResource::new("serving.knative.dev", "v1", "services", "Service"),
            ApiResource::new("", "v1", "services", "Service"),
        ];
        let types = types.map(Arc::new);
        assert_eq!(meant("service", "a", &types).unwrap(), Some(&*types[1]));
        assert_eq!(meant("service", "a", &types[..1]).unwrap(), Some(&*types[0]));
        assert_eq!(meant("service", "a", []).unwrap(), None);
    }
}
