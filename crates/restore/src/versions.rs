//! Which of several stored versions of a type is restored (restore.md 2.4). Pure.

use lifeboat_archive::index::Row;
use lifeboat_object::{Catalog, GroupResource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Versions of one type in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stored {
    preferred: Option<Arc<str>>,
    others: BTreeSet<Arc<str>>,
}

/// The numbers of the rows to restore: one stored version of each type.
pub(crate) fn choose<'a>(rows: impl Iterator<Item = &'a Row> + Clone, catalog: &Catalog) -> Vec<usize> {
    let mut stored: BTreeMap<Arc<GroupResource>, Stored> = BTreeMap::new();
    for row in rows.clone() {
        let versions = stored.entry(Arc::clone(&row.resource)).or_default();
        if row.preferred {
            versions.preferred = Some(Arc::clone(&row.version));
        } else {
            versions.others.insert(Arc::clone(&row.version));
        }
    }
    let chosen: BTreeMap<Arc<GroupResource>, Arc<str>> =
        stored.iter().filter_map(|(gr, versions)| Some((Arc::clone(gr), pick(gr, versions, catalog)?))).collect();
    let is_chosen = |row: &Row| chosen.get(&row.resource).is_some_and(|v| *v == row.version);
    rows.enumerate().filter(|(_, row)| is_chosen(row)).map(|(number, _)| number).collect()
}

fn pick(resource: &GroupResource, stored: &Stored, catalog: &Catalog) -> Option<Arc<str>> {
    let source_preferred = stored.preferred.clone().or_else(|| stored.others.first().cloned());
    if stored.others.is_empty() {
        return source_preferred;
    }
    let has = |version: &str| stored.preferred.iter().chain(&stored.others).find(|v| ***v == *version).map(Arc::clone);
    let mut served: Vec<&str> = catalog
        .all()
        .filter(|r| r.group == resource.group && r.resource == resource.resource)
        .map(|r| r.version.as_str())
        .collect();
    let target_preferred = catalog.find(resource).map(|r| r.version.as_str());
    if let Some(found) = target_preferred.and_then(has) {
        return Some(found);
    }
    if let Some(preferred) = &stored.preferred
        && served.contains(&&**preferred)
    {
        return Some(Arc::clone(preferred));
    }
    served.sort_by_key(|v| std::cmp::Reverse(rank(v)));
    served.into_iter().find_map(has).or(source_preferred)
}

/// Order of Kubernetes' version priority: GA before beta before alpha, higher numbers first.
fn rank(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let (major, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    let major = major.parse().unwrap_or(0);
    let number = |text: &str| text.parse().unwrap_or(0);
    match tail {
        "" => (3, major, 0),
        _ if tail.starts_with("beta") => (2, major, number(&tail[4..])),
        _ if tail.starts_with("alpha") => (1, major, number(&tail[5..])),
        _ => (0, 0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::ApiResource;

    fn row(version: &str, preferred: bool) -> Row {
        Row {
            resource: Arc::new(GroupResource::new("example.com", "widgets")),
            version: version.into(),
            namespace: "".into(),
            name: "w".into(),
            preferred,
            member: 0,
            offset: 0,
            length: 0,
            hash: [0; 16],
        }
    }

    fn catalog(versions: &[&str]) -> Catalog {
        let resource = |(i, version): (usize, &&str)| {
            Arc::new(ApiResource {
                preferred: i == 0,
                ..ApiResource::new("example.com", *version, "widgets", "Widget")
            })
        };
        Catalog::new(versions.iter().enumerate().map(resource).collect(), vec![])
    }

    #[test]
    fn the_best_version_that_both_sides_know() {
        for (stored, preferred, served, expected) in [
            (vec!["v1"], "v1", vec!["v2"], "v1"),
            (vec!["v1", "v1beta1"], "v1", vec!["v1beta1"], "v1beta1"),
            (vec!["v1", "v1beta1"], "v1", vec!["v1", "v1beta1"], "v1"),
            (vec!["v1", "v2beta1"], "v1", vec!["v2", "v1", "v2beta1"], "v1"),
            (vec!["v1", "v1beta1", "v1alpha1"], "v1", vec!["v3", "v1alpha1", "v1beta1"], "v1beta1"),
            (vec!["v1", "v1beta1"], "v1", vec![], "v1"),
        ] {
            let rows: Vec<Row> = stored.iter().map(|v| row(v, *v == preferred)).collect();
            let chosen = choose(rows.iter(), &catalog(&served));
            let got: Vec<&str> = chosen.iter().map(|n| &*rows[*n].version).collect();
            assert_eq!(got, [expected], "{stored:?} {served:?}");
        }
    }
}
