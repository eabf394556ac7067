//! What has changed since a backup.

use crate::shop;
use crate::support::{Bed, Run, ok, run};
use lifeboat_testbed::{Fault, Nth, Proxy, Rule};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// `lifeboat ARGS --bucket BUCKET` on a cluster.
fn lifeboat(kubeconfig: &Path, folder: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
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
    assert_eq!(document["objects"].as_array().map(Vec::len), Some(2));

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
}
