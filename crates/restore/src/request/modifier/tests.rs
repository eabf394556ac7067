//! Documents of resource modifiers and what they do with an object (velero: internal/resourcemodifiers).

use super::*;
use crate::actions::test_server::{FixedResponse, TestServer};
use lifeboat_object::GroupResource;
use serde_json::{Value, json};

fn rule(rest: &str) -> String {
    format!("version: v1\nresourceModifierRules:\n- conditions: {{groupResource: configmaps}}\n  {rest}\n")
}

fn problem(text: &str) -> String {
    match Modifiers::parse(text) {
        Ok(_) => "none".to_owned(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn what_is_wrong_with_a_document_is_said_in_veleros_words_with_the_rule() {
    let patch = |patch: &str| rule(&format!("patches: [{{{patch}}}]"));
    for (text, expected) in [
        ("", "unsupported resource modifier version "),
        ("version: v2\nresourceModifierRules: []", "unsupported resource modifier version v2"),
        ("version: V1\nresourceModifierRules: []", "resource modifier rules cannot be empty"),
        (
            "version: v1\nresourceModifierRules:\n- patches: [{operation: add, path: /a}]",
            "rule 1: groupkResource cannot be empty",
        ),
        (&rule(""), "rule 1: no patch data found"),
        (
            &rule("patches: [{operation: add, path: /a}]\n  mergePatches: [{patchData: '{}'}]"),
            "rule 1: only one of patches, mergePatches, strategicPatches can be specified",
        ),
        (&patch("path: /a"), "rule 1: operation cannot be empty"),
        (&patch("operation: put, path: /a"), "rule 1: unsupported operation put"),
        (&patch("operation: add"), "rule 1: path cannot be empty"),
        (&patch("operation: add, path: a"), "rule 1: the path \"a\" does not begin with a slash"),
        (&patch("operation: move, path: /a"), "rule 1: the operation move needs a path in from"),
        (
            &patch("operation: add, path: /a, value: 'True'"),
            "rule 1: the value True is ambiguous: write true, or '\"True\"' for the text",
        ),
        (&rule("mergePatches: [{patchData: 'null'}]"), "rule 1: patchData holds no object"),
        (&rule("mergePatches: [{patchData: '[1]'}]"), "rule 1: patchData holds no object"),
        (
            &rule("patches: [{operation: add, path: /a}]").replace("configmaps", "'[a'"),
            "rule 1: groupResource: \"[a\" is no glob",
        ),
        (
            &rule("patches: [{operation: add, path: /a}]").replace("configmaps}", "configmaps, matches: [{value: a}]}"),
            "rule 1: path is required for match rule",
        ),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
    // The words of the libraries are theirs.
    for (text, expected) in [
        (patch("operation: add, path: /a, other: 1"), "failed to decode yaml data into resource modifiers, err: "),
        ("version: v1\nrules: []".to_owned(), "failed to decode yaml data into resource modifiers, err: "),
        ("version: v1\nversion: v1".to_owned(), "failed to decode yaml data into resource modifiers, err: "),
        (patch("operation: add, path: /a, value: {b: 1}"), "failed to decode yaml data into resource modifiers, err: "),
        (rule("mergePatches: [{patchData: '{'}]"), "rule 1: patchData is neither YAML nor JSON: "),
        (
            rule("patches: [{operation: add, path: /a}]").replace("configmaps}", "configmaps, resourceNameRegex: '('}"),
            "rule 1: error in matching regex ",
        ),
        (
            rule("patches: [{operation: add, path: /a}]")
                .replace("configmaps}", "configmaps, labelSelector: {matchExpressions: [{key: a, operator: Like}]}}"),
            "rule 1: error in creating label selector ",
        ),
    ] {
        assert!(problem(&text).starts_with(expected), "{text}: {}", problem(&text));
        let shows_text = problem(&text).contains("-->");
        assert!(!shows_text, "one line, without the text around the place: {}", problem(&text));
    }
}

/// Applies a document to a ConfigMap of the namespace `shop`. Returns its data, the rules, and the errors.
async fn modified(text: &str) -> (Value, Vec<usize>, Vec<String>) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings-1", "namespace": "shop", "labels": {"tier": "gold"}},
        "data": {"color": "red", "size": "5"}});
    let modifiers = Modifiers::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let server = TestServer::start(Vec::new()).await;
    let schemas = Schemas::new(&server.cluster);
    let resource = GroupResource::new("", "configmaps");
    let candidate = ModifierTarget { resource: &resource, namespace: Some("shop"), object: &object };
    let (changed, modified) = modifiers.apply(candidate, &schemas).await.unwrap();
    let data = changed.as_ref().unwrap_or(&object)["data"].clone();
    (data, modified.by.iter().map(|one| one.rule).collect(), modified.errors)
}

#[tokio::test]
async fn a_rule_is_for_the_objects_that_meet_all_its_conditions() {
    let patch = "\n  patches: [{operation: add, path: /data/new, value: x}]\n";
    for (conditions, expected) in [
        ("groupResource: configmaps", true),
        ("groupResource: '*'", true),
        ("groupResource: '*.apps'", false),
        ("groupResource: cm", false),
        ("groupResource: '**', namespaces: [shop]", true),
        ("groupResource: '**', namespaces: ['sh*', other]", true),
        ("groupResource: '**', namespaces: [other]", false),
        ("groupResource: '**', resourceNameRegex: 'ings-[0-9]$'", true),
        ("groupResource: '**', resourceNameRegex: '^ings'", false),
        ("groupResource: '**', labelSelector: {matchLabels: {tier: gold}}", true),
        ("groupResource: '**', labelSelector: {matchLabels: {tier: silver}}", false),
        ("groupResource: '**', matches: [{path: /data/color, value: red}]", true),
        ("groupResource: '**', matches: [{path: /data/color, value: red}, {path: /data/size, value: '\"5\"'}]", true),
        // Text that looks like a number is one.
        ("groupResource: '**', matches: [{path: /data/size, value: '5'}]", false),
        // What is not there is not null, unlike in Velero.
        ("groupResource: '**', matches: [{path: /data/gone, value: 'null'}]", false),
    ] {
        let text = format!("version: v1\nresourceModifierRules:\n- conditions: {{{conditions}}}{patch}");
        assert_eq!(!modified(&text).await.1.is_empty(), expected, "{conditions}");
    }
}

#[tokio::test]
async fn cluster_scoped_objects_meet_every_condition_on_namespaces() {
    let text = "version: v1
resourceModifierRules:
- conditions: {groupResource: '**', namespaces: [other]}
  mergePatches: [{patchData: 'spec: {new: x}'}]
";
    let modifiers = Modifiers::parse(text).unwrap();
    let server = TestServer::start(Vec::new()).await;
    let schemas = Schemas::new(&server.cluster);
    let object = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}});
    for (namespace, expected) in [(None, true), (Some("other"), true), (Some("shop"), false)] {
        let resource = GroupResource::new("", "persistentvolumes");
        let (changed, _) = modifiers
            .apply(ModifierTarget { resource: &resource, namespace, object: &object }, &schemas)
            .await
            .unwrap();
        assert_eq!(changed.is_some(), expected, "{namespace:?}");
    }
}

