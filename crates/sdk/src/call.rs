//! Calls of what somebody else wrote.

use crate::caught::{caught, caught_now};
use crate::{status, wire};
use lifeboat_action::{ActionError, ActionScope};
use lifeboat_plugin_proto::generated::ResourceSelector;
use tonic::Status;

/// Awaits a call, and turns its error or panic into the status that the server gets.
pub(crate) async fn call<T>(work: impl Future<Output = Result<T, ActionError>>) -> Result<T, Status> {
    let answer = caught(work).await.map_err(|panic| status::of_panic(&panic))?;
    answer.map_err(|error| status::of_error(&error))
}

/// The scope of an action; a panic of the action is an error.
pub(crate) fn applies_to(scope: impl FnOnce() -> ActionScope) -> Result<Option<ResourceSelector>, Status> {
    let scope = caught_now(scope).map_err(|panic| status::of_panic(&panic))?;
    Ok(Some(wire::selector(scope)))
}
