use super::*;
use proptest::prelude::*;
use serde_json::json;

/// Parts of Kubernetes' own document.
fn schema() -> MergeSchema {
    let reference = |name: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}], "default": {}});
    let merged = |name: &str, key: &str| {
        json!({"type": "array", "items": reference(name),
        "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": key})
    };
    let kinds = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}]);
    let document = json!({"components": {"schemas": {
        "Deployment": {"type": "object", "x-kubernetes-group-version-kind": kinds,
            "properties": {"metadata": reference("Meta"), "spec": reference("Spec")}},
        "Meta": {"type": "object", "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"}}},
        "Spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "format": "int32"},
            "paused": {"type": "boolean"},
            "ratio": {"type": "number"},
            "anything": {"type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": true},
            "whole": {"allOf": [{"$ref": "#/components/schemas/Strategy"}], "x-kubernetes-patch-strategy": "replace"},
            "strategy": {"allOf": [{"$ref": "#/components/schemas/Strategy"}], "x-kubernetes-patch-strategy": "retainKeys"},
            "args": {"type": "array", "items": {"type": "string"}},
            "containers": merged("Container", "name")}},
        "Strategy": {"type": "object", "properties": {"type": {"type": "string"}, "rollingUpdate": {"type": "object"}}},
        "Container": {"type": "object", "properties": {
            "name": {"type": "string"}, "image": {"type": "string"},
            "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
            "env": merged("Env", "name")}},
        "Env": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}},
    }}});
    MergeSchema::of(&MergeSchema::schemas(document), "apps", "v1", "Deployment").unwrap()
}

fn patched(object: &Value, patch: &Value) -> Result<Value, String> {
    let mut object = object.clone();
    let before = object.clone();
    match strategic_merge(&mut object, patch, &schema()) {
        Ok(()) => Ok(object),
        Err(e) => {
            assert_eq!(object, before, "an object is left alone");
            Err(e.to_string())
        }
    }
}

fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

#[test]
fn a_schema_is_that_of_its_group_version_and_kind() {
    let kind = |group: &str, version: &str, kind: &str| json!({"properties": {}, "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}]});
    let all = json!({"components": {"schemas": {"a": kind("apps", "v1", "Deployment"), "list": {"x-kubernetes-group-version-kind":
        [{"group": "apps", "version": "v1", "kind": "DeploymentList"}]}}}});
    let all = MergeSchema::schemas(all);
    for (group, version, kind, found) in [
        ("apps", "v1", "Deployment", true),
        ("extensions", "v1", "Deployment", false),
        ("apps", "v1beta1", "Deployment", false),
        ("apps", "v1", "StatefulSet", false),
        ("apps", "v1", "DeploymentList", false),
    ] {
        assert_eq!(MergeSchema::of(&all, group, version, kind).is_some(), found, "{group} {version} {kind}");
    }
}

#[test]
fn an_object_gives_way_or_takes_what_its_schema_does_not_name() {
    let before = spec(json!({"whole": {"type": "a", "rollingUpdate": {}}, "anything": {"one": 1}}));
    let patch = spec(json!({"whole": {"type": "b"}, "anything": {"two": 2}, "ratio": 0.5}));
    let expected = spec(json!({"whole": {"type": "b"}, "anything": {"one": 1, "two": 2}, "ratio": 0.5}));
    assert_eq!(patched(&before, &patch), Ok(expected));
    // What is no object gives way as well.
    let odd = spec(json!({"anything": "text"}));
    assert_eq!(patched(&odd, &spec(json!({"anything": {"two": 2}}))), Ok(spec(json!({"anything": {"two": 2}}))));
    for (patch, why) in [
        (json!({"ratio": "half"}), "\"half\" is no number"),
        (json!({"replicas": 18_446_744_073_709_551_615_u64, "ratio": true}), "true is no number"),
        (json!({"replicas": 1.5}), "1.5 is no integer"),
    ] {
        let refused = patched(&before, &spec(patch.clone())).unwrap_err();
        assert!(refused.contains(why), "{patch} {refused}");
    }
}

#[test]
fn lists_are_merged_by_their_key_and_other_lists_replaced() {
    let one = |image: &str| json!({"name": "a", "image": image});
    let before =
        spec(json!({"containers": [one("i:1"), {"name": "b", "env": [{"name": "X", "value": "1"}]}], "args": ["x"]}));
    for (patch, expected) in [
        (
            json!({"containers": [one("i:2")]}),
            json!({"containers": [one("i:2"), before["spec"]["containers"][1]], "args": ["x"]}),
        ),
        (
            json!({"containers": [{"name": "b", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "3"}]}]}),
            json!({"containers": [one("i:1"), {"name": "b", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "3"}]}], "args": ["x"]}),
        ),
        (
            json!({"containers": [{"name": "c", "env": [{"name": "Z", "$patch": "delete"}]}]}),
            json!({"containers": [{"name": "c", "env": []}, one("i:1"), before["spec"]["containers"][1]], "args": ["x"]}),
        ),
        (
            json!({"containers": [{"name": "b", "$patch": "delete"}]}),
            json!({"containers": [one("i:1")], "args": ["x"]}),
        ),
        (
            json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
            json!({"containers": [{"name": "z"}], "args": ["x"]}),
        ),
        (
            json!({"containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [before["spec"]["containers"][1], one("i:1")], "args": ["x"]}),
        ),
        (
            json!({"containers": [{"name": "a", "image": "lost", "$patch": "replace"}, {"name": "z"}]}),
            json!({"containers": [{"name": "z"}], "args": ["x"]}),
        ),
        (json!({"args": ["y", "z"], "containers": null}), json!({"args": ["y", "z"]})),
        (json!({"$patch": "replace", "replicas": 3}), json!({"replicas": 3})),
        (json!({"$patch": "delete"}), json!({})),
        (
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [before["spec"]["containers"][1], one("i:1")], "args": ["x"]}),
        ),
    ] {
        assert_eq!(patched(&before, &spec(patch.clone())), Ok(spec(expected)), "{patch}");
    }
}

