//! Brings objects that cannot be read to their end, as far as it goes without reading them.

use super::finalizer::removal_of_finalizer;
use super::restore::delete_files;
use super::running::shortened;
use super::{Context, Effect, StepResult};
use crate::unreadable_step::Step;
use crate::world::{MirroredKind, Unreadable};
use lifeboat_api::{BackupStorageLocation, Resource, Restore, Time};
use lifeboat_client::Object;
use lifeboat_lifecycle::phase::restore::FINALIZER;
use serde_json::json;

/// Performs a step; `location` is where the files of a Restore lie. The mirror sees what is written.
pub(crate) async fn end<T: Object>(
    context: &Context,
    object: &Unreadable,
    step: Step,
    location: Option<&BackupStorageLocation>,
) -> StepResult {
    let name = &object.meta.name;
    let message = shortened(format!("the {} cannot be read: {}", T::KIND, object.why));
    let mut patch = match step {
        Step::Refuse if T::KIND == BackupStorageLocation::KIND => {
            json!({"status": {"phase": "Unavailable", "message": message}})
        }
        Step::Refuse => json!({"status": {"phase": "FailedValidation", "validationErrors": [message]}}),
        Step::Fail => {
            let now = Time::new(context.env.now());
            json!({"status": {"phase": "Failed", "failureReason": message, "completionTimestamp": now}})
        }
        Step::CleanUp => return clean_up(context, object, location).await,
    };
    tracing::error!(name, "{message}");
    patch["metadata"] = json!({"resourceVersion": object.meta.resource_version});
    context.client.patch::<T>(name, &patch).await?;
    Ok(Vec::new())
}

async fn clean_up(context: &Context, object: &Unreadable, location: Option<&BackupStorageLocation>) -> StepResult {
    let name = &object.meta.name;
    if let Some(location) = location.filter(|_| object.has_begun()) {
        delete_files(context, &object.identity(), location).await?;
    }
    context.client.patch::<Restore>(name, &removal_of_finalizer(&object.meta, FINALIZER)).await?;
    Ok(vec![Effect::Gone(MirroredKind::Restore, object.identity())])
}
