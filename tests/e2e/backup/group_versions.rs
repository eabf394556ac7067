//! Objects in several API versions, on a real API server: all are saved, and each is restored in the one that suits
//! best.

use crate::faults::namespace;
use crate::ground::Ground;
use crate::support::{Bed, comes_to_be, gunzip, until_types_are_served};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const FEATURE: [&str; 2] = ["--features", "EnableAPIGroupVersions"];

/// Five definitions, each with versions of its own; the first is the one that objects are stored in.
const BANDS: [(&str, [&str; 2]); 5] = [
    ("rocks", ["v1", "v1beta1"]),
    ("jazzes", ["v2beta2", "v2beta1"]),
    ("folks", ["v1alpha1", "v1alpha2"]),
    ("blues", ["v1", "v2beta1"]),
    ("raps", ["v1", "v1beta1"]),
];

fn definition(plural: &str, versions: &[&str]) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |(number, name): (usize, &&str)| json!({"name": name, "served": true, "storage": number == 0, "schema": schema});
    let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{plural}.example.com")},
        "spec": {"group": format!("{plural}.example.com"), "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": format!("a{plural}"), "kind": kind(plural), "listKind": format!("{}List", kind(plural))}}})
}

fn kind(plural: &str) -> String {
    format!("K{plural}")
}

/// Serves these types in these versions, and no others.
fn serve(bed: &Bed, definitions: &[(&str, &[&str])]) {
    for (plural, versions) in definitions {
        bed.plane.kubectl().create(&definition(plural, versions)).expect("a definition");
    }
    until_types_are_served(&bed.plane, &[]);
    for (plural, versions) in definitions {
        let all = || bed.plane.kubectl().try_run(&["get", "--raw", &format!("/apis/{plural}.example.com")]);
        assert!(comes_to_be(|| all().is_ok_and(|text| versions.iter().all(|v| text.contains(v)))), "{plural}");
    }
}

