//! Plans the lists of a backup: their types and order, and the types that are left out, with the reason. Pure.

use crate::request::lane::Lane;
use lifeboat_api::Features;
use lifeboat_object::{ApiResource, Catalog, GroupResource};
use lifeboat_select::{BackupFilter, NamespaceScope, can_be_saved, cohabiting_name};
use std::sync::Arc;

/// The lists of a backup, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListPlan {
    /// Types to list.
    pub(crate) lists: Vec<PlannedList>,
    /// Types that are not listed.
    pub(crate) excluded: Vec<Excluded>,
}

/// A type to list.
#[derive(Clone, Debug)]
pub(crate) struct PlannedList {
    /// The type, in one of its versions.
    pub(crate) resource: Arc<ApiResource>,
    /// The places where it is listed.
    pub(crate) places: Vec<PlannedPlace>,
    /// Namespaces to list one by one instead when the list of the whole cluster is denied; none for a type of the cluster.
    pub(crate) when_denied: Arc<[String]>,
    /// True when actions look at the objects.
    pub(crate) is_looked_at: bool,
}

/// A place where a type is listed, and the selectors of its lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedPlace {
    /// A namespace, or the whole cluster.
    pub(crate) namespace: Option<String>,
    /// Label selectors, one list each; one empty selector for no restriction.
    pub(crate) selectors: Vec<String>,
}

/// A type that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// Which.
    pub resource: GroupResource,
    /// The reason.
    pub reason: &'static str,
}

/// The versions in which objects are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// The version that the cluster prefers.
    Preferred,
    /// All versions that it serves.
    All,
}

impl Versions {
    pub(crate) fn of(features: Features) -> Self {
        if features.api_group_versions { Self::All } else { Self::Preferred }
    }
}

/// Plans the lists of a backup from a fresh discovery. Namespaces are not in it: they are read before, because the
/// filters ask for them; `existing` are their names. Types that actions look at come first: all of their objects must be
/// known before the first one has its turn. They see an object in its preferred version; in others it is saved as it is.
pub(crate) fn plan(
    catalog: &Catalog,
    filter: &BackupFilter,
    lane: &Lane,
    existing: &[String],
    versions: Versions,
) -> ListPlan {
    let included: Arc<[String]> = existing.iter().filter(|name| filter.namespaces().includes(name)).cloned().collect();
    let namespaces = match filter.namespaces().to_list() {
        NamespaceScope::All => None,
        NamespaceScope::Names(names) => Some(names),
    };
    let mut plan = ListPlan::default();
    let mut cohabited: Vec<&str> = Vec::new();
    for resource in catalog.preferred() {
        let mut exclude = |reason| plan.excluded.push(Excluded { resource: resource.group_resource(), reason });
        if !can_be_saved(resource) {
            exclude("the API server cannot list, get, create and delete it");
            continue;
        }
        if let Err(reason) = filter.collects(resource) {
            exclude(reason);
            continue;
        }
        if let Some(name) = cohabiting_name(resource) {
            if cohabited.contains(&name) {
                exclude("another API group serves the same objects");
                continue;
            }
            cohabited.push(name);
        }
        if resource.group_resource().is_namespaces() {
            continue;
        }
        let place = |namespace: Option<String>| {
            let selectors = filter.queries(resource, namespace.as_deref());
            PlannedPlace { namespace, selectors }
        };
        let places: Vec<PlannedPlace> = match &namespaces {
            Some(names) if resource.namespaced => names.iter().cloned().map(Some).map(place).collect(),
            _ => vec![place(None)],
        };
        // There may be no namespace to list at all.
        if !places.is_empty() && places.iter().all(|place| place.selectors.is_empty()) {
            exclude("the filter policies of all namespaces leave it out");
            continue;
        }
        let when_denied = if resource.namespaced { Arc::clone(&included) } else { Arc::default() };
        // compat: of types that two groups serve Velero saves one version alone.
        if versions == Versions::All && cohabiting_name(resource).is_none() {
            for other in catalog.all().filter(|other| is_another_version(other, resource)) {
                let (resource, places, when_denied) = (Arc::clone(other), places.clone(), Arc::clone(&when_denied));
                plan.lists.push(PlannedList { resource, places, when_denied, is_looked_at: false });
            }
        }
        let is_looked_at = lane.takes(resource);
        plan.lists.push(PlannedList { resource: Arc::clone(resource), places, when_denied, is_looked_at });
    }
    // Inside the core group pods, claims and volumes come first (velero: pkg/backup/item_collector.go).
    plan.lists.sort_by_key(|l| (!l.is_looked_at, core_rank(&l.resource)));
    plan
}

/// Returns true if this is the same type in a version that can be saved too.
fn is_another_version(other: &ApiResource, preferred: &ApiResource) -> bool {
    other.group == preferred.group
        && other.resource == preferred.resource
        && other.version != preferred.version
        && can_be_saved(other)
}

