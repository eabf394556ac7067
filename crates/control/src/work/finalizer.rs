//! Takes finalizers off objects.

use lifeboat_api::ObjectMeta;
use serde_json::{Value, json};

/// The merge patch that takes one finalizer off an object as it was seen.
pub(crate) fn removal_of_finalizer(meta: &ObjectMeta, finalizer: &str) -> Value {
    let left = meta.finalizers_without(finalizer);
    json!({"metadata": {"finalizers": left, "resourceVersion": meta.resource_version}})
}
