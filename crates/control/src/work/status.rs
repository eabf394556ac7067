//! Answers requests for the status of the server (velero: pkg/controller/server_status_request_controller.go).

use super::next_backups::next_backups;
use super::{Context, Effect, StepResult};
use crate::world::MirroredKind;
use lifeboat_api::{ServerStatusRequest, ServerStatusRequestPhase, Time};
use lifeboat_client::ObjectIdentity;
use lifeboat_lifecycle::next_backups::NextBackups;

/// Says which version this is and which plugins it has, the built-in ones among them; and what the next backups would do with volumes,
/// where that is asked for.
pub(crate) async fn answer(context: &Context, request: ServerStatusRequest) -> StepResult {
    let mut after = request.clone();
    after.status.phase = Some(ServerStatusRequestPhase::Processed);
    after.status.server_version.clone_from(&context.options.version);
    after.status.processed_timestamp = Some(Time::new(context.env.now()));
    after.status.plugins = context.env.extensions.plugins();
    if NextBackups::is_asked(&request) {
        next_backups(context).await.note(&mut after);
    }
    let stored = context.client.change(&request, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Deletes a request whose time is over.
pub(crate) async fn expire(context: &Context, request: ServerStatusRequest) -> StepResult {
    let gone = ObjectIdentity::of(&request.metadata);
    context.client.delete_exactly::<ServerStatusRequest>(&gone).await?;
    Ok(vec![Effect::Gone(MirroredKind::ServerStatusRequest, gone)])
}
