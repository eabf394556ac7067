//! Parsing of policy documents, their errors, and the objects and volumes that they select.

use super::*;
use crate::types::test_catalog;
use crate::{BackupFilter, NamespaceFacts, ObjectFacts, RestoreFilter, RestoredFacts};
use lifeboat_api::{BackupSpec, RestoreSpec};
use lifeboat_object::{GroupResource, Quantity};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn parse(text: &str) -> Result<ResourcePolicies, PolicyError> {
    ResourcePolicies::parse(text, PolicyUse::Backup)
}

fn invalid(text: &str, operation: PolicyUse) -> Vec<String> {
    match ResourcePolicies::parse(&format!("version: v1\n{text}"), operation) {
        Err(PolicyError::Invalid(problems)) => problems,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_document_that_cannot_be_decoded_says_where() {
    for (text, expected) in [
        ("", "failed to decode yaml data into resource policies  EOF"),
        ("\n# nothing\n", "failed to decode yaml data into resource policies  EOF"),
        (
            &" ".repeat(RulesText::MOST_BYTES + 1),
            "failed to decode yaml data into resource policies  it has more than 1048576 bytes",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err(), PolicyError::Undecoded(expected.to_owned()));
    }
    for (text, parts) in [
        ("version: v1\nvolumePolices: []\n", ["unknown field", "volumePolices", "line 2"]),
        ("version: v1\nclusterScopedFilterPolicy:\n  filters: []\n", ["unknown field", "filters", "line 3"]),
        ("version: v1\n---\nversion: v1\n", ["multiple", "documents", "line 3"]),
        (
            "version: v1\nclusterScopedFilterPolicy:\n  resourceFilters:\n  - {kinds: [pv], labelSelector: {match: {}}}\n",
            ["unknown field", "match", "line 4"],
        ),
        ("version: v1\nversion: v1\n", ["duplicate", "version", "line 2"]),
        (
            "version: v1\nvolumePolicies:\n- conditions: {pvcLabels: [a]}\n  action: {type: skip}\n",
            ["expected mapping", "line 3", "column 27"],
        ),
    ] {
        let Err(PolicyError::Undecoded(why)) = parse(text) else { panic!("{text}") };
        let found = parts.iter().filter(|part| why.to_lowercase().contains(&part.to_lowercase())).count();
        assert_eq!(found, parts.len(), "{text}: {why}");
    }
}

#[test]
fn what_makes_no_sense_in_a_document_is_told_at_once_with_its_place() {
    for (text, expected) in [
        (
            "volumePolicies: [{conditions: {capacity: 10Gi}, action: {type: skip}}]",
            &["volumePolicies[0]: wrong format of Capacity 10Gi (line 2)"][..],
        ),
        (
            "volumePolicies: [{conditions: {capacity: '1,2,3'}, action: {type: skip}}]",
            &["volumePolicies[0]: wrong format of Capacity 1,2,3 (line 2)"],
        ),
        (
            "volumePolicies:\n- conditions: {capacity: 'many,'}\n  action: {type: skip}",
            &[
                "volumePolicies[0]: wrong format of Capacity many, with err quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (line 3)",
            ],
        ),
        (
            "volumePolicies: [{conditions: {capacity: '20Gi,10Gi'}, action: {type: skip}}]",
            &[
                "volumePolicies[0]: illegal values for capacity 20Gi,10Gi: the upper bound is below the lower one (line 2)",
            ],
        ),
        ("volumePolicies: [{action: {type: explode}}]", &["volumePolicies[0]: invalid action type explode (line 2)"]),
        ("volumePolicies: [{action: {}}]", &["volumePolicies[0]: invalid action type  (line 2)"]),
        (
            "volumePolicies: [{conditions: {csi: {volumeAttributes: {a: b}}}, action: {type: skip}}]",
            &["volumePolicies[0]: csi driver should not be empty when filtering by volume attributes (line 2)"],
        ),
        (
            "volumePolicies: [{conditions: {pvcPhase: [Gone]}, action: {type: skip}}]",
            &["volumePolicies[0]: pvcPhase: \"Gone\" is none of Pending, Bound, Lost (line 2)"],
        ),
        (
            "volumePolicies: [{conditions: {pvcVolumeMode: block}, action: {type: skip}}]",
            &["volumePolicies[0]: pvcVolumeMode: \"block\" is none of Filesystem, Block (line 2)"],
        ),
        (
            "volumePolicies: [{conditions: {pvcAccessModes: [RWO]}, action: {type: skip}}]",
            &[
                "volumePolicies[0]: pvcAccessModes: \"RWO\" is none of ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod (line 2)",
            ],
        ),
        (
            "volumePolicies: [{action: {type: snapshot, parameters: {dataMover: nonsense}}}]",
            &["volumePolicies[0]: dataMover: \"nonsense\" is none of velero, velero-fs, velero-block (line 2)"],
        ),
        (
            "volumePolicies: [{action: {type: snapshot, parameters: {dataMover: 1, snapshotClass: ''}}}]",
            &[
                "volumePolicies[0]: dataMover must be a string (line 2)",
                "volumePolicies[0]: snapshotClass must not be empty (line 2)",
            ],
        ),
        (
            "volumePolicies: [{action: {type: snapshot, parameters: {snapshotClass: [], more: 1}}}]",
            &["volumePolicies[0]: snapshotClass must be a string (line 2)"],
        ),
        (
            "volumePolicies: [{action: {type: snapshot-native, parameters: {snapshotClass: a}}}, {action: {type: snapshot-csi, parameters: {dataMover: velero}}}]",
            &[
                "volumePolicies[0]: the action snapshot-native has no parameter \"snapshotClass\" (line 2)",
                "volumePolicies[1]: the action snapshot-csi has no parameter \"dataMover\" (line 2)",
            ],
        ),
        (
            "volumePolicies: [{action: {type: skip, parameters: {snapshotClass: a}}}]",
            &["volumePolicies[0]: the parameter snapshotClass is for snapshots only (line 2)"],
        ),
        (
            "includeExcludePolicy: {includedNamespaceScopedResources: ['*']}",
            &["includeExcludePolicy: cannot use '*' in includes or excludes filters in the policy (line 2)"],
        ),
        (
            "includeExcludePolicy: {includedClusterScopedResources: [pv], excludedClusterScopedResources: [pv]}",
            &["includeExcludePolicy: excludes list cannot contain an item in the includes list: pv (line 2)"],
        ),
        (
            "clusterScopedFilterPolicy: {resourceFilters: []}",
            &[
                "clusterScopedFilterPolicy: resourceFilters cannot be empty; remove the policy block entirely if it is not needed (line 2)",
            ],
        ),
        (
            "clusterScopedFilterPolicy: {resourceFilters: [{names: [a]}]}",
            &[
                "clusterScopedFilterPolicy.resourceFilters[0]: kinds must be specified (catch-all is not supported) (line 2)",
            ],
        ),
        (
            "clusterScopedFilterPolicy: {resourceFilters: [{kinds: [pv]}, {kinds: [a, PV]}]}",
            &[
                "clusterScopedFilterPolicy: kind \"PV\" appears in both resourceFilters[0] and resourceFilters[1] (line 2)",
            ],
        ),
        (
            "namespacedFilterPolicies: [{}]",
            &[
                "namespacedFilterPolicies[0]: at least one namespace must be specified (line 2)",
                "namespacedFilterPolicies[0]: at least one resourceFilter must be specified (line 2)",
            ],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a, 'b['], resourceFilters: [{}]}]",
            &["namespacedFilterPolicies[0].namespaces[1]: wildcard pattern contains unclosed bracket '[' (line 2)"],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{}, {kinds: ['*']}]}]",
            &["namespacedFilterPolicies[0]: only one catch-all resource filter is allowed (line 2)"],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{names: [b]}]}]",
            &[
                "namespacedFilterPolicies[0].resourceFilters[0]: names or excludedNames cannot be specified for catch-all filters (line 2)",
            ],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [pods]}, {kinds: [pods]}]}]",
            &[
                "namespacedFilterPolicies[0]: kind \"pods\" appears in both resourceFilters[0] and resourceFilters[1] (line 2)",
            ],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [pods, '*']}]}]",
            &["namespacedFilterPolicies[0].resourceFilters[0]: kinds must be '*' alone, or names of kinds (line 2)"],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [pods], labelSelector: {matchLabels: {a: b}}, orLabelSelectors: [{matchLabels: {a: b}}]}]}]",
            &[
                "namespacedFilterPolicies[0].resourceFilters[0]: labelSelector and orLabelSelectors cannot co-exist (line 2)",
            ],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [pods], orLabelSelectors: [{}, {matchExpressions: [{key: a, operator: Near}]}]}]}]",
            &[
                "namespacedFilterPolicies[0].resourceFilters[0].orLabelSelectors[1]: invalid label selector: \"Near\" is not a valid label selector operator (line 2)",
            ],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [pods], labelSelector: {matchExpressions: [{key: a, operator: In}]}}]}]",
            &[
                "namespacedFilterPolicies[0].resourceFilters[0]: invalid label selector: the requirement on \"a\" is In without values (line 2)",
            ],
        ),
        (
            "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [pods], names: ['x['], excludedNames: ['[']}]}]",
            &[
                "namespacedFilterPolicies[0].resourceFilters[0].names[0]: invalid glob pattern \"x[\": a character class is not closed, or empty (line 2)",
                "namespacedFilterPolicies[0].resourceFilters[0].excludedNames[0]: invalid glob pattern \"[\": a character class is not closed, or empty (line 2)",
            ],
        ),
        (
            "namespacedFilterPolicies:\n- {namespaces: [a, 'b*'], resourceFilters: [{}]}\n- {namespaces: ['b*'], resourceFilters: [{}]}",
            &["namespacedFilterPolicies: duplicate namespace pattern 'b*' found in policies [0 1] (line 4)"],
        ),
    ] {
        assert_eq!(invalid(text, PolicyUse::Backup), expected, "{text}");
    }
    let both = "volumePolicies: []\nincludeExcludePolicy: {}";
    let expected = [
        "volumePolicies are not supported for restore (line 2)",
        "includeExcludePolicy is not supported for restore (line 3)",
    ];
    assert_eq!(invalid(both, PolicyUse::Restore), expected);
    for (text, version) in [("version: v2", "v2"), ("volumePolicies: []", ""), ("version: V1", "V1")] {
        let expected = format!("incompatible version number {version} with supported version v1");
        assert_eq!(parse(text).unwrap_err(), PolicyError::Invalid(vec![expected]), "{text}");
    }
}

