//! Answers requests for the status of the server (api-and-controllers.md 3.14).

use super::{Context, Effect, Finished};
use crate::world::Kind;
use lifeboat_api::{PluginInfo, ServerStatusRequest, ServerStatusRequestPhase, Time};
use lifeboat_client::Identity;

/// Says which version this is and what is built in.
pub(crate) async fn answer(context: &Context, request: ServerStatusRequest) -> Finished {
    let mut after = request.clone();
    after.status.phase = Some(ServerStatusRequestPhase::Processed);
    after.status.server_version.clone_from(&context.options.version);
    after.status.processed_timestamp = Some(Time::new(context.env.now()));
    let plugins = context.env.providers.plugins();
    after.status.plugins = plugins
        .into_iter()
        .flat_map(|(name, kinds)| {
            kinds.into_iter().map(move |kind| PluginInfo { name: name.clone(), kind: kind.to_owned() })
        })
        .collect();
    let stored = context.client.change(&request, &after).await?;
    Ok(vec![Effect::stored(stored)])
}

/// Deletes a request whose time is over.
pub(crate) async fn expire(context: &Context, request: ServerStatusRequest) -> Finished {
    let gone = Identity::of(&request.metadata);
    context.client.delete_exactly::<ServerStatusRequest>(&gone).await?;
    Ok(vec![Effect::Gone(Kind::ServerStatusRequest, gone)])
}