#[tokio::test]
async fn patches_change_an_object_or_leave_it_as_it_was_before_the_rule() {
    let red = json!({"color": "red", "size": "5"});
    for (rest, data, by, errors) in [
        (
            "patches: [{operation: replace, path: /data/color, value: blue}]",
            json!({"color": "blue", "size": "5"}),
            vec![1],
            vec![],
        ),
        ("patches: [{operation: REMOVE, path: /data/size}]", json!({"color": "red"}), vec![1], vec![]),
        (
            "patches: [{operation: move, from: /data/size, path: /data/s}]",
            json!({"color": "red", "s": "5"}),
            vec![1],
            vec![],
        ),
        // The first operation goes with the second.
        (
            "patches: [{operation: add, path: /data/new, value: x}, {operation: remove, path: /data/gone}]",
            red.clone(),
            vec![],
            vec!["rule 1: operation 1 of the JSON patch cannot be applied: there is nothing at \"/data/gone\""],
        ),
        // A test that fails is a condition.
        (
            "patches: [{operation: test, path: /data/color, value: blue}, {operation: remove, path: /data/size}]",
            red.clone(),
            vec![],
            vec![],
        ),
        (
            "mergePatches: [{patchData: '{\"data\": {\"color\": null, \"n\": \"1\"}}'}, {patchData: 'data: {size: \"6\"}'}]",
            json!({"size": "6", "n": "1"}),
            vec![1],
            vec![],
        ),
        ("patches: [{operation: replace, path: '/data', value: '{\"a\": \"b\"}'}]", json!({"a": "b"}), vec![1], vec![]),
        (
            "patches: [{operation: replace, path: /metadata/name, value: new}]",
            red.clone(),
            vec![],
            vec!["rule 1: it would become another object: rules cannot change name, kind and group"],
        ),
        // What changes nothing has not changed it.
        ("patches: [{operation: replace, path: /data/color, value: red}]", red.clone(), vec![], vec![]),
    ] {
        let errors: Vec<String> = errors.into_iter().map(str::to_owned).collect();
        assert_eq!(modified(&rule(rest)).await, (data, by, errors), "{rest}");
    }
}

