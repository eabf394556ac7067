//! Answers requests for the status of the server (api-and-controllers.md 3.14).

use super::{Context, Effect, Finished};
use crate::world::Kind;
use lifeboat_api::{ServerStatusRequest, ServerStatusRequestPhase, Time};
use lifeboat_client::Identity;

/// Says which version this is and which plugins it has, the built-in ones among them.
pub(crate) async fn answer(context: &Context, request: ServerStatusRequest) -> Finished {
    let mut after = request.clone();
    after.status.phase = Some(ServerStatusRequestPhase::Processed);
    after.status.server_version.clone_from(&context.options.version);
    after.status.processed_timestamp = Some(Time::new(context.env.now()));
    after.status.plugins = context.env.extensions.plugins();
    let stored = context.client.change(&request, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Deletes a request whose time is over.
pub(crate) async fn expire(context: &Context, request: ServerStatusRequest) -> Finished {
    let gone = Identity::of(&request.metadata);
    context.client.delete_exactly::<ServerStatusRequest>(&gone).await?;
    Ok(vec![Effect::Gone(Kind::ServerStatusRequest, gone)])
}
