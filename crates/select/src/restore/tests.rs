use super::*;
use crate::policy::PolicyUse;
use crate::{list, parse_selector, types::test_catalog};
use lifeboat_api::{LabelSelector, LabelSelectorRequirement, RestoreStatusSpec};

const BACKUP: [&str; 4] = ["app1", "app2", "dev", "velero"];

fn try_filter(change: impl FnOnce(&mut RestoreSpec)) -> Result<RestoreFilter, SelectorError> {
    let mut spec = RestoreSpec::default();
    change(&mut spec);
    RestoreFilter::new(&spec, None, &test_catalog(), &BACKUP.map(str::to_owned).into())
}

fn filter(change: impl FnOnce(&mut RestoreSpec)) -> RestoreFilter {
    try_filter(change).unwrap()
}

fn id(text: &str) -> GroupResource {
    text.parse().unwrap()
}

fn includes(
    filter: &RestoreFilter,
    resource: &str,
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
) -> Result<(), &'static str> {
    let resource = &id(resource);
    filter.includes_item(RestoredFacts { resource, kind: None, namespace, name: "a", labels: Some(labels) })
}

fn item(filter: &RestoreFilter, resource: &str, namespace: Option<&str>) -> Result<(), &'static str> {
    includes(filter, resource, namespace, &BTreeMap::new())
}

const TYPE: Result<(), &str> = Err("its type is not included");
const NAMESPACE: Result<(), &str> = Err("its namespace is not included");
const NO_CLUSTER: Result<(), &str> = Err("cluster-scoped, and includeClusterResources is false");
const RESTRICTED: Result<(), &str> = Err("cluster-scoped, and the restore is restricted to some namespaces");
const LABELS: Result<(), &str> = Err("its labels do not match the selector");

#[test]
fn problems_are_reported_in_velero_words() {
    let requirement = LabelSelectorRequirement {
        key: "a".into(),
        operator: "Like".into(),
        values: vec![],
        ..LabelSelectorRequirement::default()
    };
    let spec = RestoreSpec {
        included_resources: list(&["*", "pods"]),
        excluded_resources: list(&["nodes", "pods"]),
        included_namespaces: list(&["a", "No_DNS"]),
        excluded_namespaces: list(&["*"]),
        label_selector: Some(LabelSelector::default()),
        or_label_selectors: vec![LabelSelector { match_expressions: vec![requirement], ..Default::default() }],
        ..RestoreSpec::default()
    };
    assert_eq!(
        RestoreFilter::validate(&spec),
        [
            "Invalid included/excluded resource lists: includes list must either contain '*' only, or a non-empty list of items",
            "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes list: pods",
            "Invalid included/excluded namespace lists: excludes list cannot contain '*'",
            "encountered labelSelector as well as orLabelSelectors in restore spec, only one can be specified",
            "invalid label selector: \"Like\" is not a valid label selector operator",
        ]
    );
    assert_eq!(RestoreFilter::validate(&RestoreSpec::default()), Vec::<String>::new());
}

#[test]
fn step_1_types() {
    for (includes, excludes, expected) in [
        (&[][..], &[][..], [true, true, true, true]),
        (&["*"], &[], [true, true, true, true]),
        (&["po", "Deployment"], &[], [true, true, false, true]),
        (&[], &["pods", "datauploads.velero.io"], [false, true, true, true]),
        // `*` excludes nothing, globs match what discovery does not know.
        (&["*.example.com"], &["*"], [false, false, true, true]),
        (&["*s"], &["*.apps"], [true, false, false, true]),
        // A malformed glob ends the search.
        (&["[", "pods"], &[], [false, false, false, true]),
    ] {
        let filter = filter(|spec| {
            spec.included_resources = list(includes);
            spec.excluded_resources = list(excludes);
        });
        let types = ["pods", "deployments.apps", "unknown.example.com", "datauploads.velero.io"];
        assert_eq!(types.map(|t| filter.includes_resource(&id(t))), expected, "{includes:?} {excludes:?}");
        for (resource, expected) in types.into_iter().zip(expected) {
            assert_eq!(item(&filter, resource, Some("app1")), if expected { Ok(()) } else { TYPE }, "{resource}");
        }
    }
}

