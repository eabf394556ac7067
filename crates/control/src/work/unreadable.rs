//! Says of an object that cannot be read why.

use super::{Context, Finished};
use crate::client::Object;
use crate::world::Unreadable;
use lifeboat_api::{BackupStorageLocation, Resource};
use serde_json::json;

/// Refuses the object, or calls the location unavailable. The mirror sees the rest.
pub(crate) async fn refuse<T: Object>(context: &Context, object: &Unreadable) -> Finished {
    let (name, why) = (&object.identity.name, &object.why);
    let message = format!("the {} cannot be read: {why}", T::KIND);
    tracing::error!(name, "{message}");
    let status = if T::KIND == BackupStorageLocation::KIND {
        json!({"phase": "Unavailable", "message": message})
    } else {
        json!({"phase": "FailedValidation", "validationErrors": [message]})
    };
    let patch = json!({"metadata": {"resourceVersion": object.resource_version}, "status": status});
    context.client.patch::<T>(name, &patch).await?;
    Ok(Vec::new())
}