#[test]
fn the_first_policy_whose_conditions_a_volume_meets_decides() {
    let facts = |change: fn(&mut VolumeFacts)| {
        let mut facts = VolumeFacts {
            capacity: Quantity::parse("10Gi"),
            storage_class: "gp2".into(),
            volume_type: "csi",
            csi: Some(("ebs".into(), BTreeMap::from([("tier".into(), "gold".into())]))),
            claim_labels: BTreeMap::from([("app".into(), "db".into()), ("x".into(), "y".into())]),
            claim_phase: "Bound".into(),
            claim_volume_mode: "Block".into(),
            claim_access_modes: vec!["ReadWriteOnce".into(), "ReadOnlyMany".into()],
            ..VolumeFacts::default()
        };
        change(&mut facts);
        facts
    };
    let nfs = |facts: &mut VolumeFacts| {
        (facts.csi, facts.nfs) = (None, Some(("s".into(), "/p".into())));
        facts.volume_type = "nfs";
    };
    let ephemeral: fn(&mut VolumeFacts) = |facts| facts.is_ephemeral = true;
    let nothing: fn(&mut VolumeFacts) = |facts| *facts = VolumeFacts::default();
    let all: fn(&mut VolumeFacts) = |_| {};
    for (conditions, change, expected) in [
        ("{}", all, true),
        ("{}", nothing, true),
        ("{capacity: '10Gi,100Gi'}", all, true),
        ("{capacity: '1Gi, 10Gi'}", all, true),
        ("{capacity: '11Gi,'}", all, false),
        ("{capacity: ',9Gi'}", all, false),
        ("{capacity: ',9Gi'}", nothing, true),
        ("{capacity: '1,'}", nothing, false),
        ("{capacity: '0,0'}", all, true),
        ("{capacity: ','}", nothing, true),
        ("{storageClass: [gp3, gp2]}", all, true),
        ("{storageClass: [gp3]}", all, false),
        ("{storageClass: [gp2]}", nothing, false),
        ("{nfs: {}}", all, false),
        ("{nfs: {}}", nfs, true),
        ("{nfs: {server: s}}", nfs, true),
        ("{nfs: {server: s, path: /q}}", nfs, false),
        ("{csi: {}}", all, true),
        ("{csi: {}}", nfs, false),
        ("{csi: {driver: ebs, volumeAttributes: {tier: gold}}}", all, true),
        ("{csi: {driver: ebs, volumeAttributes: {tier: gold, more: ''}}}", all, true),
        ("{csi: {driver: ebs, volumeAttributes: {tier: silver}}}", all, false),
        ("{csi: {driver: efs}}", all, false),
        ("{volumeTypes: [emptyDir, csi]}", all, true),
        ("{volumeTypes: [emptyDir]}", all, false),
        ("{volumeTypes: [emptyDir]}", nothing, false),
        ("{volumeTypes: [ephemeral]}", all, false),
        ("{volumeTypes: [ephemeral]}", ephemeral, true),
        ("{volumeTypes: [csi]}", ephemeral, true),
        ("{volumeTypes: [emptyDir]}", ephemeral, false),
        ("{storageClass: [gp2], volumeTypes: [ephemeral]}", ephemeral, true),
        ("{storageClass: [gp3], volumeTypes: [ephemeral]}", ephemeral, false),
        ("{pvcLabels: {app: db}}", all, true),
        ("{pvcLabels: {app: db, z: ''}}", all, false),
        ("{pvcPhase: [Pending, Bound]}", all, true),
        ("{pvcPhase: [Lost]}", all, false),
        ("{pvcVolumeMode: Block}", all, true),
        ("{pvcVolumeMode: Filesystem}", all, false),
        ("{pvcAccessModes: [ReadOnlyMany, ReadWriteOnce]}", all, true),
        ("{pvcAccessModes: [ReadWriteOnce]}", all, false),
        ("{storageClass: [gp2], volumeTypes: [nfs]}", all, false),
    ] {
        let text = format!("version: v1\nvolumePolicies: [{{conditions: {conditions}, action: {{type: fs-backup}}}}]");
        let policies = parse(&text).unwrap();
        let facts = facts(change);
        let rule = VolumeRule { number: 1, source: "", action: &VolumeAction::FsBackup };
        assert_eq!(policies.volume_rule(&facts), expected.then_some(rule), "{conditions} {facts:?}");
    }
    let snapshot = |by: SnapshotBy, data_mover: &str, snapshot_class: &str| VolumeAction::Snapshot {
        by,
        data_mover: data_mover.into(),
        snapshot_class: snapshot_class.into(),
    };
    let text = "version: v1
volumePolicies:
- {conditions: {storageClass: [a]}, action: {type: skip}}
- {conditions: {storageClass: [b]}, action: {type: snapshot, parameters: {dataMover: velero-block, snapshotClass: c}}}
- {conditions: {storageClass: [c]}, action: {type: custom, parameters: {by: {hand: 1.5}}}}
- {conditions: {storageClass: [a, d]}, action: {type: snapshot}}
- {conditions: {storageClass: [g]}, action: {type: snapshot-csi, parameters: {snapshotClass: c}}}
- {conditions: {storageClass: [h]}, action: {type: snapshot-native}}
- {conditions: {storageClass: [i]}, action: {type: snapshot-datamover, parameters: {dataMover: velero, snapshotClass: c}}}
";
    let mut policies = parse(text).unwrap().from_source("own");
    let global = parse("version: v1\nvolumePolicies: [{conditions: {storageClass: [a, e]}, action: {type: fs-backup}}]\nincludeExcludePolicy: {}\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: [pv]}]}\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{}]}]").unwrap().from_source("global");
    let told = ["includeExcludePolicy", "clusterScopedFilterPolicy", "namespacedFilterPolicies"]
        .map(|part| format!("{part} of the global policies does not count: only volumePolicies do"));
    assert_eq!(policies.append_global(&global), told);
    let custom = VolumeAction::Custom(serde_json::from_str(r#"{"by": {"hand": 1.5}}"#).unwrap());
    for (class, expected) in [
        ("a", Some(("own", 1, VolumeAction::Skip))),
        ("b", Some(("own", 2, snapshot(SnapshotBy::Any, "velero-block", "c")))),
        ("c", Some(("own", 3, custom))),
        ("d", Some(("own", 4, snapshot(SnapshotBy::Any, "", "")))),
        ("e", Some(("global", 1, VolumeAction::FsBackup))),
        ("f", None),
        ("g", Some(("own", 5, snapshot(SnapshotBy::Csi, "", "c")))),
        ("h", Some(("own", 6, snapshot(SnapshotBy::Native, "", "")))),
        ("i", Some(("own", 7, snapshot(SnapshotBy::DataMover, "velero", "c")))),
    ] {
        let facts = VolumeFacts { storage_class: class.into(), ..VolumeFacts::default() };
        let found = policies.volume_rule(&facts).map(|rule| (rule.source, rule.number, rule.action.clone()));
        assert_eq!(found, expected, "{class}");
    }
}

fn namespaces(names: &[&str]) -> Vec<NamespaceFacts> {
    let facts = |name: &&str| NamespaceFacts { name: (*name).into(), labels: BTreeMap::new(), active: true };
    names.iter().map(facts).collect()
}

const RULES: &str = "version: v1
clusterScopedFilterPolicy:
  resourceFilters:
  - {kinds: [PersistentVolume], labelSelector: {matchLabels: {tier: gold}}, names: ['pv-*'], excludedNames: [pv-0]}
  - {kinds: [pods, nothings]}
namespacedFilterPolicies:
- namespaces: ['app*']
  resourceFilters:
  - {kinds: [cm], names: ['a*']}
  - {kinds: [Widget], orLabelSelectors: [{matchLabels: {a: '1'}}, {matchLabels: {b: '2'}}]}
- namespaces: [app2, 'app2*']
  resourceFilters:
  - {kinds: ['*'], labelSelector: {matchLabels: {all: 'yes'}}}
  - {kinds: [pods]}
";

#[test]
fn a_backup_lists_by_the_policy_of_the_place() {
    let catalog = test_catalog();
    let spec = BackupSpec {
        label_selector: Some(crate::parse_selector("spec=1").unwrap()),
        ..serde_json::from_value(json!({"excludedNamespaceScopedResources": ["widgets.example.com"]})).unwrap()
    };
    let policies = parse(RULES).unwrap();
    let existing = namespaces(&["app1", "app2", "other"]);
    let filter = BackupFilter::new(&spec, Some(&policies), &catalog, &existing).unwrap();
    for (name, place, expected) in [
        ("pods", None, &[""][..]),
        ("pods", Some("app1"), &[]),
        ("pods", Some("app2"), &[""]),
        ("pods", Some("other"), &["spec=1"]),
        ("cm", Some("app1"), &[""]),
        ("cm", Some("app2"), &["all=yes"]),
        ("widgets", Some("app1"), &["a=1", "b=2"]),
        ("pv", None, &["tier=gold"]),
        ("sc", None, &["spec=1"]),
    ] {
        let resource = catalog.resolve(name).unwrap();
        assert_eq!(filter.queries(resource, place), expected, "{name} {place:?}");
    }
    assert_eq!(
        filter.warnings(),
        [
            "clusterScopedFilterPolicy: the kind \"pods\" is namespaced: its filter matches nothing",
            "clusterScopedFilterPolicy: the cluster serves no kind \"nothings\"",
            "a filter policy names persistentvolumes, which is not saved: cluster-scoped, not in includedClusterScopedResources, and the backup has filters",
            "a filter policy names widgets.example.com, which is not saved: excluded by excludedNamespaceScopedResources",
        ]
    );
    assert!(filter.selects_namespaced() && !filter.lists_all_of(catalog.resolve("sc").unwrap()));
    let plain = BackupFilter::new(&BackupSpec::default(), Some(&policies), &catalog, &existing).unwrap();
    let all = ["pods", "pv", "sc"].map(|name| plain.lists_all_of(catalog.resolve(name).unwrap()));
    assert_eq!(all, [false, false, true]);

    let labels = |texts: &[&str]| -> BTreeMap<String, String> {
        texts.iter().filter_map(|text| text.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    };
    const OUT: Result<(), &str> = Err("the filter policy of its namespace leaves its type out");
    const LABELS: Result<(), &str> = Err("its labels do not match the filter policy of its namespace");
    const NAME: Result<(), &str> = Err("its name is not in the filter policy");
    // As listed, and as one that is asked for.
    for (name, namespace, object, of, listed, asked) in [
        ("pods", Some("app1"), "p", &[][..], OUT, Ok(())),
        ("pods", Some("app2"), "p", &[], Ok(()), Ok(())),
        ("pods", Some("other"), "p", &[], Err("its labels do not match the selector"), Ok(())),
        ("pods", Some("other"), "p", &["spec=1"], Ok(()), Ok(())),
        ("cm", Some("app1"), "a1", &[], Ok(()), Ok(())),
        ("cm", Some("app1"), "b1", &[], Ok(()), NAME),
        ("cm", Some("app2"), "b1", &[], LABELS, Ok(())),
        ("cm", Some("app2"), "b1", &["all=yes"], Ok(()), Ok(())),
        ("pv", None, "pv-1", &[], Ok(()), Ok(())),
        ("pv", None, "pv-0", &[], Ok(()), NAME),
        ("pv", None, "other", &[], Ok(()), NAME),
    ] {
        let (resource, labels) = (catalog.resolve(name).unwrap(), labels(of));
        let facts = ObjectFacts { resource, namespace, name: Some(object), labels: &labels };
        let found = (filter.includes_listed(facts), filter.includes_item(facts, false));
        assert_eq!(found, (listed, asked), "{name} {namespace:?} {object} {of:?}");
    }
}

#[test]
fn a_cluster_scoped_kind_in_a_namespace_policy_is_a_warning() {
    let text = "version: v1
namespacedFilterPolicies: [{namespaces: [app1], resourceFilters: [{kinds: [persistentvolumes], names: [a]}]}]";
    let (catalog, existing) = (test_catalog(), namespaces(&["app1", "other"]));
    let filter = BackupFilter::new(&BackupSpec::default(), Some(&parse(text).unwrap()), &catalog, &existing).unwrap();
    let expected =
        "namespacedFilterPolicies[0]: the kind \"persistentvolumes\" is cluster-scoped: its filter matches nothing";
    assert_eq!(filter.warnings(), [expected]);
    let none = BTreeMap::new();
    let volume = catalog.resolve("pv").unwrap();
    let facts = ObjectFacts { resource: volume, namespace: None, name: Some("b"), labels: &none };
    assert_eq!((filter.queries(volume, None), filter.includes_item(facts, false)), (vec![String::new()], Ok(())));
    // The namespace has a policy all the same, which leaves out what it does not name.
    let pods = catalog.resolve("pods").unwrap();
    assert_eq!(filter.queries(pods, Some("app1")), Vec::<String>::new());
    assert_eq!(filter.queries(pods, Some("other")), [""]);
}

#[test]
fn an_empty_selector_of_a_filter_counts_as_absent() {
    let catalog = test_catalog();
    let backup: BTreeSet<String> = ["app1".to_owned()].into();
    let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let pods: GroupResource = "pods".parse().unwrap();
    for (selectors, with, without) in [
        ("labelSelector: {}", true, true),
        ("labelSelector: {matchLabels: {}, matchExpressions: []}", true, true),
        ("labelSelector: {}, orLabelSelectors: [{matchLabels: {a: b}}]", true, false),
        ("labelSelector: {}, orLabelSelectors: [{matchLabels: {c: d}}]", false, false),
    ] {
        let text = format!(
            "version: v1\nnamespacedFilterPolicies: [{{namespaces: [app1], resourceFilters: [{{kinds: [pods], {selectors}}}]}}]"
        );
        let policies = ResourcePolicies::parse(&text, PolicyUse::Restore).unwrap();
        let filter = RestoreFilter::new(&RestoreSpec::default(), Some(&policies), &catalog, &backup).unwrap();
        let is_in = |labels| {
            let namespace = Some("app1");
            filter
                .includes_item(RestoredFacts {
                    resource: &pods,
                    kind: None,
                    namespace,
                    name: "p",
                    labels: Some(labels),
                })
                .is_ok()
        };
        assert_eq!((is_in(&labels), is_in(&BTreeMap::new())), (with, without), "{selectors}");
    }
}

#[test]
fn modes_of_claims_are_refused_that_are_no_texts() {
    for conditions in [
        "pvcVolumeMode: [Block]",
        "pvcVolumeMode: {a: b}",
        "pvcVolumeMode: 1",
        "pvcAccessModes: ReadWriteOnce",
        "pvcAccessModes: [[ReadWriteOnce]]",
        "pvcAccessModes: [{a: b}]",
        "pvcAccessModes: [1]",
    ] {
        let text = format!("version: v1\nvolumePolicies:\n- conditions: {{{conditions}}}\n  action: {{type: skip}}");
        let why = parse(&text).unwrap_err().to_string();
        assert!(why.contains("line 3"), "{conditions}: {why}");
    }
}

#[test]
fn lists_of_a_policy_add_to_those_of_the_spec() {
    let collected = |spec: serde_json::Value, lists: &str| {
        let policies = parse(&format!("version: v1\nincludeExcludePolicy: {lists}")).unwrap();
        let spec: BackupSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(BackupFilter::conflict(&spec, &policies), None);
        let catalog = test_catalog();
        let filter = BackupFilter::new(&spec, Some(&policies), &catalog, &namespaces(&["app1"])).unwrap();
        let names: Vec<&str> =
            catalog.all().filter(|r| filter.collects(r).is_ok()).map(|r| r.resource.as_str()).collect();
        names.join(" ")
    };
    let excluded = json!({"excludedNamespaceScopedResources": ["widgets.example.com"]});
    let snapshots = "volumesnapshots volumesnapshotcontents";
    for (spec, lists, expected) in [
        (
            json!({}),
            "{}",
            format!(
                "pods configmaps namespaces persistentvolumes deployments storageclasses {snapshots} widgets gadgets"
            ),
        ),
        (
            json!({}),
            "{includedNamespaceScopedResources: [cm], excludedNamespaceScopedResources: [pods]}",
            "configmaps namespaces".to_owned(),
        ),
        (excluded, "{includedNamespaceScopedResources: [cm, widgets]}", "configmaps namespaces".to_owned()),
        (
            json!({"includedNamespaceScopedResources": ["*"]}),
            "{excludedNamespaceScopedResources: [pods]}",
            format!(
                "pods configmaps namespaces persistentvolumes deployments storageclasses {snapshots} widgets gadgets"
            ),
        ),
        (
            json!({"includedNamespaceScopedResources": ["po"]}),
            "{includedClusterScopedResources: [sc, po], excludedClusterScopedResources: [pv]}",
            "pods namespaces storageclasses".to_owned(),
        ),
    ] {
        assert_eq!(collected(spec.clone(), lists), expected, "{spec} {lists}");
    }
    let policies = parse("version: v1\nincludeExcludePolicy: {}").unwrap();
    let old = BackupSpec { include_cluster_resources: Some(true), ..BackupSpec::default() };
    assert_eq!(
        BackupFilter::conflict(&old, &policies).as_deref(),
        Some(
            "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\nThey cannot be \
             used with include-exclude policies."
        )
    );
}

#[test]
fn filter_policies_beside_old_filters_are_refused() {
    let old = BackupSpec { included_resources: vec!["pods".to_owned()], ..BackupSpec::default() };
    let scoped = BackupSpec { included_namespace_scoped_resources: vec!["pods".to_owned()], ..BackupSpec::default() };
    for text in [
        "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: [pv], names: [a]}]}",
        "version: v1\nnamespacedFilterPolicies: [{namespaces: [shop], resourceFilters: [{kinds: [cm]}]}]",
    ] {
        let policies = ResourcePolicies::parse(text, PolicyUse::Backup).unwrap();
        let expected = "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\nThey cannot be \
                        used with namespace-scoped or fine-grained global filter policies.";
        assert_eq!(BackupFilter::conflict(&old, &policies).as_deref(), Some(expected), "{text}");
        assert_eq!(BackupFilter::conflict(&scoped, &policies), None, "{text}");
        assert_eq!(BackupFilter::conflict(&BackupSpec::default(), &policies), None, "{text}");
    }
}

#[test]
fn a_restore_takes_what_the_policy_of_the_namespace_in_the_backup_lets_in() {
    let text = "version: v1
clusterScopedFilterPolicy: {resourceFilters: [{kinds: [pv], names: [a]}]}
namespacedFilterPolicies:
- namespaces: [app1]
  resourceFilters:
  - {kinds: [cm], labelSelector: {matchLabels: {x: y}}}
  - {kinds: [Gizmo, datauploads]}
- namespaces: ['app*']
  resourceFilters: [{}]
";
    let policies = ResourcePolicies::parse(text, PolicyUse::Restore).unwrap();
    let spec: RestoreSpec =
        serde_json::from_value(json!({"labelSelector": {"matchLabels": {"s": "t"}}, "excludedResources": ["pods"]}))
            .unwrap();
    let backup: BTreeSet<String> = ["app1", "app2", "b"].map(str::to_owned).into();
    let filter = RestoreFilter::new(&spec, Some(&policies), &test_catalog(), &backup).unwrap();
    const OUT: Result<(), &str> = Err("the filter policy of its namespace leaves its type out");
    const LABELS: Result<(), &str> = Err("its labels do not match the filter policy");
    const SELECTOR: Result<(), &str> = Err("its labels do not match the selector");
    const NAME: Result<(), &str> = Err("its name is not in the filter policy");
    let (none, xy) = (BTreeMap::new(), BTreeMap::from([("x".to_owned(), "y".to_owned())]));
    for (resource, kind, namespace, name, labels, expected) in [
        ("configmaps", None, Some("app1"), "c", Some(&xy), Ok(())),
        ("configmaps", None, Some("app1"), "c", Some(&none), LABELS),
        ("configmaps", None, Some("app1"), "c", None, Ok(())),
        ("deployments.apps", None, Some("app1"), "d", Some(&xy), OUT),
        ("gizmos.example.com", Some("Gizmo"), Some("app1"), "d", Some(&none), Ok(())),
        ("gizmos.example.com", None, Some("app1"), "d", Some(&none), OUT),
        ("deployments.apps", None, Some("app2"), "d", Some(&none), Ok(())),
        ("deployments.apps", None, Some("b"), "d", Some(&none), SELECTOR),
        ("persistentvolumes", None, None, "a", Some(&none), Ok(())),
        ("persistentvolumes", None, None, "b", Some(&none), NAME),
        ("storageclasses.storage.k8s.io", None, None, "b", Some(&none), SELECTOR),
    ] {
        let resource: GroupResource = resource.parse().unwrap();
        let facts = RestoredFacts { resource: &resource, kind, namespace, name, labels };
        assert_eq!(filter.includes_item(facts), expected, "{resource} {kind:?} {namespace:?} {name}");
    }
    assert_eq!(
        filter.warnings(),
        ["Gizmo", "datauploads"]
            .map(|kind| format!("namespacedFilterPolicies[0]: the cluster serves no kind {kind:?}"))
    );
    let twice = "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [cm]}, {kinds: [configmaps]}]}]";
    let policies = ResourcePolicies::parse(twice, PolicyUse::Restore).unwrap();
    let made = RestoreFilter::new(&RestoreSpec::default(), Some(&policies), &test_catalog(), &backup);
    assert_eq!(made.unwrap_err().to_string(), "ambiguous policy: duplicate kind \"configmaps\" detected");
}

#[test]
fn the_examples_of_the_documentation_are_valid() {
    let page = include_str!("../../../../docs/resource-policies.md");
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        parse(block).unwrap_or_else(|e| panic!("{block}: {e}"));
    }
}

const KINDS: [&str; 4] = ["pods", "configmaps", "deployments", "widgets"];
const PLACES: [&str; 3] = ["app1", "app2", "b"];

/// Filters of one policy: kinds by number, whether a label is asked for, and a glob of names.
fn filters() -> impl Strategy<Value = Vec<(Option<usize>, bool, &'static str)>> {
    let filter = (prop::option::of(0..KINDS.len()), any::<bool>(), prop::sample::select(vec!["", "a*", "b"]));
    prop::collection::vec(filter, 1..4).prop_map(|mut filters| {
        let mut met = BTreeSet::new();
        filters.retain(|(kind, ..)| met.insert(*kind));
        filters.iter_mut().filter(|(kind, ..)| kind.is_none()).for_each(|filter| filter.2 = "");
        filters
    })
}

proptest! {
    /// The lists by place and the sorting out afterwards agree with a plain reading of the rules, whether the namespaces are
    /// listed one by one or all at once.
    #[test]
    fn lists_bring_what_the_rules_say(
        policies in prop::collection::vec((prop::sample::select(vec!["app1", "app*", "*"]), filters()), 0..3),
        global in any::<bool>(),
    ) {
        let mut met = BTreeSet::new();
        let policies: Vec<_> = policies.into_iter().filter(|(pattern, _)| met.insert(*pattern)).collect();
        let written: Vec<_> = policies.iter().map(|(pattern, filters)| {
            let filters: Vec<_> = filters.iter().map(|(kind, has_label, names)| {
                let mut filter = json!({"kinds": kind.map(|kind| KINDS[kind]).into_iter().collect::<Vec<_>>()});
                if *has_label { filter["labelSelector"] = json!({"matchLabels": {"l": "1"}}); }
                if !names.is_empty() { filter["names"] = json!([names]); }
                filter
            }).collect();
            json!({"namespaces": [pattern], "resourceFilters": filters})
        }).collect();
        let text = json!({"version": "v1", "namespacedFilterPolicies": written}).to_string();
        let document = parse(&text).unwrap();
        let mut spec = BackupSpec::default();
        if global { spec.label_selector = Some(crate::parse_selector("g=1").unwrap()); }
        let catalog = test_catalog();
        let filter = BackupFilter::new(&spec, Some(&document), &catalog, &namespaces(&PLACES)).unwrap();
        let matches = |pattern: &str, place: &str| {
            pattern == place || pattern == "*" || pattern == "app*" && place.starts_with("app")
        };
        for place in PLACES { for (number, kind) in KINDS.iter().enumerate() { for name in ["a1", "b", "c"] { for labels in [&[][..], &["l"], &["g"], &["l", "g"]] {
            let has = |label: &str| labels.contains(&label);
            let exact = policies.iter().find(|(pattern, _)| *pattern == place);
            let expected = match exact.or_else(|| policies.iter().find(|(pattern, _)| matches(pattern, place))) {
                None => !global || has("g"),
                Some((_, filters)) => {
                    let own = filters.iter().find(|(kind, ..)| *kind == Some(number));
                    own.or_else(|| filters.iter().find(|(kind, ..)| kind.is_none())).is_some_and(|(_, has_label, names)| {
                        (!has_label || has("l")) && match *names { "" => true, "a*" => name.starts_with('a'), exact => name == exact }
                    })
                }
            };
            let resource = catalog.resolve(kind).unwrap();
            let labels: BTreeMap<String, String> = labels.iter().map(|label| ((*label).to_owned(), "1".to_owned())).collect();
            let facts = ObjectFacts { resource, namespace: Some(place), name: Some(name), labels: &labels };
            for listed in [Some(place), None] {
                let queries = filter.queries(resource, listed);
                let is_brought = queries.iter().any(|query| crate::Selector::parse(query).unwrap().matches(&labels));
                let is_saved = is_brought && filter.includes_listed(facts).is_ok() && filter.includes_item(facts, false).is_ok();
                prop_assert_eq!(is_saved, expected, "{} {} {} {:?} {:?} {}", place, kind, name, labels, listed, &text);
            }
        }}}}
    }
}

#[test]
fn a_parameter_that_an_action_does_not_know_is_a_warning() {
    let text = "version: v1
volumePolicies:
- {action: {type: snapshot, parameters: {snapshotClass: a, more: 1}}}
- {action: {type: skip, parameters: {why: old}}}
- {action: {type: custom, parameters: {by: hand}}}";
    let policies = ResourcePolicies::parse(text, PolicyUse::Backup).unwrap().from_source("ConfigMap velero/p");
    assert_eq!(
        policies.warnings(),
        [
            "ConfigMap velero/p: volumePolicies[0]: the action snapshot has no parameter \"more\", which has no effect (line 3)",
            "ConfigMap velero/p: volumePolicies[1]: the action skip has no parameter \"why\", which has no effect (line 4)",
        ]
    );
}
