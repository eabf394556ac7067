//! Tests of tables and schemas that every API server passes. Each test owns a namespace.

use crate::client::{Api, config_map, version};
use crate::printers::AS_TABLE;
use serde_json::{Value, json};

/// A description that the columns of all types share, as a Kubernetes server has it.
fn description(of: &str) -> String {
    let texts = include_str!("../../src/encoding/table/columns.txt");
    let text = texts.lines().find_map(|line| line.strip_prefix(&format!("={of}|"))).unwrap();
    text.replace("\\n", "\n")
}

fn column(name: &str, r#type: &str, description: &str) -> Value {
    let format = if name == "Name" { "name" } else { "" };
    json!({"name": name, "type": r#type, "format": format, "description": description, "priority": 0})
}

/// Defines widgets in a group of the test's own: v1 with columns, v1beta1 without.
async fn define(api: &Api, columns: Value) -> String {
    let group = format!("{}.example.com", api.namespace);
    let schema = json!({"openAPIV3Schema": {
        "type": "object", "description": "A thing that is made.",
        "properties": {
            "spec": {
                "type": "object", "description": "What is wanted.", "required": ["size"],
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "size": {"type": "integer", "description": "How large it is."},
                    "color": {"type": "string", "enum": ["red", "blue"]},
                    "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                    "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                                 "x-kubernetes-preserve-unknown-fields": true},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    }});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "schema": schema},
                {"name": "v1", "served": true, "storage": true, "schema": schema, "additionalPrinterColumns": columns}]},
    });
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
    api.until(&widgets(api, &group, "v1"), |code, _| code == 200).await;
    group
}

fn widgets(api: &Api, group: &str, version: &str) -> String {
    format!("/apis/{group}/{version}/namespaces/{}/widgets", api.namespace)
}

async fn forget(api: &Api, group: &str) {
    api.delete(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}")).await;
}

pub(crate) async fn tables_of_custom_types_have_their_columns(api: &Api) {
    let shown = [
        ("Size", "integer", ".spec.size", json!(3)),
        ("Ratio", "number", ".spec.ratio", json!(1.5)),
        ("Color", "string", ".spec.color", json!("red")),
        ("On", "boolean", ".spec.on", json!(true)),
        ("Text", "string", ".spec.on", json!("true")),
        ("No Size", "integer", ".spec.color", json!(null)),
        ("Nothing", "string", ".spec.nothing.here", json!(null)),
        ("Ready", "string", r#".spec.conditions[?(@.type=="Ready")].status"#, json!("False")),
        ("Parts", "string", ".spec.parts[*].name", json!("a")),
        ("Last", "string", ".spec.parts[-1].name", json!("b")),
        ("No Part", "string", ".spec.parts[7].name", json!(null)),
        ("All", "string", ".spec.parts", json!(r#"[{"name":"a"},{"name":"b"}]"#)),
        ("Dotted", "string", r".metadata.labels.example\.com/of", json!("x")),
        ("Quoted", "string", r".metadata['labels']['example\.com/of']", json!("x")),
        ("Odd", "date", ".spec.color", json!("<invalid>")),
        ("No Time", "date", ".spec.size", json!(null)),
    ];
    let column_of =
        |(name, r#type, path, _): &(&str, &str, &str, Value)| json!({"name": name, "type": r#type, "jsonPath": path});
    let mut columns: Vec<Value> = shown.iter().map(column_of).collect();
    columns.push(json!({"name": "Made", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1,
                        "format": "date-time", "description": "When it was made."}));
    let group = define(api, columns.into()).await;
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "w", "labels": {"example.com/of": "x"}},
        "spec": {"size": 3, "ratio": 1.5, "color": "red", "on": true, "parts": [{"name": "a"}, {"name": "b"}],
                 "conditions": [{"type": "Odd", "status": "True"}, {"type": "Ready", "status": "False"}]}});
    api.post(&widgets(api, &group, "v1"), &widget).await;

    let path_of = |path: &str| format!("Custom resource definition column (in JSONPath format): {path}");
    let mut expected = vec![column("Name", "string", &description("name"))];
    expected.extend(shown.iter().map(|(name, r#type, path, _)| column(name, r#type, &path_of(path))));
    expected.push(json!({"name": "Made", "type": "date", "format": "date-time", "description": "When it was made.", "priority": 1}));
    let mut cells = vec![json!("w")];
    cells.extend(shown.into_iter().map(|(_, _, _, cell)| cell));
    for path in [widgets(api, &group, "v1"), format!("{}/w", widgets(api, &group, "v1"))] {
        let table = api.get_as(&path, AS_TABLE).await;
        assert_eq!(table["columnDefinitions"], json!(expected));
        let mut found = table["rows"][0]["cells"].as_array().unwrap().clone();
        assert!(is_age(&found.pop().unwrap()), "{table}");
        assert_eq!(found, cells);
    }

    let table = api.get_as(&widgets(api, &group, "v1beta1"), AS_TABLE).await;
    let age = column("Age", "date", &description("created"));
    assert_eq!(table["columnDefinitions"], json!([column("Name", "string", &description("name")), age]));
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert!(cells.len() == 2 && cells[0] == "w" && is_age(&cells[1]), "{table}");
    forget(api, &group).await;
}

/// Returns true if the cell is the age of an object that was just made.
fn is_age(cell: &Value) -> bool {
    cell.as_str().and_then(|text| text.strip_suffix('s')).is_some_and(|seconds| seconds.parse::<u8>().is_ok())
}

pub(crate) async fn rows_hold_what_is_asked_for(api: &Api) {
    let all = api.config_maps();
    let made = api.post(&all, &config_map("x")).await;
    let partial =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]});
    for (include, object) in [("", &partial), ("Metadata", &partial), ("Object", &made), ("None", &Value::Null)] {
        let table = api.get_as(&format!("{all}/x?includeObject={include}"), AS_TABLE).await;
        assert_eq!(table["metadata"], json!({"resourceVersion": version(&made)}));
        let mut row = table["rows"][0].clone();
        assert!(is_age(&row["cells"][2].take()), "{table}");
        assert_eq!(row, json!({"cells": ["x", 1, null], "object": object}), "{include}");
    }
    let (code, status) = api.send("GET", &format!("{all}/x?includeObject=All"), &[("accept", AS_TABLE)], "").await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
}

pub(crate) async fn a_watch_declares_columns_once(api: &Api) {
    let all = api.config_maps();
    let from = api.get(&all).await.1;
    let path = format!("{all}?watch=1&resourceVersion={}&fieldSelector=metadata.name%3Dx", version(&from));
    let mut watch = api.watch_as(&path, AS_TABLE).await;
    api.post(&all, &config_map("x")).await;
    api.patch(&format!("{all}/x"), "merge-patch", &json!({"data": {"b": "2"}})).await;
    let mut told = Vec::new();
    for _ in 0..2 {
        let event = watch.next().await.unwrap();
        let (table, row) = (&event["object"], &event["object"]["rows"][0]);
        let columns: Option<Vec<&Value>> =
            table["columnDefinitions"].as_array().map(|columns| columns.iter().map(|c| &c["name"]).collect());
        told.push(json!([event["type"], table["kind"], columns, row["cells"][0], row["cells"][1]]));
    }
    let names = json!(["Name", "Data", "Age"]);
    assert_eq!(told, [json!(["ADDED", "Table", names, "x", 1]), json!(["MODIFIED", "Table", null, "x", 2])]);
}

pub(crate) async fn a_watch_of_rows_alone_tells_where_its_beginning_ends(api: &Api) {
    let all = api.config_maps();
    api.post(&all, &config_map("x")).await;
    let path = format!(
        "{all}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
         &fieldSelector=metadata.name%3Dx&includeObject=None"
    );
    let mut watch = api.watch_as(&path, AS_TABLE).await;
    let mut first = watch.next().await.unwrap();
    assert!(is_age(&first["object"]["rows"][0]["cells"][2].take()), "{first}");
    assert_eq!(first["object"]["rows"], json!([{"cells": ["x", 1, null], "object": null}]));
    let end = watch.next().await.unwrap();
    let revision = version(&end["object"]);
    let partial = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision, "annotations": {"k8s.io/initial-events-end": "true"}},
    });
    let table = json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": revision},
        "columnDefinitions": null, "rows": [{"cells": ["", 0, "<unknown>"], "object": partial}],
    });
    assert_eq!(end, json!({"type": "BOOKMARK", "object": table}));
}

