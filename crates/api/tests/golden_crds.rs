//! The definitions we install against those of Velero 1.18.2 (velero: config/crd).
#![allow(clippy::unwrap_used, reason = "a broken fixture fails the test")]

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where ours differ from Velero's, and why.
const DEVIATIONS: [(&str, &str); 1] =
    [("/metadata/annotations", "names the version of controller-gen, which made Velero's definitions and not ours")];

/// Properties that Velero's definitions do not have, and why ours do.
const ADDITIONS: [(&str, &str, &str, &str); 21] = [
    ("backups.velero.io", "/properties/spec/properties/allowUnprotected", "boolean", "goes on without some volumes"),
    ("backups.velero.io", "/properties/spec/properties/cancel", "boolean", "ends a backup"),
    (
        "backups.velero.io",
        "/properties/spec/properties/metadata/properties/annotations",
        "object",
        "of Velero after 1.18",
    ),
    (
        "backups.velero.io",
        "/properties/spec/properties/volumeGroupFallback",
        "string",
        "takes single snapshots where no group can be",
    ),
    ("backups.velero.io", "/properties/status/properties/attempt", "integer", "tells how often it was begun"),
    ("backups.velero.io", "/properties/status/properties/unprotectedVolumes", "integer", "counts what nothing saved"),
    ("restores.velero.io", "/properties/spec/properties/allowRecreate", "array", "lets more objects be made anew"),
    ("restores.velero.io", "/properties/spec/properties/cancel", "boolean", "ends a restore"),
    (
        "restores.velero.io",
        "/properties/spec/properties/existingResourcePolicyOverrides",
        "array",
        "gives some existing objects a policy of their own",
    ),
    ("restores.velero.io", "/properties/spec/properties/planDigest", "string", "holds a restore to a plan"),
    ("restores.velero.io", "/properties/spec/properties/prune", "boolean", "removes what the backup lacks"),
    ("restores.velero.io", "/properties/spec/properties/resourcePolicy", "object", "of Velero after 1.18"),
    (
        "restores.velero.io",
        "/properties/spec/properties/skipDefaultResourceModifier",
        "boolean",
        "of Velero after 1.18",
    ),
    (
        "restores.velero.io",
        "/properties/spec/properties/restoreOwnerReferences",
        "boolean",
        "gives objects their owners back",
    ),
    ("restores.velero.io", "/properties/status/properties/attempt", "integer", "tells how often it was begun"),
    (
        "schedules.velero.io",
        "/properties/spec/properties/retention",
        "object",
        "keeps backups although their time is over",
    ),
    (
        "schedules.velero.io",
        "/properties/spec/properties/template/properties/allowUnprotected",
        "boolean",
        "the spec of a backup",
    ),
    (
        "schedules.velero.io",
        "/properties/spec/properties/template/properties/cancel",
        "boolean",
        "the spec of a backup",
    ),
    (
        "schedules.velero.io",
        "/properties/spec/properties/template/properties/volumeGroupFallback",
        "string",
        "the spec of a backup",
    ),
    (
        "schedules.velero.io",
        "/properties/spec/properties/template/properties/metadata/properties/annotations",
        "object",
        "of Velero after 1.18",
    ),
    ("schedules.velero.io", "/properties/status/properties/message", "string", "tells what a run waits for"),
];

/// Removes the descriptions of a schema, but no property of that name.
fn strip_descriptions(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    object.remove("description");
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(strip_descriptions);
    }
    for nested in ["items", "additionalProperties"] {
        object.get_mut(nested).map(strip_descriptions);
    }
    // The order of required names means nothing.
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.sort_by_key(Value::to_string);
    }
}

fn comparable(mut crd: Value) -> Value {
    crd["spec"]["versions"].as_array_mut().unwrap().iter_mut().for_each(|v| {
        strip_descriptions(&mut v["schema"]["openAPIV3Schema"]);
    });
    for (pointer, _) in DEVIATIONS {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        crd.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    }
    crd
}

fn by_name(crds: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    crds.into_iter().map(|crd| (crd["metadata"]["name"].as_str().unwrap().to_owned(), comparable(crd))).collect()
}

#[test]
fn definitions_are_those_of_velero() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/crds");
    let golden = by_name(std::fs::read_dir(folder).unwrap().map(|file| {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }));
    let mut ours = by_name(lifeboat_api::crds());
    for (name, property, of_type, reason) in ADDITIONS {
        let schema = &mut ours.get_mut(name).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let (parent, field) = property.rsplit_once('/').unwrap();
        let properties = schema.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        assert_eq!(properties.remove(field).unwrap()["type"], of_type, "{reason}");
    }
    assert_eq!(ours.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>());
    assert_eq!(ours.len(), 13);
    for (name, crd) in &ours {
        assert_eq!(crd, &golden[name], "{name}");
    }
}

#[test]
fn deviations_are_real() {
    let ours = &lifeboat_api::crds()[0];
    let golden: Value = serde_json::from_str(include_str!("golden/crds/backuprepositories.velero.io.json")).unwrap();
    for (pointer, reason) in DEVIATIONS {
        assert_ne!(ours.pointer(pointer), golden.pointer(pointer), "{reason}");
    }
}

#[test]
fn fields_are_explained() {
    let crds = lifeboat_api::crds();
    let backup = crds.iter().find(|crd| crd["metadata"]["name"] == "backups.velero.io").unwrap();
    let schema = &backup["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(
        schema.pointer("/properties/spec/properties/includedNamespaces"),
        Some(&json!({
            "type": "array",
            "items": {"type": "string"},
            "nullable": true,
            "description": "Namespaces to save; empty or * for all; globs allowed.",
        }))
    );
}
