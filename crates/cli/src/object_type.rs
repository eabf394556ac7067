//! The type of one object that a user names.

use anyhow::{Result, bail};
use lifeboat_object::GroupResource;
use std::collections::BTreeSet;

/// The one of these types that `word` means in `word/name`; `None` when there are none.
///
/// # Errors
/// When it may be any of several.
pub(crate) fn one_of(word: &str, name: &str, types: &[GroupResource]) -> Result<Option<GroupResource>> {
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
}
