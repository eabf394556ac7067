//! OpenAPI v3: what `kubectl explain` shows of custom types, and how kubectl learns that this server validates nothing it would have
//! to validate itself.
//!
//! Schemas are large. None is kept: the document of a group and version is made of its definitions when it is asked for. The
//! schemas of built-in types are not served.

use crate::encoding::error::ApiError;
use crate::server::shared::Server;
use crate::types::crd;
use crate::types::known::definition_key;
use crate::types::served::ServedTypes;
use lifeboat_object::ApiResource;
use serde_json::{Map, Value, json};

/// Schemas of the metadata of every object, by name.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const OWNER_REFERENCE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";
const MANAGED_FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";

impl Server {
    /// `/openapi/v3`.
    pub(crate) fn open_api_index(&self) -> Value {
        index(&self.store.types(), *self.store.revisions().borrow())
    }

    /// `/openapi/v3/api/v1`, `/openapi/v3/apis/GROUP/VERSION`; `None` when there is no such group or version.
    pub(crate) async fn open_api(&self, group: &str, version: &str) -> Result<Option<Value>, ApiError> {
        let types = self.store.types();
        let Some(mut document) = document(&types, group, version) else { return Ok(None) };
        let mut schemas = Map::new();
        for resource in of_version(&types, group, version).filter(|r| types.is_custom(r)) {
            let definition = self.store.get(&definition_key(&resource.resource, group)).await?.map(|d| d.value());
            let schema = definition.as_ref().and_then(|definition| crd::schema(definition, version));
            schemas.insert(component(resource), schema_of(resource, schema));
        }
        if !schemas.is_empty() {
            schemas.extend(metadata_schemas());
        }
        document["components"]["schemas"] = schemas.into();
        Ok(Some(document))
    }
}

fn of_version<'a>(types: &'a ServedTypes, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a ApiResource> {
    types.all().map(|r| &**r).filter(move |r| r.group == group && r.version == version)
}

/// The index: the address of the document of each group-version. An address changes when its document may have changed:
/// with the types, and, for group-versions with custom types, with every write, since their definitions are not read
/// for it.
fn index(types: &ServedTypes, revision: u64) -> Value {
    let mut paths = Map::new();
    for (group, versions) in types.groups() {
        for version in versions {
            let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let mut text = document(types, group, version).map(|d| d.to_string()).unwrap_or_default();
            if of_version(types, group, version).any(|r| types.is_custom(r)) {
                text += &revision.to_string();
            }
            let url = format!("/openapi/v3/{path}?hash={:016X}", fingerprint(&text));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// FNV-1a: changes when the text does.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The document of one group-version without its schemas: which type is where, and that patches take `fieldValidation`.
/// Without that kubectl validates by itself and asks for all schemas.
fn document(types: &ServedTypes, group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    for r in of_version(types, group, version).filter(|r| r.can("get")) {
        let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let namespace = if r.namespaced { "/namespaces/{namespace}" } else { "" };
        let operation = |action: &str, parameters: &[&str]| {
            let parameter = |name: &&str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
            json!({
                "parameters": parameters.iter().map(parameter).collect::<Vec<_>>(),
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": r.kind},
            })
        };
        // Of types that cannot be written too: who tries is then told by this server why not, and not by kubectl that there are no schemas.
        let patch = operation("patch", &["dryRun", "fieldManager", "fieldValidation"]);
        let operations = json!({"get": operation("get", &[]), "patch": patch});
        paths.insert(format!("{base}{namespace}/{}/{{name}}", r.resource), operations);
    }
    let is_served = of_version(types, group, version).next().is_some();
    is_served.then(|| {
        json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "unversioned"},
               "paths": paths, "components": {"schemas": {}}})
    })
}

/// The name of a type's schema, such as `com.example.v1.Widget`.
fn component(resource: &ApiResource) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), resource.version, resource.kind)
}

