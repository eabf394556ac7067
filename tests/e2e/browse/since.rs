//! Changes since a backup, and across all backups.

use crate::shop;
use crate::support::{Bed, Run, Sandbox, eventually, local, ok, program, run};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// `lifeboat ARGS --bucket BUCKET` on a cluster.
fn lifeboat(kubeconfig: &Path, folder: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(program());
    command.args(args).arg("--bucket").arg(folder.join("bucket"));
    run(command.env("KUBECONFIG", kubeconfig).env("XDG_CACHE_HOME", folder.join("cache")))
}

#[test]
fn right_after_a_backup_nothing_has_changed_and_then_each_change_is_told() {
    let bed = Bed::start();
    let kubectl = bed.plane.kubectl();
    let _ = shop::backed_up(&bed);
    let bucket = bed.bucket();
    let folder = bucket.parent().expect("its folder");
    let diff = |kubeconfig: &Path, args: &[&str]| lifeboat(kubeconfig, folder, &[&["diff", "all"], args].concat());
    let own = bed.plane.kubeconfig();
    let none = diff(&own, &[]);
    assert!(none.code == 0 && none.out.starts_with("0 added, 0 removed, 0 changed, "), "{none:?}");
    // Its group is registered, and nothing answers.
    assert!(none.err.contains("steam.example.org/v1alpha1: what was added of its types is not seen"), "{none:?}");

    for args in [
        &["create", "configmap", "new", "--namespace=storefront", "--from-literal=a=b"][..],
        &["delete", "configmap/control", "--namespace=storefront"],
        &["label", "catalog/spring", "--namespace=storefront", "season=late"],
    ] {
        ok(&kubectl, args);
    }
    let changed = diff(&own, &["--include-namespaces", "storefront"]);
    let lines = [
        "added    configmaps/storefront/new",
        "removed  configmaps/storefront/control",
        "changed  catalogs.tea.example.org/storefront/spring",
        "           /metadata/labels/season: (absent) -> \"late\"",
    ];
    let out: Vec<&str> = changed.out.lines().collect();
    assert!(changed.code == 1 && lines.iter().all(|line| out.contains(line)), "{changed:?}");
    assert!(changed.out.contains("\n1 added, 1 removed, 1 changed, "), "{changed:?}");
    let elsewhere = diff(&own, &["--include-namespaces", "warehouse"]);
    assert_eq!(elsewhere.code, 0, "{elsewhere:?}");
    let json = diff(&own, &["--include-resources", "configmaps", "-o", "json"]);
    let document: Value = serde_json::from_str(&json.out).expect("JSON");
    let server = &document["cluster"];
    assert!(json.code == 1 && server.as_str().is_some_and(|url| url.starts_with("https://")), "{json:?}");
    let object = |change: &str, name: &str| json!({"change": change, "type": "configmaps", "namespace": "storefront", "name": name});
    assert_eq!(document["objects"], json!([object("added", "new"), object("removed", "control")]));
    assert_eq!(document["notCompared"], json!([]));

    // A type that may not be listed is named, and the others are compared.
    let (proxy, kubeconfig) = Proxy::before_api_server(&own, "forbidden").expect("a proxy");
    let why = "secrets is forbidden: User \"u\" cannot list resource \"secrets\"";
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": why,
        "reason": "Forbidden", "code": 403});
    let fault = Fault::Answer { status: 403, headers: vec![], body: body.to_string() };
    proxy.script(vec![Rule::new("GET", "/api/v1/secrets*", Nth::Every, fault)]);
    let forbidden = diff(&kubeconfig, &[]);
    assert!(forbidden.code == 2 && lines.iter().all(|line| forbidden.out.contains(line)), "{forbidden:?}");
    assert!(!forbidden.out.contains(" secrets/"), "{forbidden:?}");
    assert!(
        forbidden.err.contains("secrets are not compared to the end: ") && forbidden.err.contains(why),
        "{forbidden:?}"
    );
    assert!(
        forbidden.err.contains("takes the right to list them; --exclude-resources leaves them out"),
        "{forbidden:?}"
    );
    let without = diff(&kubeconfig, &["--exclude-resources", "secret"]);
    assert!(without.code == 1 && lines.iter().all(|line| without.out.contains(line)), "{without:?}");
    let odd = diff(&kubeconfig, &["--exclude-resources", "kettles"]);
    assert!(odd.err.contains("--exclude-resources: neither side knows a type \"kettles\""), "{odd:?}");
    let document = diff(&kubeconfig, &["-o", "json"]);
    let document: Value = serde_json::from_str(&document.out).expect("JSON");
    let not_compared = document["notCompared"].as_array().expect("a list");
    let [of_type] = not_compared.as_slice() else { panic!("{not_compared:?}") };
    assert_eq!(of_type["type"], "secrets");
    assert!(of_type["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{of_type}");
}