/// A cluster with an object of each type, and a backup `b` of them in all versions.
fn saved() -> Bed {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    kubectl.create(&namespace("music")).expect("a namespace");
    serve(&bed, &BANDS.each_ref().map(|(plural, versions)| (*plural, &versions[..])));
    for (plural, [stored, _]) in BANDS {
        let object = json!({"apiVersion": format!("{plural}.example.com/{stored}"), "kind": kind(plural),
            "metadata": {"name": "one", "namespace": "music"}, "spec": {"made": "here"}});
        kubectl.create(&object).expect("an object");
    }
    let run = bed.local(&[&["backup", "b", "--include-namespaces", "music"], &FEATURE[..]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    bed
}

/// The paths of the archive that end with this.
fn paths(bed: &Bed, end: &str) -> Vec<String> {
    let tar = gunzip(&bed.bucket().join("backups/b/b.tar.gz"));
    let mut archive = tar::Archive::new(&tar[..]);
    let entries = archive
        .entries()
        .expect("entries")
        .map(|entry| entry.expect("an entry").path().expect("a path").display().to_string());
    let mut out: Vec<String> = entries.filter(|path| path.ends_with(end)).collect();
    out.sort();
    out
}

/// Runs a restore into another cluster: the requests that make objects, by type.
fn restored(from: &Bed, definitions: &[(&str, &[&str])], more: &[&str]) -> (i32, BTreeMap<String, String>, String) {
    let to = Bed::fresh();
    serve(&to, definitions);
    let log = to.plane.audit_log();
    // Another cluster's restore of this bucket has another name.
    let name = format!("into-{}", definitions[0].0);
    let args = [
        &["restore", &name, "--from-backup", "b", "--exclude-resources", "customresourcedefinitions"],
        &FEATURE[..],
        more,
    ];
    let run = from.local_through(&to.plane.kubeconfig(), &args.concat());
    let mut versions = BTreeMap::new();
    let all = definitions.len();
    comes_to_be(|| {
        for line in std::fs::read_to_string(&log).unwrap_or_default().lines() {
            let event: Value = serde_json::from_str(line).unwrap_or_default();
            let group = event["objectRef"]["apiGroup"].as_str().unwrap_or_default();
            if event["verb"] == "create" && group.ends_with(".example.com") && event["responseStatus"]["code"] == 201 {
                let version = event["objectRef"]["apiVersion"].as_str().unwrap_or_default();
                versions
                    .insert(event["objectRef"]["resource"].as_str().unwrap_or_default().to_owned(), version.to_owned());
            }
        }
        // The log comes in batches.
        versions.len() == all || run.code != 0
    });
    (run.code, versions, run.err)
}

/// scenario: APIVersion
#[test]
fn each_object_is_restored_in_the_version_that_suits_best() {
    let bed = saved();
    assert_eq!(
        paths(&bed, "/music/one.json").into_iter().filter(|path| path.contains("jazzes")).collect::<Vec<_>>(),
        [
            "resources/jazzes.jazzes.example.com/namespaces/music/one.json",
            "resources/jazzes.jazzes.example.com/v2beta1/namespaces/music/one.json",
            "resources/jazzes.jazzes.example.com/v2beta2-preferredversion/namespaces/music/one.json",
        ]
    );
    let verified = bed.local(&["verify", "b"]);
    assert_eq!(verified.code, 0, "{verified:?}");

    // What the other cluster prefers; the highest that both have; what the backup prefers.
    let wanted: [(&str, &[&str]); 3] = [
        ("rocks", &["v1", "v2beta1", "v2alpha1"]),
        ("jazzes", &["v2", "v2beta1", "v2beta2"]),
        ("blues", &["v3", "v2beta1", "v1"]),
    ];
    let types =
        ["--include-resources", "rocks.rocks.example.com,jazzes.jazzes.example.com,blues.blues.example.com,namespaces"];
    let (code, versions, err) = restored(&bed, &wanted, &types);
    let expected = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
        all.iter().map(|(resource, version)| ((*resource).to_owned(), (*version).to_owned())).collect()
    };
    let best = [("rocks", "v1"), ("jazzes", "v2beta2"), ("blues", "v1")];
    assert_eq!((code, versions), (0, expected(&best)), "{err}");

    // The user's own list.
    let file = bed.bucket().with_file_name("priorities");
    std::fs::write(&file, "blues.blues.example.com = v9, v2beta1\nnonsense\n").expect("write");
    let file = file.display().to_string();
    let types = ["--include-resources", "blues.blues.example.com,namespaces", "--api-version-priorities", &file];
    let (code, versions, err) = restored(&bed, &wanted[2..], &types);
    assert_eq!((code, versions), (0, expected(&[("blues", "v2beta1")])), "{err}");
    assert!(err.contains(&format!("line 2 of the API versions in {file} is passed over")), "{err}");

    // None in common.
    let other: [(&str, &[&str]); 1] = [("folks", &["v1"])];
    let (code, versions, err) = restored(&bed, &other, &["--include-resources", "folks.folks.example.com,namespaces"]);
    assert_eq!((code, versions), (3, BTreeMap::new()), "{err}");
    assert!(err.contains("folks.folks.example.com/music/one"), "{err}");
}

/// scenario: APIExtensions
#[test]
fn a_server_with_the_feature_saves_definitions_and_obeys_its_config_map() {
    let bed = saved();
    let ground = Ground::start();
    let folder = ground.directory("d", &json!({"default": true, "backupSyncPeriod": "1s"}));
    crate::ground::copy(&bed.bucket().join("backups/b"), &folder.join("backups/b"));
    ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "enableapigroupversions", "namespace": "velero"},
        "data": {"restoreResourcesVersionPriority": "raps.raps.example.com=v1beta1\n"}}));
    let kubeconfig = ground.bed.plane.kubeconfig();
    let _server = ground.server_with("one", &kubeconfig, &FEATURE);
    ground.until("backup", "b", "Completed");
    ground.velero("Restore", "r", &json!({"backupName": "b"}));
    ground.until("restore", "r", "Completed");
    for (plural, _) in BANDS {
        let made = ground.get_in("music", &format!("{plural}.{plural}.example.com"), "one");
        assert_eq!(made["spec"]["made"], "here", "{plural}: {made}");
    }
    // The list of the user counts for types that the cluster serves when a restore begins.
    ground.velero("Restore", "s", &json!({"backupName": "b", "namespaceMapping": {"music": "other"}}));
    ground.until("restore", "s", "Completed");
    for (restore, version, space) in [("r", "v1", "music"), ("s", "v1beta1", "other")] {
        let listed = gunzip(&folder.join(format!("restores/{restore}/restore-{restore}-resource-list.json.gz")));
        let listed: Value = serde_json::from_slice(&listed).expect("JSON");
        let expected = json!([format!("{space}/one(created)")]);
        assert_eq!(listed[format!("raps.example.com/{version}/Kraps")], expected, "{listed}");
    }
}
