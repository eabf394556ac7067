//! The part of an OpenAPI document that tells how the fields of a type are merged.

use super::error::{StrategicError, refused};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The longest chain of references that is followed to a schema.
const DEEPEST: usize = 16;

/// The merge rules for the fields of a type.
#[derive(Clone, Debug)]
pub struct MergeSchema {
    schemas: Arc<Map<String, Value>>,
    root: String,
}

impl MergeSchema {
    /// The schemas of an OpenAPI v3 document of one group and version, as an API server gives it at
    /// `/openapi/v3/apis/GROUP/VERSION`.
    #[must_use]
    pub fn schemas(mut document: Value) -> Arc<Map<String, Value>> {
        match document.pointer_mut("/components/schemas").map(Value::take) {
            Some(Value::Object(schemas)) => Arc::new(schemas),
            _ => Arc::default(),
        }
    }

    /// The schema of a kind; `None` when the document has none that names fields.
    #[must_use]
    pub fn of(schemas: &Arc<Map<String, Value>>, group: &str, version: &str, kind: &str) -> Option<Self> {
        let is_it = |one: &Value| one["group"] == group && one["version"] == version && one["kind"] == kind;
        let mut all = schemas.iter();
        let (root, _) = all.find(|(_, schema)| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            schema["properties"].is_object() && kinds.is_some_and(|kinds| kinds.iter().any(is_it))
        })?;
        Some(Self { schemas: Arc::clone(schemas), root: root.clone() })
    }

    pub(super) fn root(&self) -> Node<'_> {
        let schema = self.schemas.get(&self.root).unwrap_or(&Value::Null);
        Node { schemas: &self.schemas, own: schema, schema }
    }
}

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    schemas: &'a Map<String, Value>,
    /// The schema at this place, with the extensions of the field.
    own: &'a Value,
    /// The schema that `own` refers to, or `own` itself.
    schema: &'a Value,
}

/// A field of an object.
pub(super) enum SchemaField<'a> {
    Known(Node<'a>),
    /// The type has none of that name.
    Unknown,
}

impl<'a> Node<'a> {
    fn at(&self, own: &'a Value) -> Self {
        let mut schema = own;
        for _ in 0..DEEPEST {
            let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
            let name = reference.and_then(|reference| reference.strip_prefix("#/components/schemas/"));
            match name.and_then(|name| self.schemas.get(name)) {
                Some(found) => schema = found,
                None => break,
            }
        }
        Self { schemas: self.schemas, own, schema }
    }

    /// The field of an object. Where nothing is known of fields, each is taken for one without a type.
    pub(super) fn field(&self, name: &str) -> SchemaField<'a> {
        if let Some(own) = self.schema["properties"].get(name) {
            return SchemaField::Known(self.at(own));
        }
        match &self.schema["additionalProperties"] {
            own @ Value::Object(_) => SchemaField::Known(self.at(own)),
            _ if self.schema["properties"].is_object()
                && self.schema["x-kubernetes-preserve-unknown-fields"] != true =>
            {
                SchemaField::Unknown
            }
            _ => SchemaField::Known(self.at(&Value::Null)),
        }
    }

    /// The elements of a list.
    pub(super) fn element(&self) -> Self {
        self.at(&self.schema["items"])
    }

    fn strategies(&self) -> impl Iterator<Item = &'a str> {
        self.own["x-kubernetes-patch-strategy"].as_str().unwrap_or_default().split(',')
    }

    /// Returns true if a list is merged with the list of the patch, element by element.
    pub(super) fn merges(&self) -> bool {
        self.strategies().any(|strategy| strategy == "merge")
    }

    /// Returns true if an object is replaced by the object of the patch.
    pub(super) fn replaces(&self) -> bool {
        self.strategies().any(|strategy| strategy == "replace")
    }

    /// The key by which the elements of a list are told apart; `None` for lists of plain values.
    pub(super) fn merge_key(&self) -> Option<&'a str> {
        self.own["x-kubernetes-patch-merge-key"].as_str()
    }

    /// Refuses a value that is not of the type that the schema gives for this place. A place without a type takes any
    /// value.
    pub(super) fn check_kind(&self, value: &Value, path: &str) -> Result<(), StrategicError> {
        let fits = match self.schema["type"].as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.as_number().is_some_and(|number| number.is_i64() || number.is_u64()),
            Some("number") => value.is_number(),
            _ => true,
        };
        if fits {
            return Ok(());
        }
        let wanted = self.schema["type"].as_str().unwrap_or_default();
        refused(path, format!("{value} is no {wanted}"))
    }
}