const MANIFESTS: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: tea}}
---
{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: tea}, data: {k: c2VjcmV0}}
"#;

#[test]
fn the_history_of_an_object_is_told_over_all_backups() {
    let sandbox = Sandbox::start(MANIFESTS);
    let (kubectl, folder) = (sandbox.kubectl(), tempfile::tempdir().expect("a folder"));
    let backup = |name: &str, args: &[&str]| {
        let args = [&["backup", name], args].concat();
        let backup = local(&sandbox.kubeconfig(), folder.path(), &args);
        assert_eq!(backup.code, 0, "{backup:?}");
    };
    let history = |args: &[&str]| lifeboat(&sandbox.kubeconfig(), folder.path(), &[&["history"], args].concat());
    let events = |run: &Run| -> Vec<String> {
        let lines = run.out.lines().map(|line| match line.split_once("Z  ") {
            Some((_, event)) => event.split_whitespace().collect::<Vec<_>>().join(" "),
            None => line.trim().to_owned(),
        });
        lines.collect()
    };
    // They are told in the order in which they were begun, and that is known to the second.
    let second = || jiff::Timestamp::now().strftime("%T").to_string();
    let in_turn = |name: &str, args: &[&str]| {
        backup(name, args);
        let ended = second();
        eventually("the next second", || second() != ended);
    };
    in_turn("z", &["--include-namespaces", "tea"]);
    in_turn("y", &["--include-namespaces", "default"]);
    ok(
        &kubectl,
        &["patch", "secret/key", "--namespace=tea", "--type=merge", "--patch", r#"{"data":{"k":"b3RoZXI="}}"#],
    );
    in_turn("x", &[]);
    in_turn("w", &[]);
    ok(&kubectl, &["delete", "secret/key", "--namespace=tea"]);
    in_turn("v", &[]);

    let told = history(&["secret/key", "--object-namespace", "tea"]);
    let lines = [
        "secrets/tea/key",
        "z present",
        "y not in scope (its namespace is not included)",
        "x changed",
        "/data/k: \"(hidden)\" -> \"(hidden)\"",
        "w unchanged",
        "v vanished",
    ];
    assert!(told.code == 0 && events(&told) == lines, "{told:?}");
    let shown = history(&["secrets", "key", "--object-namespace", "tea", "--show-secrets"]);
    assert!(shown.out.contains("/data/k: \"c2VjcmV0\" -> \"b3RoZXI=\""), "{shown:?}");
    let json = history(&["secrets/key", "--object-namespace", "tea", "-o", "json"]);
    let document: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((&document["events"][0]["event"], &document["events"][4]["backup"]), (&json!("present"), &json!("v")));

    let none = history(&["secrets/none", "--object-namespace", "tea"]);
    assert!(none.code == 1 && none.err.contains("has secrets/tea/none"), "{none:?}");
    for (args, why) in [
        (&["secrets/key"][..], "secrets are in namespaces: say in which with --object-namespace"),
        (&["namespaces/tea", "--object-namespace", "tea"], "namespaces are in no namespace: leave out \"tea\""),
        (&["secrets"], "\"secrets\" is no TYPE/NAME, such as deployment/web"),
        (&["secrets/key", "other"], "secrets/key has a name, and \"other\" is another one: give one"),
        (
            &["kettles/one"],
            "no type is called \"kettles\" in the newest backups: write a custom type with its plural and group",
        ),
        (&["events/one"], "events are in namespaces"),
    ] {
        let run = history(args);
        assert!(run.code == 2 && run.err.contains(why), "{args:?}: {run:?}");
    }
    std::fs::write(folder.path().join("bucket/backups/w/w.tar.gz"), b"torn").expect("write");
    let torn = history(&["secret/key", "--object-namespace", "tea"]);
    assert!(torn.code == 2 && torn.out.contains("w  unreadable (") && torn.out.contains("v  vanished"), "{torn:?}");
}
