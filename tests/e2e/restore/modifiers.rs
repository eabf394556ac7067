//! Resource modifiers on a real API server.

use crate::faults::namespace;
use crate::ground::Ground;
use crate::support::{Run, gunzip_json, program, run, until_types_are_served};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const RULES: &str = r#"version: v1
resourceModifierRules:
- conditions: {groupResource: deployments.apps, namespaces: [shop]}
  strategicPatches:
  - patchData: 'spec: {replicas: 0, template: {spec: {containers: [{name: web, image: "web:2"}]}}}'
- conditions: {groupResource: configmaps, resourceNameRegex: "^set", matches: [{path: /data/color, value: red}]}
  patches:
  - {operation: replace, path: /data/color, value: blue}
  - {operation: add, path: /data/count, value: '"5"'}
- conditions: {groupResource: "widgets.example.com"}
  strategicPatches:
  - patchData: 'spec: {list: [{name: b}]}'
- conditions: {groupResource: services}
  mergePatches:
  - patchData: '{"spec": {"selector": {"app": "other"}}}'
- conditions: {groupResource: services}
  patches:
  - {operation: remove, path: /spec/gone}
- conditions: {groupResource: deployments.apps}
  strategicPatches:
  - patchData: 'spec: {replica: 3}'
"#;

fn application() -> Vec<Value> {
    let own = |name: &str| json!({"name": name, "namespace": "shop"});
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "proxy", "image": "proxy:1"}, {"name": "web", "image": "web:1"}]);
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": own("settings"), "data": {"color": "red"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": own("other"), "data": {"color": "red"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": own("web"),
            "spec": {"selector": labels, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own("web"), "spec": {"replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}}),
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": own("w"), "spec": {"list": [{"name": "a"}]}}),
    ]
}

fn widgets() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn lifeboat(ground: &Ground, args: &[&str]) -> Run {
    run(Command::new(program())
        .args(args)
        .env("KUBECONFIG", ground.bed.plane.kubeconfig())
        .env("XDG_STATE_HOME", ground.directories.path().join("state")))
}

/// Asserts that the rules have changed the application in a namespace.
fn assert_modified(ground: &Ground, space: &str) {
    let get = |kind: &str, name: &str| ground.get_in(space, kind, name);
    assert_eq!(get("configmap", "settings")["data"], json!({"color": "blue", "count": "5"}));
    assert_eq!(get("configmap", "other")["data"], json!({"color": "red"}));
    assert_eq!(get("service", "web")["spec"]["selector"], json!({"app": "other"}));
    let containers = get("deployment", "web")["spec"]["template"]["spec"]["containers"].clone();
    let images: Vec<&Value> = containers.as_array().expect("containers").iter().map(|c| &c["image"]).collect();
    assert_eq!(images, ["proxy:1", "web:2"]);
    assert_eq!(get("widget", "w")["spec"], json!({"list": [{"name": "b"}]}));
}

/// Asserts the results about the application in a namespace.
fn assert_told(results: &Value, space: &str) {
    let of = |severity: &str| -> Vec<String> {
        let found = results[severity]["namespaces"][space].as_array().cloned().unwrap_or_default();
        found.iter().map(|message| message.as_str().expect("text").to_owned()).collect()
    };
    let mut errors = of("errors");
    errors.sort();
    assert_eq!(
        errors,
        [
            format!(
                "error applying resource modifiers to deployments.apps/{space}/web: rule 6: the type has no such field at \"/spec/replica\""
            ),
            format!(
                "error applying resource modifiers to services/{space}/web: rule 5: operation 0 of the JSON patch cannot be applied: there is nothing at \"/spec/gone\""
            ),
        ]
    );
    let merged = "rule 3: the cluster does not say how lists of Widget (example.com/v1) are merged, so its strategic patches are applied as merge patches";
    assert_eq!(of("warnings"), [format!("resource modifiers of widgets.example.com/{space}/w: {merged}")]);
}

/// scenario: ResourceModifier
#[test]
fn rules_change_objects_on_their_way_back() {
    let ground = Ground::start();
    ground.create(&widgets());
    until_types_are_served(&ground.bed.plane, &[]);
    ground.create(&namespace("shop"));
    application().iter().for_each(|object| ground.create(object));
    let files = ground.directory("d", &json!({"default": true}));
    let _server = ground.server("one");
    ground.until("backupstoragelocation", "d", "Available");
    let types = ["configmaps", "services", "deployments.apps", "widgets.example.com"];
    ground.velero("Backup", "b", &json!({"includedNamespaces": ["shop"], "includedResources": types}));
    ground.until("backup", "b", "Completed");

    // By the server, out of a ConfigMap.
    let document = |name: &str, text: &str| {
        ground.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "velero"}, "data": {"rules.yaml": text}}));
    };
    document("rules", RULES);
    let reference = |name: &str| json!({"kind": "configmap", "name": name});
    let spec = |modifier: Value, target: &str| json!({"backupName": "b", "namespaceMapping": {"shop": target}, "resourceModifier": modifier});
    ground.velero("Restore", "r", &spec(reference("rules"), "other"));
    ground.until("restore", "r", "PartiallyFailed");
    assert_modified(&ground, "other");
    assert_told(&gunzip_json(&files.join("restores/r/restore-r-results.gz")), "other");

    // Wrong ones, in the same words by both.
    let wrong = "version: v1\nresourceModifierRules:\n- conditions: {groupResource: pods}\n";
    document("wrong", wrong);
    for (name, modifier, expected) in [
        (
            "w1",
            "wrong",
            "Validation error in resource modifiers provided in configmap velero/wrong: rule 1: no patch data found",
        ),
        ("w2", "gone", "failed to get resource modifiers configmap velero/gone: there is no such ConfigMap"),
    ] {
        ground.velero("Restore", name, &spec(reference(modifier), "never"));
        let refused = ground.until("restore", name, "FailedValidation");
        assert_eq!(refused["status"]["validationErrors"], json!([expected]));
        let bucket = files.display().to_string();
        let said = lifeboat(
            &ground,
            &[
                "local",
                "restore",
                name,
                "--from-backup",
                "b",
                "--bucket",
                &bucket,
                "--resource-modifier-configmap",
                modifier,
            ],
        );
        assert!(said.code == 1 && said.err.contains(expected), "{said:?}");
    }
    assert!(ground.get_in("default", "namespace", "never").is_null());

    // By the command, out of a file; first only shown.
    let file = ground.directories.path().join("rules.yaml");
    std::fs::write(&file, RULES).expect("a file");
    let local = |more: &[&str]| {
        let bucket = files.display().to_string();
        let args =
            ["local", "restore", "l", "--from-backup", "b", "--bucket", &bucket, "--namespace-mappings", "shop:third"];
        lifeboat(&ground, &[&args[..], &["--resource-modifiers", path(&file)], more].concat())
    };
    let shown = local(&["--dry-run"]);
    let expected = "create    configmaps/third/settings\n          modified by rule 2:\n            /data/color: \"red\" -> \"blue\"\n            /data/count: (absent) -> \"5\"\n";
    assert!(shown.out.contains(expected), "{shown:?}");
    assert!(ground.get_in("default", "namespace", "third").is_null());
    let restored = local(&[]);
    assert_eq!(restored.code, 3, "{restored:?}");
    assert_modified(&ground, "third");
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a path")
}