fn core_rank(resource: &ApiResource) -> u8 {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => 0,
        ("", "persistentvolumeclaims") => 1,
        ("", "persistentvolumes") => 2,
        ("", _) => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_action::Actions;
    use lifeboat_api::BackupSpec;

    fn resource(group: &str, name: &str, verbs: &[&str]) -> Arc<ApiResource> {
        Arc::new(ApiResource {
            verbs: verbs.iter().map(|v| (*v).to_owned()).collect(),
            ..ApiResource::new(group, "v1", name, name)
        })
    }

    #[test]
    fn lists_what_can_come_back_once_and_volumes_first() {
        let all = ["list", "create", "get", "delete"];
        let catalog = Catalog::new(
            vec![
                resource("", "bindings", &["create"]),
                resource("", "configmaps", &all),
                resource("", "events", &all),
                resource("", "persistentvolumes", &all),
                resource("", "serviceaccounts", &all),
                resource("", "persistentvolumeclaims", &all),
                resource("", "pods", &all),
                resource("apps", "deployments", &all),
                resource("events.k8s.io", "events", &all),
                resource("example.com", "events", &all),
                resource("extensions", "deployments", &all),
            ],
            vec![],
        );
        let mut spec = BackupSpec::default();
        BackupFilter::auto_exclude(&mut spec);
        let filter = BackupFilter::new(&spec, None, &catalog, &[]).unwrap();
        let lane = Lane::new(&catalog, &Actions::default(), None).unwrap();
        let plan = plan(&catalog, &filter, &lane, &[], Versions::Preferred);
        let names: Vec<String> = plan.lists.iter().map(|l| l.resource.group_resource().to_string()).collect();
        assert_eq!(
            names,
            [
                "pods",
                "persistentvolumeclaims",
                "persistentvolumes",
                "serviceaccounts",
                "configmaps",
                "events",
                "deployments.apps",
                "events.example.com"
            ]
        );
        let excluded: Vec<String> = plan.excluded.iter().map(|e| format!("{}: {}", e.resource, e.reason)).collect();
        assert_eq!(
            excluded,
            [
                "bindings: the API server cannot list, get, create and delete it",
                "events.events.k8s.io: another API group serves the same objects",
                "deployments.extensions: another API group serves the same objects",
            ]
        );
    }

    #[test]
    fn a_type_that_two_groups_serve_is_saved_from_the_first_of_the_api_server() {
        let all = ["list", "create", "get", "delete"];
        for (name, [one, other]) in [
            ("deployments", ["extensions", "apps"]),
            ("daemonsets", ["extensions", "apps"]),
            ("replicasets", ["extensions", "apps"]),
            ("networkpolicies", ["extensions", "networking.k8s.io"]),
            ("events", ["", "events.k8s.io"]),
        ] {
            for (first, second) in [(one, other), (other, one)] {
                let catalog = Catalog::new(vec![resource(first, name, &all), resource(second, name, &all)], vec![]);
                let filter = BackupFilter::new(&BackupSpec::default(), None, &catalog, &[]).unwrap();
                let lane = Lane::new(&catalog, &Actions::default(), None).unwrap();
                let plan = plan(&catalog, &filter, &lane, &[], Versions::All);
                let listed: Vec<GroupResource> = plan.lists.iter().map(|list| list.resource.group_resource()).collect();
                let excluded: Vec<&GroupResource> = plan.excluded.iter().map(|excluded| &excluded.resource).collect();
                let [first, second] = [first, second].map(|group| GroupResource::new(group, name));
                assert_eq!((listed, excluded), (vec![first], vec![&second]));
            }
        }
    }

    #[test]
    fn all_versions_are_listed_where_that_is_asked_for() {
        let version = |group: &str, version: &str, name: &str, verbs: &[&str], preferred| {
            Arc::new(ApiResource {
                verbs: verbs.iter().map(|v| (*v).to_owned()).collect(),
                preferred,
                ..ApiResource::new(group, version, name, name)
            })
        };
        let all = ["list", "create", "get", "delete"];
        let catalog = Catalog::new(
            vec![
                version("example.com", "v1", "widgets", &all, true),
                version("example.com", "v2beta1", "widgets", &all, false),
                version("example.com", "v1alpha1", "widgets", &["get"], false),
                version("apps", "v1", "deployments", &all, true),
                version("apps", "v1beta1", "deployments", &all, false),
            ],
            vec![],
        );
        let filter = BackupFilter::new(&BackupSpec::default(), None, &catalog, &[]).unwrap();
        let lane = Lane::new(&catalog, &Actions::default(), None).unwrap();
        let listed = |versions| -> Vec<String> {
            let mut listed: Vec<String> = plan(&catalog, &filter, &lane, &[], versions)
                .lists
                .iter()
                .map(|list| format!("{} {}", list.resource.group_resource(), list.resource.version))
                .collect();
            listed.sort();
            listed
        };
        assert_eq!(listed(Versions::Preferred), ["deployments.apps v1", "widgets.example.com v1"]);
        let both = ["deployments.apps v1", "widgets.example.com v1", "widgets.example.com v2beta1"];
        assert_eq!(listed(Versions::All), both);
    }

    #[test]
    fn of_a_type_that_two_groups_serve_the_one_that_is_asked_for_is_saved() {
        let all = ["list", "create", "get", "delete"];
        let catalog =
            Catalog::new(vec![resource("", "events", &all), resource("events.k8s.io", "events", &all)], vec![]);
        let lane = Lane::new(&catalog, &Actions::default(), None).unwrap();
        let listed = |included: &[&str]| -> Vec<String> {
            let included_resources = included.iter().map(|name| (*name).to_owned()).collect();
            let spec = BackupSpec { included_resources, ..BackupSpec::default() };
            let filter = BackupFilter::new(&spec, None, &catalog, &[]).unwrap();
            let plan = plan(&catalog, &filter, &lane, &[], Versions::Preferred);
            plan.lists.iter().map(|list| list.resource.group_resource().to_string()).collect()
        };
        assert_eq!(listed(&["events"]), ["events"]);
        assert_eq!(listed(&["events.events.k8s.io"]), ["events.events.k8s.io"]);
        assert_eq!(listed(&["*"]), ["events"]);
    }
}