pub(crate) async fn schemas_of_custom_types_are_published(api: &Api) {
    let group = define(api, json!([])).await;
    let path = format!("apis/{group}/v1");
    let index = api.until("/openapi/v3", |_, index| index["paths"][&path].is_object()).await;
    let url = index["paths"][&path]["serverRelativeURL"].as_str().unwrap();
    let mut component = group.split('.').rev().collect::<Vec<_>>().join(".");
    component += ".v1.Widget";
    let document = api.until(url, |_, document| document["components"]["schemas"][&component].is_object()).await;
    let mut schema = document["components"]["schemas"][&component].clone();

    // The words for what all objects have are each server's own.
    let mut strip = |path: &str| {
        for (field, r#type) in [("apiVersion", json!("string")), ("kind", json!("string")), ("metadata", json!(null))] {
            let field = schema.pointer_mut(&format!("{path}/properties/{field}")).unwrap();
            assert!(field["description"].is_string() && field["type"] == r#type, "{field}");
            *field = field.pointer("/allOf/0/$ref").cloned().unwrap_or_default();
        }
    };
    strip("");
    strip("/properties/spec/properties/template");
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let kind = json!({"group": group, "version": "v1", "kind": "Widget"});
    assert_eq!(
        schema,
        json!({
            "type": "object", "description": "A thing that is made.",
            "properties": {
                "apiVersion": null, "kind": null, "metadata": meta,
                "spec": {
                    "type": "object", "description": "What is wanted.", "required": ["size"],
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "size": {"type": "integer", "description": "How large it is."},
                        "color": {"type": "string", "enum": ["red", "blue"]},
                        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                        "template": {"type": "object", "required": ["kind", "apiVersion"],
                                     "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                                     "properties": {"apiVersion": null, "kind": null, "metadata": meta}},
                    },
                },
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
            "x-kubernetes-group-version-kind": [kind],
        })
    );
    let operation = &document["paths"][format!("/{path}/namespaces/{{namespace}}/widgets/{{name}}")]["get"];
    assert_eq!(
        (&operation["x-kubernetes-action"], &operation["x-kubernetes-group-version-kind"]),
        (&json!("get"), &kind)
    );
    let of_metadata = &document["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
    let fields: Vec<&String> = of_metadata["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 15, "{fields:?}");
    forget(api, &group).await;
}
