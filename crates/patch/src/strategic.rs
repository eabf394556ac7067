//! Strategic merge patch: a merge patch that knows of each list of a type whether it is replaced or merged, and by which key.
//!
//! The OpenAPI document that an API server publishes of its types tells how each field is merged, in the extensions
//! `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` (Kubernetes, sig-api-machinery,
//! strategic-merge-patch.md).

mod error;
mod merge;
mod order;
mod schema;

pub use error::StrategicError;
use error::refused;
use merge::merge_object;
pub use schema::MergeSchema;
use serde_json::Value;

/// Applies a strategic merge patch to an object of the schema's type. After an error the object is as before.
///
/// # Errors
/// [`StrategicError`]: a directive that is none, an element of a list without its key, and, unlike an API server of old, a
/// field that the type does not have and a value of another type than the field.
pub fn strategic_merge(object: &mut Value, patch: &Value, schema: &MergeSchema) -> Result<(), StrategicError> {
    let Value::Object(patch) = patch else { return refused("", "the patch is no object") };
    let mut changed = object.clone();
    let Value::Object(target) = &mut changed else { return refused("", "what is patched is no object") };
    merge_object(target, patch, &schema.root(), "")?;
    *object = changed;
    Ok(())
}

#[cfg(test)]
mod tests;
