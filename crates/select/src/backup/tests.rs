//! The decisions of a backup's filters about objects.

use super::*;
use crate::{list, namespace::NamespaceScope, types::test_catalog};
use lifeboat_api::LabelSelector;
use lifeboat_api::well_known::LABEL_EXCLUDE_FROM_BACKUP;

fn namespace(name: &str, labels: &[(&str, &str)], active: bool) -> NamespaceFacts {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    NamespaceFacts { name: name.to_owned(), labels, active }
}

fn cluster() -> Vec<NamespaceFacts> {
    ["app1", "app2", "default", "kube-system", "velero"].map(|n| namespace(n, &[], true)).to_vec()
}

/// A filter as the server makes it: checked, snapshots excluded, all namespaces spelled out.
fn filter(change: impl FnOnce(&mut BackupSpec)) -> BackupFilter {
    let mut spec = BackupSpec::default();
    change(&mut spec);
    assert_eq!(BackupFilter::validate(&spec), Vec::<String>::new());
    BackupFilter::auto_exclude(&mut spec);
    if spec.included_namespaces.is_empty() {
        spec.included_namespaces = list(&["*"]);
    }
    BackupFilter::new(&spec, None, &test_catalog(), &cluster()).unwrap()
}

/// The types that are collected, in the order of the catalog.
fn collected(filter: &BackupFilter) -> String {
    let catalog = test_catalog();
    catalog.all().filter(|r| filter.collects(r).is_ok()).map(|r| r.resource.as_str()).collect::<Vec<_>>().join(" ")
}

/// The types that stay out even as additional items, beside those of snapshots, which always do.
fn barred(filter: &BackupFilter) -> String {
    let catalog = test_catalog();
    let (snapshots, others): (Vec<_>, Vec<_>) = catalog
        .all()
        .filter(|r| filter.excludes_additional(r))
        .map(|r| r.resource.as_str())
        .partition(|r| r.starts_with("volumesnapshot"));
    assert_eq!(snapshots, ["volumesnapshots", "volumesnapshotcontents"]);
    others.join(" ")
}

fn selector(text: &str) -> LabelSelector {
    crate::parse_selector(text).unwrap()
}

const ALL: &str = "pods configmaps namespaces persistentvolumes deployments storageclasses widgets gadgets";
const NAMESPACED: &str = "pods configmaps deployments widgets";

#[test]
fn old_lists_decide_for_both_scopes() {
    for (includes, excludes, wanted, namespaces, expected, expected_barred) in [
        (&[][..], &[][..], Some(true), &[][..], ALL, ""),
        // Restricted namespaces do not matter once the user asks for cluster-scoped types.
        (&[], &[], Some(true), &["app1"], ALL, ""),
        (&["po", "Widget"], &[], Some(true), &[], "pods widgets", ""),
        // --include-cluster-resources=false, Namespace objects among them.
        (&[], &[], Some(false), &[], NAMESPACED, "namespaces persistentvolumes storageclasses gadgets"),
        (
            &["*"],
            &["pods"],
            None,
            &[],
            "configmaps namespaces persistentvolumes deployments storageclasses widgets gadgets",
            "pods",
        ),
        (&[], &["pods"], None, &["app*"], "configmaps namespaces deployments widgets", "pods"),
        (&["pods"], &[], None, &["app1"], "pods", "namespaces persistentvolumes storageclasses gadgets"),
        (&["pods", "pv", "ns"], &[], None, &["app1"], "pods namespaces", "storageclasses gadgets"),
        (&["pods", "pv"], &[], None, &[], "pods persistentvolumes", "namespaces storageclasses gadgets"),
        (&["*.example.com"], &[], None, &[], "widgets gadgets", "namespaces persistentvolumes storageclasses"),
    ] {
        let filter = filter(|spec| {
            spec.included_resources = list(includes);
            spec.excluded_resources = list(excludes);
            spec.include_cluster_resources = wanted;
            spec.included_namespaces = list(namespaces);
        });
        let case = format!("{includes:?} {excludes:?} {wanted:?} {namespaces:?}");
        assert_eq!(collected(&filter), expected, "{case}");
        assert_eq!(barred(&filter), expected_barred, "{case}");
    }
}