/// The schema of a custom type, with what every object has. Of a type without a definition nothing is known.
fn schema_of(resource: &ApiResource, schema: Option<&Value>) -> Value {
    let mut schema = match schema {
        Some(schema) if schema.is_object() => {
            let mut schema = schema.clone();
            add_embedded(&mut schema);
            add_object(&mut schema);
            schema
        }
        _ => json!({"type": "object"}),
    };
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    schema
}

/// Adds the fields of an object to the schema of one.
fn add_object(schema: &mut Value) {
    let Some(properties) = properties(schema) else { return };
    let text = |description: &str| json!({"type": "string", "description": description});
    properties.insert(
        "apiVersion".to_owned(),
        text("The group and the version in which this object is written: GROUP/VERSION."),
    );
    properties.insert("kind".to_owned(), text("The kind of this object, such as Pod."));
    let metadata = json!({
        "description": "What objects of every type have: name, labels, owners and more.",
        "allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}],
    });
    properties.insert("metadata".to_owned(), metadata);
}

fn properties(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    schema.as_object_mut()?.entry("properties").or_insert_with(|| json!({})).as_object_mut()
}

/// Does the same for the objects inside that the definition says are whole objects. JSON that is read is never nested deep.
fn add_embedded(schema: &mut Value) {
    for name in ["items", "additionalProperties"] {
        if let Some(inside) = schema.get_mut(name) {
            add_embedded(inside);
        }
    }
    for inside in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        add_embedded(inside);
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        add_object(schema);
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|found| found == name) {
                required.push(name.into());
            }
        }
        schema["required"] = required.into();
    }
}