#[test]
fn step_2_namespaces_and_cluster_scope() {
    // A pod of app1, a DataUpload of velero, a PersistentVolume, and the Namespaces app1 and dev.
    for (includes, excludes, cluster, expected) in [
        (&[][..], &[][..], None, [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
        (&["*"], &[], None, [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
        (&[], &[], Some(true), [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())]),
        (&[], &[], Some(false), [Ok(()), Ok(()), NO_CLUSTER, NO_CLUSTER, NO_CLUSTER]),
        (&["app1"], &[], None, [Ok(()), Ok(()), RESTRICTED, RESTRICTED, RESTRICTED]),
        (&["dev"], &[], None, [NAMESPACE, Ok(()), RESTRICTED, RESTRICTED, RESTRICTED]),
        (&["*"], &["dev"], None, [Ok(()), Ok(()), RESTRICTED, RESTRICTED, RESTRICTED]),
        (&["app1"], &[], Some(true), [Ok(()), Ok(()), Ok(()), Ok(()), NAMESPACE]),
        (&["*"], &["app1"], Some(true), [NAMESPACE, Ok(()), Ok(()), NAMESPACE, Ok(())]),
        (&["app1"], &[], Some(false), [Ok(()), Ok(()), NO_CLUSTER, NO_CLUSTER, NO_CLUSTER]),
        (&["*"], &["app*"], Some(true), [NAMESPACE, Ok(()), Ok(()), NAMESPACE, Ok(())]),
        (&["app?"], &["app2"], Some(true), [Ok(()), Ok(()), Ok(()), Ok(()), NAMESPACE]),
        (&["x*"], &[], None, [NAMESPACE, Ok(()), RESTRICTED, RESTRICTED, RESTRICTED]),
        (&["x*"], &[], Some(true), [NAMESPACE, Ok(()), Ok(()), NAMESPACE, NAMESPACE]),
    ] {
        let filter = filter(|spec| {
            spec.included_namespaces = list(includes);
            spec.excluded_namespaces = list(excludes);
            spec.include_cluster_resources = cluster;
        });
        let items = [
            ("pods", Some("app1")),
            ("datauploads.velero.io", Some("velero")),
            ("persistentvolumes", None),
            ("namespaces", Some("app1")),
            ("namespaces", Some("dev")),
        ];
        assert_eq!(
            items.map(|(resource, namespace)| item(&filter, resource, namespace)),
            expected,
            "{includes:?} {excludes:?} {cluster:?}"
        );
    }
    let unnamed = filter(|spec| {
        spec.included_namespaces = list(&["app1"]);
        spec.include_cluster_resources = Some(true);
    });
    assert_eq!(item(&unnamed, "namespaces", None), NAMESPACE);
}

#[test]
fn step_5_selectors() {
    let select = |text: &str| parse_selector(text).unwrap();
    let gold = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    let none = BTreeMap::new();
    for (selector, or_selectors, labels, expected) in [
        (None, vec![], &none, Ok(())),
        (Some("tier=gold"), vec![], &gold, Ok(())),
        (Some("tier=gold"), vec![], &none, LABELS),
        (None, vec!["a", "tier"], &gold, Ok(())),
        (None, vec!["a", "tier"], &none, LABELS),
        (Some("tier=gold"), vec!["a"], &gold, LABELS),
        (Some(""), vec![], &none, Ok(())),
    ] {
        let filter = filter(|spec| {
            spec.label_selector = selector.map(select);
            spec.or_label_selectors = or_selectors.iter().copied().map(select).collect();
        });
        let case = format!("{selector:?} {or_selectors:?} {labels:?}");
        for (resource, namespace) in [("pods", Some("app1")), ("persistentvolumes", None)] {
            assert_eq!(includes(&filter, resource, namespace, labels), expected, "{case}");
        }
        assert_eq!(includes(&filter, "datauploads.velero.io", Some("velero"), labels), Ok(()), "{case}");
        assert!(filter.includes_additional(&id("pods"), Some("app1")), "{case}");
    }
}

#[test]
fn additional_items_pass_fewer_checks() {
    // Is it let in: a pod of app1, one of dev, a DataUpload of velero, a PersistentVolume, a StorageClass, Namespace dev?
    for (cluster, expected) in [
        (None, [true, false, true, true, false, false]),
        (Some(true), [true, false, true, true, false, false]),
        (Some(false), [true, false, true, false, false, false]),
    ] {
        let filter = filter(|spec| {
            spec.included_namespaces = list(&["app1"]);
            spec.excluded_resources = list(&["sc"]);
            spec.include_cluster_resources = cluster;
        });
        let items = [
            ("pods", Some("app1")),
            ("pods", Some("dev")),
            ("datauploads.velero.io", Some("velero")),
            ("persistentvolumes", None),
            ("storageclasses.storage.k8s.io", None),
            ("namespaces", Some("dev")),
        ];
        assert_eq!(items.map(|(r, n)| filter.includes_additional(&id(r), n)), expected, "{cluster:?}");
    }
}

#[test]
fn what_matches_nothing_is_said() {
    for (namespaces, types, expected) in [
        (&["app*", "gone"][..], &["pods", "w*"][..], &[][..]),
        (&["app*", "x*"], &[], &["no namespace in the backup matches the included pattern \"x*\""]),
        (
            &["x*"],
            &[],
            &[
                "no namespace in the backup matches the included pattern \"x*\"",
                "includedNamespaces match no namespace in the backup: nothing is restored to any",
            ],
        ),
        (
            &[],
            &["foos", "foos.new.example.com"],
            &["the included resource \"foos\" is not known to the cluster: write it with its group to restore it"],
        ),
    ] {
        let filter = filter(|spec| {
            spec.included_namespaces = list(namespaces);
            spec.included_resources = list(types);
            spec.excluded_resources = list(&["nodes"]);
        });
        assert_eq!(filter.warnings(), expected, "{namespaces:?} {types:?}");
    }
}

#[test]
fn malformed_patterns_stop_the_restore() {
    let wildcard = |text: &str| Some(SelectorError::Wildcard(text.to_owned()));
    const UNCLOSED: &str = "wildcard pattern contains unclosed bracket '['";
    for (includes, excludes, expected) in [
        (&["a[", "b"][..], &[][..], wildcard(UNCLOSED)),
        (&["a"], &["b["], wildcard(UNCLOSED)),
        (&["a*", "{b}"], &[], wildcard("wildcard pattern contains unsupported characters: |, (, ), !, {, }, ,")),
        (&["a**"], &[], wildcard("wildcard pattern contains consecutive asterisks (only single * allowed)")),
        // Nothing is expanded, so nothing is looked at.
        (&["*"], &["b["], None),
        (&["{b}"], &[], None),
    ] {
        let made = try_filter(|spec| {
            spec.included_namespaces = list(includes);
            spec.excluded_namespaces = list(excludes);
        });
        assert_eq!(made.err(), expected, "{includes:?} {excludes:?}");
    }
    assert_eq!(
        SelectorError::Wildcard(UNCLOSED.to_owned()).to_string(),
        format!("error expanding wildcard patterns in namespace includes/excludes: {UNCLOSED}")
    );
    let requirement = LabelSelectorRequirement {
        key: "a b".into(),
        operator: "Exists".into(),
        values: vec![],
        ..LabelSelectorRequirement::default()
    };
    let broken = LabelSelector { match_expressions: vec![requirement], ..Default::default() };
    assert!(try_filter(|spec| spec.label_selector = Some(broken.clone())).is_err());
    assert!(try_filter(|spec| spec.or_label_selectors = vec![broken]).is_err());
}

#[test]
fn status_is_restored_for_what_was_asked() {
    for (status, expected) in [
        (None, [false, false]),
        (Some((&[][..], &[][..])), [true, true]),
        (Some((&["*"], &["po"])), [false, true]),
        (Some((&["po"], &[])), [true, false]),
    ] {
        let filter = filter(|spec| {
            spec.restore_status = status.map(|(includes, excludes)| RestoreStatusSpec {
                included_resources: list(includes),
                excluded_resources: list(excludes),
                ..RestoreStatusSpec::default()
            });
        });
        assert_eq!(["pods", "widgets.example.com"].map(|t| filter.restores_status(&id(t))), expected, "{status:?}");
    }
}

#[test]
fn a_policy_for_types_not_restored_is_told_with_the_deciding_list() {
    let text = "version: v1
namespacedFilterPolicies: [{namespaces: [app1], resourceFilters: [{kinds: [pods]}, {kinds: [widgets]}, {kinds: [configmaps]}]}]";
    let policies = ResourcePolicies::parse(text, PolicyUse::Restore).unwrap();
    let warned = |includes: &[&str], excludes: &[&str]| {
        let (included_resources, excluded_resources) = (list(includes), list(excludes));
        let spec = RestoreSpec { included_resources, excluded_resources, ..RestoreSpec::default() };
        let backup = BACKUP.map(str::to_owned).into();
        let filter = RestoreFilter::new(&spec, Some(&policies), &test_catalog(), &backup).unwrap();
        filter.warnings().to_vec()
    };
    let told =
        |resource: &str, why: &str| format!("a filter policy names {resource}, which {why}: its filter has no effect");
    let (excluded, missing) = ("excludedResources leave out", "is not in includedResources");
    assert_eq!(warned(&[], &[]), Vec::<String>::new());
    assert_eq!(warned(&["pods"], &[]), [told("configmaps", missing), told("widgets.example.com", missing)]);
    assert_eq!(warned(&["*"], &["widgets"]), [told("widgets.example.com", excluded)]);
    let both = [told("configmaps", missing), told("widgets.example.com", excluded)];
    assert_eq!(warned(&["pods"], &["widgets"]), both);
}