#[tokio::test]
async fn rules_apply_in_order_and_their_conditions_see_the_unmodified_object() {
    let text = "version: v1
resourceModifierRules:
- conditions: {groupResource: configmaps}
  patches: [{operation: replace, path: /data/color, value: blue}]
- conditions: {groupResource: configmaps}
  patches: [{operation: remove, path: /data/gone}]
- conditions: {groupResource: configmaps, matches: [{path: /data/color, value: red}]}
  patches: [{operation: copy, from: /data/color, path: /data/copy}]
- conditions: {groupResource: configmaps, matches: [{path: /data/color, value: blue}]}
  patches: [{operation: add, path: /data/never, value: x}]
";
    let error =
        "rule 2: operation 0 of the JSON patch cannot be applied: there is nothing at \"/data/gone\"".to_owned();
    assert_eq!(modified(text).await, (json!({"color": "blue", "size": "5", "copy": "blue"}), vec![1, 3], vec![error]));
}

#[tokio::test]
async fn strategic_patches_follow_the_cluster_and_fall_back_to_merge_patches() {
    let container = json!({"type": "object", "properties": {"name": {"type": "string"}, "image": {"type": "string"}}});
    let schemas = json!({"components": {"schemas": {
        "Pod": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
            "properties": {"spec": {"type": "object", "properties": {"containers": {"type": "array", "items": container,
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}}}}}}}});
    // As of a custom resource, whose group may look like one of Kubernetes.
    let gateway = json!({"components": {"schemas": {"Gateway": {"type": "object",
        "x-kubernetes-group-version-kind": [{"group": "gateway.networking.k8s.io", "version": "v1", "kind": "Gateway"}],
        "properties": {"spec": {"type": "object", "properties": {"containers": {"type": "array"}}}}}}}});
    let answers = vec![
        FixedResponse::object("/openapi/v3/api/v1", &schemas),
        FixedResponse::object("/openapi/v3/apis/gateway.networking.k8s.io/v1", &gateway),
    ];
    let server = TestServer::start(answers).await;
    let schemas = Schemas::new(&server.cluster);
    let text = "version: v1
resourceModifierRules:
- conditions: {groupResource: '**'}
  strategicPatches:
  - patchData: '{\"spec\": {\"containers\": [{\"name\": \"b\", \"image\": \"new\"}]}}'
- conditions: {groupResource: pods}
  strategicPatches:
  - patchData: 'spec: {containers: [{name: b, picture: x}]}'
";
    let modifiers = Modifiers::parse(text).unwrap();
    let containers = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]);
    for (api_version, kind, resource, expected, errors, warnings) in [
        (
            "v1",
            "Pod",
            GroupResource::new("", "pods"),
            json!([{"name": "a", "image": "i"}, {"name": "b", "image": "new"}]),
            vec!["rule 2: the type has no such field at \"/spec/containers/0/picture\""],
            vec![],
        ),
        (
            "example.com/v1",
            "Widget",
            GroupResource::new("example.com", "widgets"),
            json!([{"name": "b", "image": "new"}]),
            vec![],
            vec![
                "rule 1: the cluster does not say how lists of Widget (example.com/v1) are merged, so its strategic patches are applied as merge patches",
            ],
        ),
        (
            "gateway.networking.k8s.io/v1",
            "Gateway",
            GroupResource::new("gateway.networking.k8s.io", "gateways"),
            json!([{"name": "b", "image": "new"}]),
            vec![],
            vec![
                "rule 1: the cluster does not say how lists of Gateway (gateway.networking.k8s.io/v1) are merged, so its strategic patches are applied as merge patches",
            ],
        ),
    ] {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": {"containers": containers}});
        let candidate = ModifierTarget { resource: &resource, namespace: None, object: &object };
        let (changed, modified) = modifiers.apply(candidate, &schemas).await.unwrap();
        assert_eq!(changed.unwrap()["spec"]["containers"], expected, "{kind}");
        assert_eq!(
            (modified.errors, modified.warnings),
            (errors.into_iter().map(str::to_owned).collect(), warnings.into_iter().map(str::to_owned).collect()),
            "{kind}"
        );
    }
}
