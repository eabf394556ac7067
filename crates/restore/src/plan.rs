//! In which levels the objects of an archive are restored. Pure.

use crate::priorities::Priorities;
use crate::read::Facts;
use lifeboat_archive::index::Row;
use lifeboat_object::{Catalog, GroupResource};
use std::collections::BTreeMap;

/// Objects that may be restored at the same time: one level ends before the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// For people.
    pub(crate) name: String,
    /// Rows of the archive.
    pub(crate) rows: Vec<usize>,
}

/// Types that a later level builds on: what was refused for a while is tried again before such a level is left.
const SETTLED: [&str; 4] = ["persistentvolumes", "persistentvolumeclaims", "serviceaccounts", "pods"];

impl Level {
    /// Whether refused objects must be settled before the next level begins: a claim made after its StatefulSet would
    /// be an empty one from the template, a pod made after its ReplicaSet a surplus.
    pub(crate) fn must_settle(&self) -> bool {
        SETTLED.contains(&self.name.as_str())
    }
}

/// Types that can refuse or count what is restored after them: last of all, unless the user gave a list.
const AT_THE_END: [&str; 6] = [
    "resourcequotas",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "apiservices.apiregistration.k8s.io",
];

/// Orders the objects. Names in the priorities are resolved by discovery where it knows them.
pub(crate) fn plan<'a>(
    facts: &[Facts],
    row: impl Fn(usize) -> Option<&'a Row>,
    priorities: &Priorities,
    catalog: &Catalog,
) -> Vec<Level> {
    let mut by_type: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut early: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for fact in facts {
        if let Some(row) = row(fact.row) {
            let types = if fact.early { &mut early } else { &mut by_type };
            types.entry(row.resource.to_string()).or_default().push(fact.row);
        }
    }
    for name in early.keys() {
        by_type.entry(name.clone()).or_default();
    }
    let canonical = |name: &String| resolve(name, catalog, &by_type);
    let high: Vec<String> = priorities.high.iter().map(canonical).collect();
    let low: Vec<String> = priorities.low.iter().map(canonical).collect();
    let mut levels = Vec::new();
    let mut take = |name: &str, levels: &mut Vec<Level>| {
        let Some(rows) = by_type.remove(name) else { return };
        for rows in [early.remove(name).unwrap_or_default(), rows] {
            if !rows.is_empty() {
                levels.push(Level { name: name.to_owned(), rows });
            }
        }
    };
    for name in &high {
        take(name, &mut levels);
    }
    let mut last = Vec::new();
    for name in &low {
        take(name, &mut last);
    }
    if !priorities.custom {
        for name in AT_THE_END {
            take(name, &mut last);
        }
    }
    for rest in [early, by_type] {
        let rows: Vec<usize> = rest.into_values().flatten().collect();
        if !rows.is_empty() {
            levels.push(Level { name: "all other types".to_owned(), rows });
        }
    }
    levels.extend(last);
    levels
}

/// The name of a type as the archive has it.
fn resolve(name: &str, catalog: &Catalog, archive: &BTreeMap<String, Vec<usize>>) -> String {
    if archive.contains_key(name) {
        return name.to_owned();
    }
    if let Some(found) = catalog.resolve(name) {
        return found.group_resource().to_string();
    }
    // A type that this cluster does not serve yet, such as one defined in the archive itself.
    let plain = |text: &&String| text.parse::<GroupResource>().is_ok_and(|g| g.resource == name);
    archive.keys().find(plain).cloned().unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_level_for_each_priority_and_quotas_last() {
        let types = [
            "resourcequotas",
            "services",
            "deployments.apps",
            "namespaces",
            "widgets.example.com",
            "customresourcedefinitions.apiextensions.k8s.io",
            "services",
        ];
        let rows: Vec<Row> = types
            .iter()
            .map(|t| Row {
                resource: Arc::new(t.parse().unwrap()),
                version: "v1".into(),
                namespace: "".into(),
                name: "n".into(),
                preferred: true,
                member: 0,
                offset: 0,
                length: 0,
                hash: [0; 16],
            })
            .collect();
        let facts: Vec<Facts> = (0..rows.len()).map(|row| Facts { row, early: row == 6 }).collect();
        let levels = plan(&facts, |n| rows.get(n), &Priorities::default(), &Catalog::default());
        let got: Vec<(String, Vec<usize>)> = levels.into_iter().map(|l| (l.name, l.rows)).collect();
        assert_eq!(
            got,
            [
                ("customresourcedefinitions.apiextensions.k8s.io".to_owned(), vec![5]),
                ("namespaces".to_owned(), vec![3]),
                ("services".to_owned(), vec![6]),
                ("services".to_owned(), vec![1]),
                ("all other types".to_owned(), vec![2, 4]),
                ("resourcequotas".to_owned(), vec![0]),
            ]
        );
    }
}