#[test]
fn scoped_lists_decide_for_their_scope() {
    // Namespaced includes and excludes, cluster-scoped includes and excludes, namespaces.
    type Lists = [&'static [&'static str]; 5];
    let cases: [(Lists, &str, &str); 14] = [
        // A backup without filters has everything, also with only the excludes that are automatic.
        ([&[], &[], &[], &[], &[]], ALL, ""),
        ([&["*"], &["volumesnapshots"], &[], &[], &["*"]], ALL, ""),
        // --include-namespaces app1: cluster-scoped types only as additional items.
        ([&[], &[], &[], &[], &["app1"]], "pods configmaps namespaces deployments widgets", ""),
        ([&["pods"], &[], &[], &[], &[]], "pods namespaces", ""),
        ([&[], &["po"], &[], &[], &[]], "configmaps namespaces deployments widgets", "pods"),
        ([&[], &["*"], &[], &[], &[]], "namespaces", "pods configmaps deployments widgets"),
        ([&[], &["*.example.com"], &[], &[], &[]], "pods configmaps namespaces deployments", "widgets"),
        ([&[], &[], &["*"], &[], &["app1"]], ALL, ""),
        ([&[], &[], &["sc"], &[], &[]], "pods configmaps namespaces deployments storageclasses widgets", ""),
        (
            [&[], &[], &["sc", "*.example.com"], &["gadgets"], &["app1"]],
            "pods configmaps namespaces deployments storageclasses widgets",
            "gadgets",
        ),
        ([&[], &[], &[], &["*"], &[]], NAMESPACED, "namespaces persistentvolumes storageclasses gadgets"),
        ([&[], &[], &[], &["ns"], &[]], NAMESPACED, "namespaces"),
        // Entries of the other scope are dropped.
        ([&["sc"], &["pv"], &[], &["pods"], &[]], ALL, ""),
        ([&["sc", "pods"], &[], &["pods", "sc"], &[], &[]], "pods namespaces storageclasses", ""),
    ];
    for (lists, expected, expected_barred) in cases {
        let filter = filter(|spec| {
            spec.included_namespace_scoped_resources = list(lists[0]);
            spec.excluded_namespace_scoped_resources = list(lists[1]);
            spec.included_cluster_scoped_resources = list(lists[2]);
            spec.excluded_cluster_scoped_resources = list(lists[3]);
            spec.included_namespaces = list(lists[4]);
        });
        assert_eq!(collected(&filter), expected, "{lists:?}");
        assert_eq!(barred(&filter), expected_barred, "{lists:?}");
    }
}

#[test]
fn golden_scoped_backup() {
    let filter = filter(|spec| {
        spec.included_cluster_scoped_resources = list(&["storageclasses", "gadgets.example.com"]);
        spec.included_namespace_scoped_resources = list(&["configmaps", "secrets", "persistentvolumeclaims"]);
        spec.excluded_namespaces = list(&["velero", "kube-system"]);
    });
    assert_eq!(collected(&filter), "configmaps namespaces storageclasses gadgets");
    assert_eq!(filter.unresolved(), ["secrets", "persistentvolumeclaims"]);
    assert_eq!(filter.namespaces().to_list(), NamespaceScope::All);
    assert_eq!(["app1", "velero", "kube-system"].map(|n| filter.namespaces().includes(n)), [true, false, false]);
}

#[test]
fn a_labelled_namespace_is_no_restriction() {
    let mut existing = cluster();
    existing[4].labels.insert(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned());
    for spec in [
        BackupSpec { excluded_namespaces: list(&["velero"]), ..BackupSpec::default() },
        BackupSpec { excluded_resources: list(&["pods"]), ..BackupSpec::default() },
    ] {
        let filter = BackupFilter::new(&spec, None, &test_catalog(), &existing).unwrap();
        let pv = test_catalog().resolve("pv").unwrap().clone();
        assert_eq!((filter.collects(&pv), filter.namespaces().includes("velero")), (Ok(()), false));
    }
}

