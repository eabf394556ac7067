//! Choice between several stored versions of an object (velero: pkg/restore/prioritize_group_version.go). Pure.

use lifeboat_archive::index::Row;
use lifeboat_object::{Catalog, GroupResource, ObjectKey};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The versions that a user prefers, by type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionPriorities(BTreeMap<GroupResource, Vec<String>>);

impl VersionPriorities {
    /// Reads lines such as `rockbands.music.example.io=v2beta1,v2beta2`. Gives also the lines that say nothing, by number from 1.
    ///
    /// compat: blanks do not count, and a line that does not have exactly one `=` with something on both sides is passed over.
    pub(crate) fn parse(text: &str) -> (Self, Vec<usize>) {
        let (mut out, mut passed_over) = (BTreeMap::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
            match entry(&line) {
                Some((resource, versions)) => drop(out.insert(resource, versions)),
                None if line.is_empty() => {}
                None => passed_over.push(number),
            }
        }
        (Self(out), passed_over)
    }

    /// The place of a version in the list of its type, higher for one that comes earlier; `None` when the list lacks it.
    fn rank(&self, row: &Row) -> Option<Reverse<usize>> {
        let versions = self.0.get(&*row.resource)?;
        versions.iter().position(|version| *version == *row.version).map(Reverse)
    }
}

/// A line without blanks; `None` when it says nothing.
fn entry(line: &str) -> Option<(GroupResource, Vec<String>)> {
    let (resource, versions) = line.split_once('=')?;
    if versions.is_empty() || versions.contains('=') {
        return None;
    }
    Some((resource.parse().ok()?, versions.split(',').map(str::to_owned).collect()))
}

/// The numbers of the rows to restore, one for each object, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChosenRows(Vec<usize>);

impl ChosenRows {
    /// The rows.
    pub(crate) fn rows(&self) -> &[usize] {
        &self.0
    }

    /// The row of an object.
    pub(crate) fn find<'a>(&self, key: &ObjectKey, row: impl Fn(usize) -> Option<&'a Row>) -> Option<usize> {
        let wanted =
            (&*key.resource.group, &*key.resource.resource, key.namespace.as_deref().unwrap_or(""), &*key.name);
        let at = self.0.binary_search_by(|number| row(*number).map(place).cmp(&Some(wanted)));
        self.0.get(at.ok()?).copied()
    }
}

/// Chooses for each object the best version in which the archive holds it: not all objects of a type need to be there in
/// the same ones. What stands twice in one version counts as it stands last.
pub(crate) fn choose<'a>(
    rows: impl Iterator<Item = &'a Row>,
    catalog: &Catalog,
    priorities: &VersionPriorities,
) -> ChosenRows {
    let rows: Vec<&Row> = rows.collect();
    let mut numbers: Vec<usize> = (0..rows.len()).collect();
    numbers.sort_by(|a, b| compare(rows[*a], rows[*b]));
    let same = numbers.chunk_by(|a, b| compare(rows[*a], rows[*b]).is_eq());
    let best = |same: &[usize]| match same {
        [one] => Some(*one),
        _ => same.iter().copied().max_by_key(|number| worth(rows[*number], catalog, priorities)),
    };
    ChosenRows(same.filter_map(best).collect())
}

/// The order of two objects by their sort keys.
fn compare(a: &Row, b: &Row) -> Ordering {
    // Objects of one type share its name, which then need not be read.
    if Arc::ptr_eq(&a.resource, &b.resource) {
        return (&*a.namespace, &*a.name).cmp(&(&*b.namespace, &*b.name));
    }
    place(a).cmp(&place(b))
}

/// The sort key of an object.
fn place(row: &Row) -> (&str, &str, &str, &str) {
    (&row.resource.group, &row.resource.resource, &row.namespace, &row.name)
}

/// Ranks a version. Best is the first of the user's list that the cluster serves, then the version that the cluster
/// prefers, the version that the backup prefers if the cluster serves it, the others that it serves by their priority,
/// then the version that the backup prefers.
fn worth(row: &Row, catalog: &Catalog, priorities: &VersionPriorities) -> impl Ord + use<> {
    let is_preferred = catalog.find(&row.resource).is_some_and(|preferred| *preferred.version == *row.version);
    let is_served = catalog.find_version(&row.resource, &row.version).is_some();
    let rank = rank(&row.version);
    let by_priority = is_served.then_some(rank);
    let by_user = priorities.rank(row).filter(|_| is_served);
    (by_user, is_preferred, is_served && row.preferred, by_priority, row.preferred, rank)
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
    use lifeboat_object::{ApiResource, GroupResource};

    fn row(name: &str, version: &str, preferred: bool) -> Row {
        Row {
            resource: Arc::new(GroupResource::new("example.com", "widgets")),
            version: version.into(),
            namespace: "".into(),
            name: name.into(),
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
            let rows: Vec<Row> = stored.iter().map(|v| row("w", v, *v == preferred)).collect();
            let chosen = choose(rows.iter(), &catalog(&served), &VersionPriorities::default());
            let got: Vec<&str> = chosen.rows().iter().map(|n| &*rows[*n].version).collect();
            assert_eq!(got, [expected], "{stored:?} {served:?}");
        }
    }

    #[test]
    fn the_list_of_the_user_goes_first_as_far_as_both_sides_have_its_versions() {
        for (list, expected, passed_over) in [
            ("widgets.example.com=v1alpha1", "v1alpha1", vec![]),
            ("\n widgets.example.com = v3 , v1beta1 ,v1 \n\n", "v1beta1", vec![]),
            ("widgets.example.com=v3,v9", "v2", vec![]),
            ("gadgets.example.com=v1", "v2", vec![]),
            ("widgets.example.com=\nwidgets.example.com=v1=v1\n \nwidgets.example.com\n=v1", "v2", vec![1, 2, 4, 5]),
        ] {
            let rows = ["v1", "v2", "v1beta1", "v1alpha1", "v9"].map(|version| row("w", version, version == "v1"));
            let catalog = catalog(&["v2", "v1", "v1beta1", "v1alpha1"]);
            let (priorities, told) = VersionPriorities::parse(list);
            let chosen = choose(rows.iter(), &catalog, &priorities);
            let got: Vec<&str> = chosen.rows().iter().map(|n| &*rows[*n].version).collect();
            assert_eq!((got, told), (vec![expected], passed_over), "{list}");
        }
    }

    #[test]
    fn no_object_is_lost_when_others_of_its_type_stand_in_another_version() {
        let rows = [
            row("old", "v1beta1", true),
            row("new", "v1", true),
            row("both", "v1beta1", true),
            row("both", "v1", false),
            row("odd", "v1alpha1", false),
            row("twice", "v1", true),
            row("twice", "v1", true),
        ];
        let chosen = |served: &[&str]| choose(rows.iter(), &catalog(served), &VersionPriorities::default());
        assert_eq!(chosen(&["v1", "v1beta1"]), ChosenRows(vec![3, 1, 4, 0, 6]));
        assert_eq!(chosen(&["v1beta1"]), ChosenRows(vec![2, 1, 4, 0, 6]));
        assert_eq!(chosen(&[]), ChosenRows(vec![2, 1, 4, 0, 6]));
        let found = |name: &str| {
            let key = ObjectKey::new(GroupResource::new("example.com", "widgets"), None, name);
            chosen(&["v1"]).find(&key, |n| rows.get(n))
        };
        assert_eq!(["both", "old", "none"].map(found), [Some(3), Some(0), None]);
    }
}
