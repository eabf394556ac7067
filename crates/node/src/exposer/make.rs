//! Objects that are made for a transfer: made once, however often it is tried.

use crate::exposer::error::ExposeError;
use crate::kube::{Kube, ObjectName, is_owned_by, text};
use lifeboat_object::ApiResource;
use serde_json::Value;

/// Creates an object that a transfer owns, or takes the one that it owns already.
pub(crate) async fn ensure(kube: &Kube, resource: &ApiResource, object: &Value) -> Result<Value, ExposeError> {
    let (namespace, name) = (text(object, &["metadata", "namespace"]), text(object, &["metadata", "name"]));
    let of = ObjectName { resource, namespace: Some(namespace), name };
    if let Some(made) = kube.create(of, object).await? {
        return Ok(made);
    }
    let owner = text(&object["metadata"]["ownerReferences"][0], &["uid"]);
    match kube.get(of).await? {
        Some(found) if is_owned_by(&found, owner) && found["metadata"]["deletionTimestamp"].is_null() => Ok(found),
        // It goes, and is made anew in the next attempt.
        Some(found) if is_owned_by(&found, owner) => Err(ExposeError::Soon(format!(
            "the {} {namespace}/{name} of an attempt before is being deleted",
            resource.kind
        ))),
        None => Err(ExposeError::Soon(format!("the {} {namespace}/{name} was just deleted", resource.kind))),
        Some(_) => Err(ExposeError::Refused(format!(
            "there is a {} {namespace}/{name} that belongs to something else: delete it if nobody needs it, and try again",
            resource.kind
        ))),
    }
}