#[test]
fn the_plan_hears_why() {
    let catalog = test_catalog();
    let old = filter(|spec| {
        spec.included_resources = list(&["pods", "pv", "widgets"]);
        spec.excluded_resources = list(&["widgets.*"]);
        spec.included_namespaces = list(&["app1"]);
    });
    let no_cluster = filter(|spec| spec.include_cluster_resources = Some(false));
    let scoped = filter(|spec| {
        spec.included_namespace_scoped_resources = list(&["pods"]);
        spec.excluded_namespace_scoped_resources = list(&["widgets"]);
        spec.excluded_cluster_scoped_resources = list(&["sc"]);
    });
    for (filter, name, expected) in [
        (&old, "widgets", "excluded by excludedResources"),
        (&old, "configmaps", "not in includedResources"),
        (&old, "pv", "cluster-scoped, and the backup is restricted to some namespaces"),
        (&no_cluster, "pv", "cluster-scoped, and includeClusterResources is false"),
        (&scoped, "widgets", "excluded by excludedNamespaceScopedResources"),
        (&scoped, "configmaps", "not in includedNamespaceScopedResources"),
        (&scoped, "sc", "excluded by excludedClusterScopedResources"),
        (&scoped, "pv", "cluster-scoped, not in includedClusterScopedResources, and the backup has filters"),
    ] {
        assert_eq!(filter.collects(catalog.resolve(name).unwrap()), Err(expected), "{name}");
    }
}

#[test]
fn items_are_checked_one_by_one() {
    let catalog = test_catalog();
    let scoped = filter(|spec| {
        spec.included_namespaces = list(&["app1"]);
        spec.excluded_namespace_scoped_resources = list(&["configmaps"]);
        spec.excluded_cluster_scoped_resources = list(&["sc", "ns"]);
        spec.label_selector = Some(selector("tier=gold"));
    });
    let excluded = BTreeMap::from([(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned())]);
    let kept = BTreeMap::from([(LABEL_EXCLUDE_FROM_BACKUP.to_owned(), "false".to_owned())]);
    for (name, namespace, labels, deleting, expected) in [
        ("pods", Some("app1"), &kept, false, Ok(())),
        ("pods", Some("app1"), &excluded, true, Err("labelled velero.io/exclude-from-backup=true")),
        ("pods", Some("app2"), &kept, false, Err("its namespace is not included")),
        ("configmaps", Some("app1"), &kept, false, Err("excluded by excludedNamespaceScopedResources")),
        ("pods", Some("app1"), &kept, true, Err("it is being deleted")),
        // Not collected, but welcome as an additional item.
        ("pv", None, &kept, false, Ok(())),
        ("pv", None, &kept, true, Err("it is being deleted")),
        ("sc", None, &kept, false, Err("its type is excluded")),
        ("ns", None, &kept, false, Ok(())),
        ("ns", Some(""), &excluded, false, Err("labelled velero.io/exclude-from-backup=true")),
    ] {
        let resource = catalog.resolve(name).unwrap();
        assert_eq!(
            scoped.includes_item(ObjectFacts { resource, namespace, name: Some("a"), labels }, deleting),
            expected,
            "{name} {namespace:?} {labels:?} {deleting}"
        );
    }
}