/// The schemas of metadata.
fn metadata_schemas() -> Map<String, Value> {
    let field = |r#type: &str, description: &str| json!({"type": r#type, "description": description});
    let time = |description: &str| json!({"type": "string", "format": "date-time", "description": description});
    let number = |description: &str| json!({"type": "integer", "format": "int64", "description": description});
    let texts = |description: &str| json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description});
    let list = |name: &str, description: &str| {
        json!({"type": "array", "description": description,
        "items": {"allOf": [{"$ref": format!("#/components/schemas/{name}")}]}})
    };
    let object = |description: &str, properties: Value, required: &[&str]| {
        let mut object = field("object", description);
        object["properties"] = properties;
        if !required.is_empty() {
            object["required"] = json!(required);
        }
        object
    };
    let of_object = json!({
        "annotations": texts("Notes of people and programs on the object, by which it cannot be selected."),
        "creationTimestamp": time("When the server made the object."),
        "deletionGracePeriodSeconds": number("How many seconds the object has until it is gone, once it is being deleted."),
        "deletionTimestamp": time("When the object will be or should have been gone; set when it is being deleted."),
        "finalizers": {"type": "array", "items": {"type": "string"},
                       "description": "Who has to agree, by removing their entry, before the object is gone."},
        "generateName": field("string", "What the server begins a name with that it makes itself."),
        "generation": number("Counts changes of what is wanted of the object."),
        "labels": texts("Words by which the object is selected."),
        "managedFields": list(MANAGED_FIELDS, "Who has set which fields."),
        "name": field("string", "The name, unique in its namespace among objects of the type."),
        "namespace": field("string", "The namespace that the object is in; empty for one of the whole cluster."),
        "ownerReferences": list(OWNER_REFERENCE, "The objects with which this one goes."),
        "resourceVersion": field("string", "Changes with every write of the object."),
        "selfLink": field("string", "No longer set."),
        "uid": field("string", "Tells the object from all others, also those that had its name before."),
    });
    let of_owner = json!({
        "apiVersion": field("string", "The group and the version of the owner."),
        "blockOwnerDeletion": field("boolean", "Whether the owner stays until this object is gone, when it is deleted in the foreground."),
        "controller": field("boolean", "Whether the owner is what looks after this object."),
        "kind": field("string", "The kind of the owner."),
        "name": field("string", "The name of the owner."),
        "uid": field("string", "The uid of the owner."),
    });
    let of_fields = json!({
        "apiVersion": field("string", "The group and the version in which the fields are named."),
        "fieldsType": field("string", "How the fields are written: FieldsV1."),
        "fieldsV1": field("object", "The fields."),
        "manager": field("string", "Who has set them."),
        "operation": field("string", "How: Apply or Update."),
        "subresource": field("string", "Through which subresource; empty for the object itself."),
        "time": time("When that was last."),
    });
    let owner = ["apiVersion", "kind", "name", "uid"];
    Map::from_iter([
        (OBJECT_META.to_owned(), object("What objects of every type have.", of_object, &[])),
        (OWNER_REFERENCE.to_owned(), object("An owner: an object with which this one goes.", of_owner, &owner)),
        (MANAGED_FIELDS.to_owned(), object("Who has set which fields, and when.", of_fields, &[])),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::builtin::usual_verbs;
    use crate::types::served::CustomType;

    fn widgets() -> ApiResource {
        ApiResource { verbs: usual_verbs(), ..ApiResource::new("example.com", "v1", "widgets", "Widget") }
    }

    #[test]
    fn a_schema_is_completed_with_what_objects_have() {
        let inside = json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"],
                            "properties": {"metadata": {"type": "object"}, "data": {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {"spec": {"type": "array", "items": inside}}});
        let made = schema_of(&widgets(), Some(&schema));
        let mut object = json!({});
        add_object(&mut object);
        let whole = object["properties"].clone();
        assert_eq!(whole["metadata"]["allOf"], json!([{"$ref": format!("#/components/schemas/{OBJECT_META}")}]));
        assert_eq!(
            made,
            json!({
                "type": "object",
                "properties": {
                    "apiVersion": whole["apiVersion"], "kind": whole["kind"], "metadata": whole["metadata"],
                    "spec": {"type": "array", "items": {
                        "type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind", "apiVersion"],
                        "properties": {"apiVersion": whole["apiVersion"], "kind": whole["kind"],
                                       "metadata": whole["metadata"], "data": {"type": "string"}}}},
                },
                "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
            })
        );
    }

    #[test]
    fn odd_schemas_harm_nothing() {
        const KIND: &str = "x-kubernetes-group-version-kind";
        let nothing = json!({"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}]});
        for odd in [json!(null), json!(3), json!(["a"])] {
            assert_eq!(schema_of(&widgets(), Some(&odd)), nothing, "{odd}");
        }
        let with_object = |mut schema: Value| {
            add_object(&mut schema);
            schema
        };
        let embedded =
            |required: Value| json!({"x-kubernetes-embedded-resource": true, "properties": [], "required": required});
        for (odd, expected) in [
            (json!({"properties": 3}), json!({"properties": 3})),
            (
                json!({"items": [1], "additionalProperties": true}),
                with_object(json!({"items": [1], "additionalProperties": true})),
            ),
            (
                json!({"properties": {"a": 1, "b": embedded(json!(1))}}),
                with_object(json!({"properties": {"a": 1, "b": embedded(json!(["kind", "apiVersion"]))}})),
            ),
        ] {
            let mut made = schema_of(&widgets(), Some(&odd));
            let fields = made.as_object_mut().unwrap();
            assert_eq!(fields.remove(KIND), nothing.get(KIND).cloned(), "{odd}");
            assert_eq!(made, expected, "{odd}");
        }
    }

    #[test]
    fn the_address_of_a_document_changes_with_it() {
        let types = ServedTypes::with_custom(vec![CustomType::of_objects(widgets())]);
        let (first, second) = (index(&types, 1), index(&types, 2));
        let url = |index: &Value, path: &str| index["paths"][path]["serverRelativeURL"].clone();
        assert!(url(&first, "apis/apps/v1").as_str().unwrap().starts_with("/openapi/v3/apis/apps/v1?hash="));
        assert_eq!(url(&first, "apis/apps/v1"), url(&second, "apis/apps/v1"));
        assert_ne!(url(&first, "apis/example.com/v1"), url(&second, "apis/example.com/v1"));
        assert_eq!(document(&ServedTypes::default(), "batch", "v2"), None);
    }
}
