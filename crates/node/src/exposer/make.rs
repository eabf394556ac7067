//! Objects that are made for a transfer: made once, however often it is tried.

use crate::exposer::error::ExposeError;
use crate::kube::{Kube, ObjectName, is_owned_by, text};
use lifeboat_api::well_known::LABEL_BACKUP_PVC_SECRET;
use lifeboat_object::ApiResource;
use serde_json::{Value, json};

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

/// Copies an object with data from one namespace to another for the time of a transfer.
pub(crate) async fn copy(
    kube: &Kube,
    resource: &ApiResource,
    from: (&str, &str),
    to_namespace: &str,
    transfer_uid: &str,
) -> Result<(), ExposeError> {
    let (from_namespace, name) = from;
    let source = kube.get(ObjectName { resource, namespace: Some(from_namespace), name }).await?;
    let source = source.ok_or_else(|| {
        ExposeError::Refused(format!(
            "the {} {from_namespace}/{name}, which the ConfigMap of the node agent names, does not exist",
            resource.kind
        ))
    })?;
    let mut wanted = json!({
        "apiVersion": "v1", "kind": resource.kind,
        "metadata": {"name": name, "namespace": to_namespace, "labels": {LABEL_BACKUP_PVC_SECRET: transfer_uid}},
    });
    for field in ["type", "data", "binaryData"] {
        if !source[field].is_null() {
            wanted[field] = source[field].clone();
        }
    }
    let of = ObjectName { resource, namespace: Some(to_namespace), name };
    if kube.create(of, &wanted).await?.is_some() {
        return Ok(());
    }
    let found = kube.get(of).await?.unwrap_or_default();
    let is_same = ["type", "data", "binaryData"].iter().all(|field| found[*field] == wanted[*field])
        && found["metadata"]["labels"][LABEL_BACKUP_PVC_SECRET] == *transfer_uid;
    match is_same {
        true => Ok(()),
        false => Err(ExposeError::Refused(format!(
            "there is a {0} {to_namespace}/{name} with other data: delete it, or give the {0} that the VolumeSnapshotClass names another name",
            resource.kind
        ))),
    }
}
