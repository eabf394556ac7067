//! Order of a restore: divides the objects of an archive into levels. Pure.

use crate::request::priorities::Priorities;
use crate::walk::read::Facts;
use lifeboat_archive::index::Row;
use lifeboat_object::{Catalog, GroupResource};
use std::collections::BTreeMap;

/// Objects that may be restored at the same time: one level ends before the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// For people.
    pub(crate) name: String,
    /// Its objects.
    pub(crate) items: Vec<Facts>,
}

/// Types that a later level builds on: objects that were refused for a while are tried again before such a level is
/// left.
const SETTLED: [&str; 4] = ["persistentvolumes", "persistentvolumeclaims", "serviceaccounts", "pods"];

/// The type that defines others.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Returns true if a later level builds on objects of this type.
pub(crate) fn is_built_on(resource: &str) -> bool {
    resource == DEFINITIONS || SETTLED.contains(&resource)
}

impl Level {
    /// Returns true if new types are served after it.
    pub(crate) fn defines_types(&self) -> bool {
        self.name.starts_with("customresourcedefinitions.")
    }

    /// Returns true if its objects are namespaces.
    pub(crate) fn is_of_namespaces(&self) -> bool {
        self.name == "namespaces"
    }

    /// Returns true if objects that wait must be settled before the next level begins: a claim made after its
    /// StatefulSet would be an empty one from the template, a pod made after its ReplicaSet a surplus.
    pub(crate) fn must_settle(&self) -> bool {
        SETTLED.contains(&self.name.as_str())
    }
}

/// Types that can refuse or count objects that are restored after them: they come last, unless the user gave a list.
const AT_THE_END: [&str; 6] = [
    "resourcequotas",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "apiservices.apiregistration.k8s.io",
];

/// Orders the objects. Names in the priorities are resolved by discovery where it knows them.
pub(crate) fn into_levels<'a>(
    facts: Vec<Facts>,
    row: impl Fn(usize) -> Option<&'a Row>,
    priorities: &Priorities,
    catalog: &Catalog,
) -> Vec<Level> {
    let mut types = FactsByType::default();
    for fact in facts {
        if let Some(row) = row(fact.row) {
            let (early, others) = types.0.entry(row.resource.to_string()).or_default();
            if fact.early { early } else { others }.push(fact);
        }
    }
    let canonical = |name: &String| resolve(name, catalog, &types);
    let high: Vec<String> = priorities.high.iter().map(canonical).collect();
    let low: Vec<String> = priorities.low.iter().map(canonical).collect();
    let mut levels: Vec<Level> = high.iter().flat_map(|name| types.take(name)).collect();
    let mut last: Vec<Level> = low.iter().flat_map(|name| types.take(name)).collect();
    if !priorities.custom {
        last.extend(AT_THE_END.iter().flat_map(|name| types.take(name)));
    }
    // The others in alphabetical order, each a level of its own: a ControllerRevision must be there before its
    // StatefulSet, or the controller makes one itself.
    let rest: Vec<String> = types.0.keys().cloned().collect();
    levels.extend(rest.iter().flat_map(|name| types.take(name)));
    levels.extend(last);
    levels
}

/// Objects by type: those that come early, and the others.
#[derive(Default)]
struct FactsByType(BTreeMap<String, (Vec<Facts>, Vec<Facts>)>);

impl FactsByType {
    /// The levels of a type, which is planned then.
    fn take(&mut self, name: &str) -> Vec<Level> {
        let (early, others) = self.0.remove(name).unwrap_or_default();
        let level = |items| Level { name: name.to_owned(), items };
        [early, others].into_iter().filter(|items| !items.is_empty()).map(level).collect()
    }
}