#[test]
fn namespace_objects_are_tracked() {
    let gold = namespace("app1", &[("tier", "gold")], true);
    let plain = namespace("app1", &[], true);
    let other_gold = namespace("app2", &[("tier", "gold")], true);
    let other = namespace("app2", &[], true);
    let gold_ending = namespace("app1", &[("tier", "gold")], false);
    let (a, b) = (vec![selector("tier=gold")], vec![selector("tier=lead"), selector("tier=gold")]);
    // Selectors, whether the namespaces are restricted to app1, the namespace, with collected objects: tracked?
    for (rule, selectors, restricted, facts, objects, expected) in [
        ("a", &a, false, &gold, false, true),
        ("a", &a, true, &other_gold, false, true),
        ("a: not Active", &a, false, &gold_ending, false, false),
        ("b", &b, false, &gold, false, true),
        ("b", &b, true, &other_gold, false, true),
        ("c", &vec![], false, &plain, false, true),
        ("c", &vec![], true, &plain, false, true),
        ("c", &vec![], true, &other, false, false),
        ("c: not Active", &vec![], false, &gold_ending, false, false),
        ("c: selector and all namespaces", &a, false, &plain, false, false),
        ("c: selectors and all namespaces", &b, false, &plain, false, false),
        ("c: selector and some namespaces", &a, true, &plain, false, true),
        ("d", &a, false, &plain, true, true),
        ("d: not Active", &a, true, &gold_ending, true, true),
        ("d: not included", &a, true, &other, true, false),
    ] {
        let filter = filter(|spec| {
            match selectors.as_slice() {
                [one] => spec.label_selector = Some(one.clone()),
                several => spec.or_label_selectors = several.to_vec(),
            }
            if restricted {
                spec.included_namespaces = list(&["app1"]);
            }
        });
        assert_eq!(filter.tracks_namespace(facts, objects), expected, "{rule} {restricted} {facts:?}");
    }
}

/// The queries for pods in the whole cluster.
fn queries(filter: &BackupFilter) -> Vec<String> {
    filter.queries(test_catalog().resolve("pods").unwrap(), None)
}

#[test]
fn every_selector_is_a_query() {
    let golden = filter(|spec| spec.label_selector = Some(selector("tier=gold")));
    let several = filter(|spec| spec.or_label_selectors = vec![selector("b=1,a!=2"), selector("c")]);
    assert_eq!(queries(&filter(|_| {})), [""]);
    assert_eq!(queries(&filter(|spec| spec.label_selector = Some(selector("")))), [""]);
    assert_eq!(queries(&golden), ["tier=gold"]);
    assert_eq!(queries(&several), ["a!=2,b=1", "c"]);
    // A selector is no type filter: cluster-scoped types are listed with it.
    assert_eq!(collected(&golden), collected(&filter(|_| {})));
    let match_labels = [("a b".to_owned(), String::new())].into();
    let broken = LabelSelector { match_labels, ..LabelSelector::default() };
    let broken = BackupSpec { label_selector: Some(broken), ..BackupSpec::default() };
    assert!(BackupFilter::new(&broken, None, &test_catalog(), &[]).is_err());
}

#[test]
fn orders_are_parsed() {
    let catalog = test_catalog();
    let filter = filter(|spec| {
        spec.ordered_resources = [("pods", " app1/b, app1/a,,c "), ("persistentvolumes", "pv2,pv1"), ("widgets", " ,")]
            .map(|(kind, names)| (kind.to_owned(), names.to_owned()))
            .into();
    });
    for (name, expected) in [
        ("pods", Some(list(&["app1/b", "app1/a", "c"]))),
        ("pv", Some(list(&["pv2", "pv1"]))),
        ("widgets", None),
        ("configmaps", None),
    ] {
        assert_eq!(filter.ordered(catalog.resolve(name).unwrap()), expected.as_deref(), "{name}");
    }
}

#[test]
fn names_that_will_not_match_are_reported() {
    let scoped = filter(|spec| {
        spec.included_namespace_scoped_resources = list(&["pods", "pod5", "x.*", "sc"]);
        spec.excluded_cluster_scoped_resources = list(&["po", "gadget", "gadgetz.example.com"]);
    });
    assert_eq!(scoped.unresolved(), ["pod5", "gadgetz.example.com"]);
    assert_eq!(scoped.wrong_scope(), ["sc", "po"]);
    let old = BackupSpec { excluded_resources: list(&[SNAPSHOTS, "pod5"]), ..BackupSpec::default() };
    let old = BackupFilter::new(&old, None, &Catalog::default(), &[]).unwrap();
    assert_eq!((old.unresolved(), old.wrong_scope()), (&list(&["pod5"])[..], &[][..]));
}