#[test]
fn plain_lists_are_united_and_elements_deleted_from_them() {
    let before = json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1", "y": "2"}}});
    for (patch, expected) in [
        (json!({"finalizers": ["b", "c"]}), json!({"finalizers": ["a", "b", "c"], "labels": {"x": "1", "y": "2"}})),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["a"]}),
            json!({"finalizers": ["b"], "labels": {"x": "1", "y": "2"}}),
        ),
        (
            json!({"finalizers": ["c"], "$setElementOrder/finalizers": ["c", "b"]}),
            json!({"finalizers": ["c", "a", "b"], "labels": {"x": "1", "y": "2"}}),
        ),
        (json!({"labels": {"x": null, "z": "3"}}), json!({"finalizers": ["a", "b"], "labels": {"y": "2", "z": "3"}})),
    ] {
        let patch = json!({ "metadata": patch });
        assert_eq!(patched(&before, &patch), Ok(json!({ "metadata": expected })), "{patch}");
    }
}

#[test]
fn only_named_keys_are_retained() {
    let before = spec(json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}));
    let patch = spec(json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}));
    assert_eq!(patched(&before, &patch), Ok(spec(json!({"strategy": {"type": "Recreate"}}))));
}

#[test]
fn what_does_not_fit_the_type_is_refused_with_its_place() {
    let before = spec(json!({"replicas": 1, "containers": [{"name": "a"}]}));
    for (patch, expected) in [
        (spec(json!({"replicas": "many"})), r#""many" is no integer at "/spec/replicas""#),
        (spec(json!({"replicas": 1.5})), r#"1.5 is no integer at "/spec/replicas""#),
        (spec(json!({"paused": 1})), r#"1 is no boolean at "/spec/paused""#),
        (spec(json!({"containers": {}})), r#"{} is no array at "/spec/containers""#),
        (spec(json!({"containers": ["a"]})), r#""a" is no object at "/spec/containers/0""#),
        (json!({"metadata": {"labels": "word"}}), r#""word" is no object at "/metadata/labels""#),
        (json!({"metadata": {"labels": {"a/b": 1}}}), r#"1 is no string at "/metadata/labels/a~1b""#),
        (spec(json!({"replica": 1})), r#"the type has no such field at "/spec/replica""#),
        (
            spec(json!({"containers": [{"name": "n", "picture": "x"}]})),
            r#"the type has no such field at "/spec/containers/0/picture""#,
        ),
        (
            spec(json!({"containers": [{"image": "x"}]})),
            r#"the element does not contain the merge key name at "/spec/containers/0""#,
        ),
        (
            spec(json!({"containers": [{"name": "a", "$patch": "nonsense"}]})),
            r#"unknown patch type "nonsense" at "/spec/containers/0""#,
        ),
        (spec(json!({"$patch": "nonsense"})), r#"unknown patch type "nonsense" at "/spec/$patch""#),
        (spec(json!({"$other": 1})), r#"the directive is unknown at "/spec/$other""#),
        (json!([]), r#"the patch is no object at """#),
    ] {
        assert_eq!(patched(&before, &patch), Err(expected.to_owned()), "{patch}");
    }
    let ports = spec(json!({"containers": [{"name": "a", "port": "http"}, {"name": "b", "port": 80}]}));
    assert!(patched(&before, &ports).is_ok(), "a place for both takes both");
}

#[test]
fn only_kinds_with_fields_have_a_schema() {
    let schemas = MergeSchema::schemas(json!({"components": {"schemas": {
        "W": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "W"}]}}}}));
    assert!(MergeSchema::of(&schemas, "g", "v1", "W").is_none());
    assert!(MergeSchema::of(&MergeSchema::schemas(json!(7)), "g", "v1", "W").is_none());
}

/// The results of Kubernetes' own library for these patches: crates/testbed/go/strategic-patches prints them.
const APIMACHINERY: &str = include_str!("apimachinery.json");

#[test]
fn patches_have_the_effect_that_they_have_in_kubernetes() {
    let cases: Vec<Value> = serde_json::from_str(APIMACHINERY).unwrap();
    assert!(cases.len() > 100);
    for case in cases {
        let (object, patch, expected) = (&case["object"], &case["patch"], &case["result"]);
        let found = patched(object, patch);
        assert_eq!(
            found.as_ref().ok().map(without_nothing),
            Some(without_nothing(expected)).filter(|_| !expected.is_null()),
            "{patch} on {object}: {found:?}"
        );
    }
}

/// Drops fields that are empty or null, which are the same to Kubernetes as absent ones, and the directives that its
/// library leaves in new values: no type has such fields.
fn without_nothing(value: &Value) -> Value {
    let is_something = |value: &Value| match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| (name.clone(), without_nothing(value)));
            Value::Object(fields.filter(|(name, value)| !name.starts_with('$') && is_something(value)).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nothing).collect()),
        other => other.clone(),
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z$/]{0,4}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name =
            prop_oneof!["metadata|spec|containers|name|env|labels|finalizers|\\$patch|\\$retainKeys", "[a-z$/]{1,3}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_patch_panics_and_one_that_is_applied_again_changes_nothing(object in any_json(), patch in any_json()) {
        let mut once = object;
        if strategic_merge(&mut once, &patch, &schema()).is_ok() {
            let mut twice = once.clone();
            prop_assert_eq!(strategic_merge(&mut twice, &patch, &schema()), Ok(()));
            prop_assert_eq!(twice, once);
        }
    }
}