/// The name of a type as the archive has it.
fn resolve(name: &str, catalog: &Catalog, archive: &FactsByType) -> String {
    if archive.0.contains_key(name) {
        return name.to_owned();
    }
    if let Some(found) = catalog.resolve(name) {
        return found.group_resource().to_string();
    }
    // A type that this cluster does not serve yet, such as one defined in the archive itself.
    let plain = |text: &&String| text.parse::<GroupResource>().is_ok_and(|g| g.resource == name);
    archive.0.keys().find(plain).cloned().unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::read::StateDigest;
    use lifeboat_object::ApiResource;
    use std::sync::Arc;

    /// The names of the levels of one object of each of these types.
    fn levels(types: &[&str], priorities: &str, catalog: &Catalog) -> Vec<String> {
        let rows: Vec<Row> = types.iter().map(|name| row(name)).collect();
        let facts = |row| Facts { row, early: false, ended: false, state: StateDigest::default() };
        let facts: Vec<Facts> = (0..rows.len()).map(facts).collect();
        let levels = into_levels(facts, |n| rows.get(n), &priorities.parse().unwrap(), catalog);
        levels.into_iter().map(|level| level.name).collect()
    }

    fn row(resource: &str) -> Row {
        Row {
            resource: Arc::new(resource.parse().unwrap()),
            version: "v1".into(),
            namespace: "".into(),
            name: "n".into(),
            preferred: true,
            member: 0,
            offset: 0,
            length: 0,
            hash: [0; 16],
        }
    }

    #[test]
    fn low_types_come_after_all_others() {
        let types =
            ["clusters.cluster.x-k8s.io", "apps.kappctrl.k14s.io", "zebras.example.com", "pods", "ants.example.com"];
        let expected =
            ["pods", "ants.example.com", "zebras.example.com", "clusters.cluster.x-k8s.io", "apps.kappctrl.k14s.io"];
        assert_eq!(levels(&types, "", &Catalog::default()), expected);
    }

    #[test]
    fn a_list_of_the_user_says_everything() {
        let types = ["pods", "resourcequotas", "zebras.example.com", "ants.example.com", "clusters.cluster.x-k8s.io"];
        // Nothing is moved to the end that the list does not name.
        let expected =
            ["zebras.example.com", "pods", "resourcequotas", "clusters.cluster.x-k8s.io", "ants.example.com"];
        let found =
            levels(&types, "zebras.example.com,-,clusters.cluster.x-k8s.io,ants.example.com", &Catalog::default());
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_in_the_list_is_resolved_as_people_write_it() {
        let types = [("", "pods", "Pod", "po"), ("apps", "deployments", "Deployment", "deploy")];
        let types = types.map(|(group, name, kind, short)| {
            Arc::new(ApiResource { short_names: vec![short.to_owned()], ..ApiResource::new(group, "v1", name, kind) })
        });
        let catalog = Catalog::new(types.into(), vec![]);
        let in_backup = ["widgets.example.com", "deployments.apps", "pods", "ants.example.com"];
        // Of a type that the cluster does not serve, the backup knows the group.
        let expected = ["widgets.example.com", "deployments.apps", "ants.example.com", "pods"];
        assert_eq!(levels(&in_backup, "widgets,deploy,nothing,-,Pod", &catalog), expected);
    }

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
        let rows: Vec<Row> = types.iter().map(|name| row(name)).collect();
        let facts: Vec<Facts> = (0..rows.len())
            .map(|row| Facts { row, early: row == 6, ended: false, state: StateDigest::default() })
            .collect();
        let levels = into_levels(facts, |n| rows.get(n), &Priorities::default(), &Catalog::default());
        let got: Vec<(String, Vec<usize>)> =
            levels.into_iter().map(|l| (l.name, l.items.iter().map(|one| one.row).collect())).collect();
        assert_eq!(
            got,
            [
                ("customresourcedefinitions.apiextensions.k8s.io".to_owned(), vec![5]),
                ("namespaces".to_owned(), vec![3]),
                ("services".to_owned(), vec![6]),
                ("services".to_owned(), vec![1]),
                ("deployments.apps".to_owned(), vec![2]),
                ("widgets.example.com".to_owned(), vec![4]),
                ("resourcequotas".to_owned(), vec![0]),
            ]
        );
    }
}
