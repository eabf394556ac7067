//! The words by which users name types. Pure.

use crate::ApiResource;
use std::sync::Arc;

/// Types of a list that is searched.
type MatchingTypes<'a> = Vec<&'a Arc<ApiResource>>;

/// The types that a word names, as kubectl takes it: a plural, singular, short name or kind, also with a group, which may be cut
/// (`deploy.apps`, `widgets.example`), or with version and group (`deployments.v1.apps`, `pods.v1.`); case is ignored. Of several
/// ways to understand the word the first one counts that names a type. Each type is named once, in the version that the word names,
/// otherwise in the preferred one, in the order of `types`.
pub fn types_named<'a>(word: &str, types: impl Iterator<Item = &'a Arc<ApiResource>>) -> MatchingTypes<'a> {
    let word = word.to_lowercase();
    let types: MatchingTypes<'a> = types.collect();
    let (name, group) = word.split_once('.').unwrap_or((&word, ""));
    let in_version = group.split_once('.').map_or(Vec::new(), |(version, group)| {
        let of_version = |r: &&Arc<ApiResource>| r.version == version && r.group == group;
        named(name, group, &types.iter().copied().filter(of_version).collect())
    });
    if !in_version.is_empty() {
        return in_version;
    }
    let found = named(name, group, &types);
    if !found.is_empty() || name.is_empty() {
        return found;
    }
    // A definition may give its type a singular that is not the kind.
    once(types.into_iter().filter(|r| r.kind.to_lowercase() == name && r.group.starts_with(group)))
}

/// The types of this name in lower case, and this group; an empty one stands for all. An exact plural wins over other names, and a
/// whole group over the beginning of one.
pub(crate) fn named<'a>(name: &str, group: &str, types: &MatchingTypes<'a>) -> MatchingTypes<'a> {
    if name.is_empty() {
        return Vec::new();
    }
    let fits = |r: &ApiResource| group.is_empty() || r.group == group;
    let starts = |r: &ApiResource| r.group.starts_with(group);
    let plural = |r: &ApiResource| r.resource == name;
    let other = |r: &ApiResource| {
        r.singular == name
            || (r.singular.is_empty() && r.kind.to_lowercase() == name)
            || r.short_names.iter().any(|s| *s == name)
    };
    let ways: [&dyn Fn(&ApiResource) -> bool; 4] =
        [&|r| plural(r) && fits(r), &|r| other(r) && fits(r), &|r| plural(r) && starts(r), &|r| other(r) && starts(r)];
    let found = ways.iter().map(|way| once(types.iter().copied().filter(|r| way(r))));
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// Each type once, in its preferred version if that is among them.
fn once<'a>(types: impl Iterator<Item = &'a Arc<ApiResource>>) -> MatchingTypes<'a> {
    let mut kept: MatchingTypes<'a> = Vec::new();
    for one in types {
        match kept.iter_mut().find(|kept| kept.resource == one.resource && kept.group == one.group) {
            Some(kept) if one.preferred && !kept.preferred => *kept = one,
            Some(_) => {}
            None => kept.push(one),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, version: &str, resource: &str, kind: &str, short: &[&str]) -> ApiResource {
        ApiResource {
            short_names: short.iter().map(|s| (*s).to_owned()).collect(),
            ..ApiResource::new(group, version, resource, kind)
        }
    }

    #[test]
    fn a_word_names_all_types_that_are_called_so() {
        let later = ApiResource { preferred: false, ..resource("autoscaling", "v1", "scalers", "Scaler", &["sc"]) };
        let types = [
            resource("", "v1", "pods", "Pod", &["po"]),
            resource("", "v1", "events", "Event", &["ev"]),
            resource("apps", "v1", "deployments", "Deployment", &["deploy"]),
            resource("events.k8s.io", "v1", "events", "Event", &["ev"]),
            later,
            resource("autoscaling", "v2", "scalers", "Scaler", &["sc"]),
            resource("example.com", "v1", "widgets", "Widget", &["wd", "events"]),
            ApiResource { singular: "thing".to_owned(), ..resource("example.com", "v1", "things", "Gizmo", &[]) },
        ]
        .map(Arc::new);
        for (word, expected) in [
            ("Pods", &["pods v1"][..]),
            ("po", &["pods v1"]),
            ("events", &["events v1", "events.events.k8s.io v1"]),
            ("ev", &["events v1", "events.events.k8s.io v1"]),
            ("ev.events", &["events.events.k8s.io v1"]),
            ("deploy.apps", &["deployments.apps v1"]),
            ("deployments.v1.apps", &["deployments.apps v1"]),
            ("deployments.v2.apps", &[]),
            ("pods.v1.", &["pods v1"]),
            ("events.v1.", &["events v1"]),
            ("sc", &["scalers.autoscaling v2"]),
            ("scaler.v1.autoscaling", &["scalers.autoscaling v1"]),
            ("wd.example", &["widgets.example.com v1"]),
            ("widgets.v1.example.com", &["widgets.example.com v1"]),
            ("widgets.other.com", &[]),
            ("thing", &["things.example.com v1"]),
            ("gizmo.example.com", &["things.example.com v1"]),
            ("", &[]),
            (".apps", &[]),
        ] {
            let found = types_named(word, types.iter());
            let found: Vec<String> = found.iter().map(|r| format!("{} {}", r.group_resource(), r.version)).collect();
            assert_eq!(found, expected, "{word}");
        }
    }
}
